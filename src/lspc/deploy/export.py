"""From a run to files that leave it: the ONNX graph and its card."""

import json
from pathlib import Path
from types import ModuleType

import numpy as np

from lspc import evaluation, files
from lspc.algos.base import SequencePolicy
from lspc.algos.lspc import LspcPolicy
from lspc.calibration.choosing import Choice
from lspc.deploy.card import Exported, write_card
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.runs import Run, layout
from lspc.version import __version__


def export(
    run: str | Path,
    out: str | Path,
    *,
    budget: float | None = None,
    risk: float | None = None,
    seed: int | None = None,
) -> tuple[Path, Path]:
    """Write the policy of `run` to `out` (.onnx) and its card beside it; returns both paths.

    With a budget, the eps that a pilot has certified for it, or else that LSPC's calibration chose, is fixed inside
    the file; without, it is an input. With a `risk` too, the calibration's choice bounds the share of episodes that
    exceed the budget instead of their mean.
    """
    if risk is not None and budget is None:
        raise UserError("--risk is the chance of exceeding a budget: add --budget")
    run, out = Path(run), Path(out)
    if out.suffix != ".onnx":
        raise UserError(f"{out}: name a file that ends in .onnx")
    policy = load_policy(run, seed=seed)
    _check_exportable(run, policy, budget)
    choice = None if budget is None else policy.choose(budget, risk)
    if choice is not None:
        if choice.restriction is None:
            raise UserError(f"budget {budget:g}: {choice.why}")
        policy = policy.at(choice.restriction)
    onnx_policies = require_onnx()
    name = evaluation.policy_name(policy.variant, policy.card["method"], policy.card["config"])
    model = onnx_policies.build(
        policy.net, fixed=choice is not None, facts=_facts(policy, name, choice), bounds=policy.action_bounds
    )  # fmt: skip
    with files.atomic_path(out) as temporary:
        temporary.write_bytes(model.SerializeToString())
    card = out.with_suffix(".md")
    calibration = policy.calibration if policy.folder and (policy.folder / layout.CALIBRATION).exists() else None
    measured = _measure(run, policy, name, choice)
    write_card(card, Exported(out.name, name, policy, calibration, choice, measured))
    return out, card


def require_onnx() -> ModuleType:
    """What builds the graphs, or a word on how to get it."""
    try:
        from lspc.deploy import onnx_policies
    except ImportError as error:
        raise UserError("onnx is not installed: pip install 'lspc[deploy]'") from error
    return onnx_policies


def _check_exportable(run: Path, policy: TrainedPolicy, budget: float | None) -> None:
    method = policy.card["method"]
    if isinstance(policy.net, SequencePolicy):
        raise UserError(
            f"{run}: a policy of {method} remembers its episode; only those that act on the observation alone can be "
            "exported"
        )
    if budget is not None and "LSPC-S" not in policy.net.variants:
        raise UserError(
            f"{run}: a budget fixes the restriction of LSPC-O, and a policy of {method} has none to fix; export it "
            "without one"
        )


def _facts(policy: TrainedPolicy, name: str, choice: Choice | None) -> dict[str, str]:
    """What the file itself says about where it comes from."""
    facts = {
        "lspc_version": __version__,
        "method": policy.card["method"],
        "policy": name,
        "task": policy.card["task"] or "",
        "dataset": policy.card["dataset"]["fingerprint"],
        "training_seed": str(policy.card["training_seed"]),
        "config": files.content_hash(policy.card["config"]),
        "action_low": json.dumps(policy.action_bounds.low),
        "action_high": json.dumps(policy.action_bounds.high),
    }
    if isinstance(policy.net, LspcPolicy):
        facts["eps"] = f"{float(policy.net.restriction):g}"
        facts["eps_range"] = json.dumps(policy.net.config.restriction_range)
    budget = choice.budget if choice else policy.card["config"].get("budget")
    if choice and choice.risk is not None:
        facts["risk"] = f"{choice.risk:g}"
    return facts if budget is None else {**facts, "budget": f"{budget:g}"}


def _measure(run: Path, policy: TrainedPolicy, name: str, choice: Choice | None) -> dict[str, float] | None:
    """Mean cost and reward in the simulator at the exported eps, if the run's records have them."""
    if not layout.is_run(run):
        return None
    opened, wanted = Run.open(run), choice.restriction if choice else None
    # By the episode's seed: both files may hold the same episode.
    own = {
        record.seed: record
        for file in (layout.EVALUATIONS, layout.VERIFICATION)
        for record in opened.records(file)
        if (record.policy, record.mode, record.guard) == (name, "deterministic", None)
        and (record.task, record.training_seed) == (policy.card["task"], policy.card["training_seed"])
        and record.restriction == wanted
    }
    if not own:
        return None
    costs = np.array([record.cost_return for record in own.values()])
    rewards = np.array([record.reward_return for record in own.values()])
    measured = {"episodes": len(own), "cost": float(costs.mean()), "reward": float(rewards.mean())}
    budget = choice.budget if choice else policy.card["config"].get("budget")
    return measured if budget is None else {**measured, "over_budget": float((costs > budget).mean())}
