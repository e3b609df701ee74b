"""From a run to files that leave it: the ONNX graph and its card."""

import json
from pathlib import Path

import numpy as np

from lspc import evaluation, files
from lspc.algos.lspc import LspcPolicy
from lspc.calibration import FILE, check
from lspc.calibration.choosing import Choice
from lspc.deploy.card import write_card
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.version import __version__


def export(
    run: str | Path, out: str | Path, *, budget: float | None = None, seed: int | None = None
) -> tuple[Path, Path]:
    """Write the policy of `run` to `out` (.onnx) and its card beside it; returns both paths.

    With a budget, the eps that the calibration chose for it is fixed inside the file; without, it is an input.
    """
    run, out = Path(run), Path(out)
    if out.suffix != ".onnx":
        raise UserError(f"{out}: name a file that ends in .onnx")
    policy = load_policy(run, seed=seed)
    if not isinstance(policy.net, LspcPolicy) or "LSPC-S" not in policy.net.variants:
        raise UserError(f"{run}: policies of LSPC can be exported, not those of {policy.card['method']}")
    choice = None if budget is None else policy.calibration.choose(budget)
    if choice is not None:
        if choice.restriction is None:
            raise UserError(f"budget {budget:g}: {choice.why}")
        policy = policy.at(choice.restriction)
    net = policy.net
    assert isinstance(net, LspcPolicy)
    try:
        from lspc.deploy import onnx_graph
    except ImportError as error:
        raise UserError("onnx is not installed: pip install 'lspc[deploy]'") from error
    model = onnx_graph.build(net, fixed=choice is not None, facts=_facts(policy, net, choice))
    with files.atomic_path(out) as temporary:
        temporary.write_bytes(model.SerializeToString())
    card = out.with_suffix(".md")
    calibration = policy.calibration if policy.folder and (policy.folder / FILE).exists() else None
    write_card(card, out.name, policy, calibration, choice, _measured(run, policy, choice))
    return out, card


def _facts(policy: TrainedPolicy, net: LspcPolicy, choice: Choice | None) -> dict[str, str]:
    """What the file itself says about where it comes from."""
    facts = {
        "lspc_version": __version__,
        "task": policy.card["task"] or "",
        "dataset": policy.card["dataset"]["fingerprint"],
        "training_seed": str(policy.card["training_seed"]),
        "config": files.content_hash(policy.card["config"]),
        "eps": f"{float(net.restriction):g}",
        "eps_range": json.dumps(net.config.restriction_range),
    }
    return facts if choice is None else {**facts, "budget": f"{choice.budget:g}"}


def _measured(run: Path, policy: TrainedPolicy, choice: Choice | None) -> dict[str, float] | None:
    """Mean cost and reward in the simulator at the exported eps, if the run's records have them."""
    wanted = choice.restriction if choice else None
    # By the episode's seed: both files may hold the same episode.
    own = {
        record["seed"]: record
        for name in (evaluation.RECORDS, check.RECORDS)
        if (run / name).exists()
        for record in files.read_jsonl(run / name)
        if record["policy"] == "LSPC-O"
        and record["mode"] == "deterministic"
        and record["task"] == policy.card["task"]
        and record["training_seed"] == policy.card["training_seed"]
        and record.get("restriction") == wanted
        and record.get("guard") is None
    }
    if not own:
        return None
    costs, rewards = (np.array([record[k] for record in own.values()]) for k in ("cost_return", "reward_return"))
    over = float((costs > choice.budget).mean()) if choice else 0.0
    return {"episodes": len(own), "cost": float(costs.mean()), "reward": float(rewards.mean()), "over_budget": over}
