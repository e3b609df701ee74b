"""The policy card: what a policy was made from, what it is for, and what is not known about it, as Markdown."""

from pathlib import Path
from typing import TYPE_CHECKING

from lspc import files
from lspc.version import __version__

if TYPE_CHECKING:
    from lspc.calibration.choosing import Calibration, Choice
    from lspc.policy import TrainedPolicy


def write_card(
    path: Path,
    model: str,
    policy: "TrainedPolicy",
    calibration: "Calibration | None",
    choice: "Choice | None",
    measured: dict[str, float] | None,
) -> None:
    parts = [
        _front(policy),
        _title(policy, choice),
        _expected(policy, calibration, choice, measured),
        _data(policy),
        _use(model, policy, choice),
        _limits(policy, calibration, choice, measured),
    ]
    files.write_text(path, "\n\n".join(parts) + "\n")


def _front(policy: "TrainedPolicy") -> str:
    """What a model hub reads."""
    task = [f"- {policy.card['task']}"] if policy.card["task"] else []
    tags = ["- reinforcement-learning", "- offline-rl", "- safe-rl", "- lspc", "- onnx", *task]
    return "\n".join(["---", "library_name: lspc", "pipeline_tag: reinforcement-learning", "tags:", *tags, "---"])


def _title(policy: "TrainedPolicy", choice: "Choice | None") -> str:
    what = policy.card["task"] or "logged data"
    aim = (
        f"for a cost of at most {choice.budget:g} per episode (eps {choice.restriction:.3g}, fixed in the file)"
        if choice
        else "with eps, the restriction, as an input"
    )
    return (
        f"# LSPC policy for {what}\n\nA safe policy learned offline with lspc {__version__}, {aim}. The file holds "
        "two policies: `action` (LSPC-O) earns reward among safe actions, `safe_action` (LSPC-S) is the most careful."
    )


def _expected(
    policy: "TrainedPolicy",
    calibration: "Calibration | None",
    choice: "Choice | None",
    measured: dict[str, float] | None,
) -> str:
    lines = ["## What to expect", ""]
    if choice and choice.cost and choice.reward and calibration:
        lines += [
            "| of an episode | predicted from data | interval | measured |",
            "|---|---|---|---|",
            f"| cost | {choice.cost.mean:.3g} | {choice.cost.low:.3g} to {choice.cost.high:.3g} | "
            f"{_told(measured, 'cost')} |",
            f"| reward | {choice.reward.mean:.4g} | {choice.reward.low:.4g} to {choice.reward.high:.4g} | "
            f"{_told(measured, 'reward')} |",
            "",
            f"Intervals are meant to hold the truth {calibration.confidence:.0%} of the time. The predictions come "
            "from dynamics models learned from the data, and were checked on held-out episodes.",
        ]
    elif calibration:
        lines += _curve(calibration)
    elif not measured:
        lines.append("Neither predicted (`lspc calibrate`) nor measured (`lspc evaluate`) yet.")
    if measured:
        told = f"Measured in the simulator over {measured['episodes']:.0f} episodes"
        if choice:
            told += f", {measured['over_budget']:.0%} of them over budget."
        else:
            told += f" at eps {_own_eps(policy)}: cost {_told(measured, 'cost')}, reward {_told(measured, 'reward')}."
        lines += [told] if lines[-1] == "" else ["", told]
    return "\n".join(lines)


def _own_eps(policy: "TrainedPolicy") -> str:
    """What the file takes when it is not told."""
    return f"{policy.card['config']['restriction']:g}"


def _curve(calibration: "Calibration") -> list[str]:
    """A few eps, since the user will choose one."""
    last = len(calibration.curve) - 1
    shown = [calibration.curve[i] for i in sorted({round(last * share / 5) for share in range(6)})]
    return [
        "| eps | predicted cost of an episode | interval | predicted reward | interval |",
        "|---|---|---|---|---|",
        *(
            f"| {p.restriction:.3g} | {p.cost.mean:.3g} | {p.cost.low:.3g} to {p.cost.high:.3g} | "
            f"{p.reward.mean:.4g} | {p.reward.low:.4g} to {p.reward.high:.4g} |"
            for p in shown
        ),
        "",
        f"Predicted from data alone; intervals are meant to hold the truth {calibration.confidence:.0%} of the time.",
    ]


def _told(measured: dict[str, float] | None, name: str) -> str:
    return f"{measured[name]:.4g}" if measured else "not measured"


def _data(policy: "TrainedPolicy") -> str:
    data, spec = policy.card["dataset"], policy.card["spec"]
    return (
        f"## What it learned from\n\n{data['episodes_used']:,} logged episodes, {data['transitions_used']:,} steps, "
        f"fingerprint `{data['fingerprint'][:16]}`; observations of size {spec['observation_dim']}, actions of size "
        f"{spec['action_dim']} within 1; returns from {spec['return_min']:.4g} to {spec['return_max']:.4g}. Trained "
        f"for {policy.card['config']['steps']:,} updates, seed {policy.card['training_seed']}."
    )


def _use(model: str, policy: "TrainedPolicy", choice: "Choice | None") -> str:
    size = policy.card["spec"]["observation_dim"]
    eps = "" if choice else f', "eps": np.array([{_own_eps(policy)}], np.float32)'
    return f"""## How to use it

```python
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("{model}")
observation = np.zeros((1, {size}), np.float32)  # as in the data: the file normalises
action, safe_action = session.run(["action", "safe_action"], {{"observation": observation{eps}}})
```

`"judge": np.array(True)` also fills `cost`, `reward`, `safe_cost` and `safe_reward`: what the critics expect,
discounted."""


def _limits(
    policy: "TrainedPolicy",
    calibration: "Calibration | None",
    choice: "Choice | None",
    measured: dict[str, float] | None,
) -> str:
    lines = [
        "## Known limits",
        "",
        "- It knows only states like those of the data; elsewhere its actions mean nothing. Nothing checks that.",
        "- A budget is kept on average over episodes, not in each of them.",
        "- The graph does not refuse NaN: check observations before.",
    ]
    if choice is None:
        trained = policy.card["config"]["restriction_range"]
        known = f"from {trained[0]:g} to {trained[1]:g}" if trained else f"{_own_eps(policy)} alone"
        lines.append(f"- It was trained for eps {known}; the graph takes any other without a word.")
    if calibration is None:
        lines.append("- No calibration was made: how much it costs at which eps is not known.")
    if measured is None:
        lines.append("- It has not been tried in a simulator.")
    return "\n".join(lines)
