"""The policy card: what a policy was made from, what it is for, and what is not known about it, as Markdown."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lspc import algos, files
from lspc.algos.lspc import LspcPolicy
from lspc.version import __version__

if TYPE_CHECKING:
    from lspc.calibration.choosing import Calibration, Choice, Point
    from lspc.policy import TrainedPolicy


class Exported(NamedTuple):
    """What a card is written from."""

    model: str
    """Name of the ONNX file."""
    name: str
    """Of the policy, as tables have it."""
    policy: "TrainedPolicy"
    calibration: "Calibration | None"
    choice: "Choice | None"
    """Of LSPC-O's eps, if it is fixed in the file."""
    measured: dict[str, float] | None
    """In the simulator: episodes, cost, reward, and over_budget if there is a budget."""

    @property
    def has_eps(self) -> bool:
        return isinstance(self.policy.net, LspcPolicy)

    @property
    def has_safe_action(self) -> bool:
        return "LSPC-S" in self.policy.net.variants

    @property
    def own_eps(self) -> str:
        """What the file takes when it is not told."""
        return f"{self.policy.card['config']['restriction']:g}"

    @property
    def trained_budget(self) -> float | None:
        return self.policy.card["config"].get("budget")


def write_card(path: Path, exported: Exported) -> None:
    sections = (_front, _title, _expected, _data, _use, _limits)
    files.write_text(path, "\n\n".join(section(exported) for section in sections) + "\n")


def _front(exported: Exported) -> str:
    """What a model hub reads."""
    task = exported.policy.card["task"]
    tags = ["reinforcement-learning", "offline-rl", "safe-rl", "lspc", "onnx", *([task] if task else [])]
    lines = ["library_name: lspc", "pipeline_tag: reinforcement-learning", "tags:", *(f"- {tag}" for tag in tags)]
    return "\n".join(["---", *lines, "---"])


def _title(exported: Exported) -> str:
    what = exported.policy.card["task"] or "logged data"
    if exported.has_safe_action:
        return (
            f"# LSPC policy for {what}\n\nA safe policy learned offline with lspc {__version__}, {_eps(exported)}. "
            "The file holds two policies: `action` (LSPC-O) earns reward among safe actions, `safe_action` (LSPC-S) "
            "is the most careful."
        )
    method, budget = exported.policy.card["method"], exported.trained_budget
    aim = "no budget in mind" if budget is None else f"a budget of {budget:g}, the cost that an episode may have"
    return (
        f"# {exported.name} policy for {what}\n\nA policy learned offline with lspc {__version__} by `{method}` "
        f"({algos.METHODS.get(method, 'a method of your own')}), with {aim}"
        f"{'; ' + _eps(exported) if exported.has_eps else ''}."
    )


def _eps(exported: Exported) -> str:
    if exported.choice is None:
        return "with eps, the restriction, as an input"
    budget, eps, risk = exported.choice.budget, exported.choice.restriction, exported.choice.risk
    known = "certified by a pilot with real episodes" if exported.choice.certified else "estimated from logs"
    aim = f"for a mean cost of at most {budget:g} per episode"
    if risk is not None:
        aim = f"for at most {risk:.0%} of episodes that cost more than {budget:g}"
    return f"{aim}, {known} (eps {eps:.3g}, fixed in the file)"


def _expected(exported: Exported) -> str:
    calibration, choice, measured = exported.calibration, exported.choice, exported.measured
    lines, point = ["## What to expect", ""], _find_estimate(calibration, choice)
    if point and calibration:
        lines += [
            "| of an episode | estimate from logs | bound | measured |",
            "|---|---|---|---|",
            f"| cost | {point.cost.mean:.3g} | at most {point.cost.high:.3g} | {_told(measured, 'cost')} |",
            f"| reward | {point.reward.mean:.4g} | {point.reward.low:.4g} to {point.reward.high:.4g} | "
            f"{_told(measured, 'reward')} |",
            *_tail(choice),
            "",
            f"Estimates from logs: by dynamics models learned from the data and checked on held-out episodes. "
            f"Bounds are meant to hold {calibration.confidence:.0%} of the time; nothing guarantees it.",
        ]
    elif calibration:
        lines += _curve(calibration)
    elif not measured:
        predicted = (
            "Neither predicted (`lspc calibrate`) nor measured" if exported.has_safe_action else "Not measured"
        )
        lines.append(f"{predicted} (`lspc evaluate`) yet.")
    lines += _piloted(exported)
    if measured:
        lines += [_measured(exported, measured)] if lines[-1] == "" else ["", _measured(exported, measured)]
    return "\n".join(lines)


def _tail(choice: "Choice | None") -> list[str]:
    """The row of single episodes, where they were asked for."""
    if choice is None or choice.risk is None or choice.tail is None:
        return []
    return [f"| cost that {choice.risk:.0%} of episodes exceed | | at most {choice.tail:.3g} | |"]


def _find_estimate(calibration: "Calibration | None", choice: "Choice | None") -> "Point | None":
    """Of the eps in the file, where the calibration has one that it does not doubt."""
    if calibration is None or choice is None or calibration.doubt:
        return None
    return next((point for point in calibration.curve if point.restriction == choice.restriction), None)


def _piloted(exported: Exported) -> list[str]:
    """What `lspc pilot` proved of this eps for this budget, or that it proved nothing of it."""
    choice = exported.choice
    found = exported.policy.piloted(choice.budget) if choice else None
    if found is None or choice is None:
        return []
    proved = [stage for stage in found.stages if stage.passed and stage.restriction == choice.restriction]
    if proved:
        told = [f"Certificate from real episodes ({found.source}): {stage.explain(found.claim)}." for stage in proved]
    else:
        tried = "; ".join(stage.explain(found.claim) for stage in found.stages)
        told = [f"No certificate for this eps: a pilot with real episodes ({found.source}) found {tried}."]
    return ["", *told]


def _measured(exported: Exported, measured: dict[str, float]) -> str:
    told = f"Measured in the simulator over {measured['episodes']:.0f} episodes"
    if exported.choice is None:
        at_eps = f" at eps {exported.own_eps}" if exported.has_eps else ""
        told += f"{at_eps}: cost {_told(measured, 'cost')}, reward {_told(measured, 'reward')}"
    return told + (f", {measured['over_budget']:.0%} of them over budget." if "over_budget" in measured else ".")


def _curve(calibration: "Calibration") -> list[str]:
    """A few eps, since the user will choose one."""
    if calibration.doubt:
        return [f"Not estimated: {calibration.doubt}."]
    last = len(calibration.curve) - 1
    shown = [calibration.curve[i] for i in sorted({round(last * share / 5) for share in range(6)})]
    return [
        "| eps | estimated cost of an episode | at most | estimated reward | interval |",
        "|---|---|---|---|---|",
        *(
            f"| {p.restriction:.3g} | {p.cost.mean:.3g} | {p.cost.high:.3g} | "
            f"{p.reward.mean:.4g} | {p.reward.low:.4g} to {p.reward.high:.4g} |"
            for p in shown
        ),
        "",
        f"Estimates from logs; bounds and intervals are meant to hold {calibration.confidence:.0%} of the time, "
        "which nothing guarantees.",
    ]


def _told(measured: dict[str, float] | None, name: str) -> str:
    return f"{measured[name]:.4g}" if measured else "not measured"


def _data(exported: Exported) -> str:
    card = exported.policy.card
    data, spec = card["dataset"], card["spec"]
    return (
        f"## What it learned from\n\n{data['episodes_used']:,} logged episodes, {data['transitions_used']:,} steps, "
        f"fingerprint `{data['fingerprint'][:16]}`; observations of size {spec['observation_dim']}, actions of size "
        f"{spec['action_dim']} within {exported.policy.action_bounds}, in the data's units; returns from "
        f"{spec['return_min']:.4g} to {spec['return_max']:.4g}. Trained for {card['config']['steps']:,} "
        f"updates, seed {card['training_seed']}."
    )


def _use(exported: Exported) -> str:
    size = exported.policy.card["spec"]["observation_dim"]
    takes_eps = exported.has_eps and exported.choice is None
    eps = f', "eps": np.array([{exported.own_eps}], np.float32)' if takes_eps else ""
    wanted = ["action", "safe_action"] if exported.has_safe_action else ["action"]
    results, names = ", ".join(wanted), ", ".join(f'"{name}"' for name in wanted)
    text = f"""## How to use it

```python
import numpy as np
import onnxruntime

session = onnxruntime.InferenceSession("{exported.model}")
observation = np.zeros((1, {size}), np.float32)  # as in the data: the file normalises
{results}{"" if len(wanted) > 1 else ","} = session.run([{names}], {{"observation": observation{eps}}})
```"""
    if not exported.has_eps:
        return text
    asked = "`cost`, `reward`, `safe_cost` and `safe_reward`" if exported.has_safe_action else "`cost` and `reward`"
    return f'{text}\n\n`"judge": np.array(True)` also fills {asked}: what the critics expect,\ndiscounted.'


def _limits(exported: Exported) -> str:
    lines = [
        "## Known limits",
        "",
        "- It knows only states like those of the data; elsewhere its actions mean nothing. Nothing checks that.",
        "- The graph does not refuse NaN: check observations before.",
        "- It was trained for no budget: what an episode costs was left to the method and the data."
        if exported.trained_budget is None and not exported.has_eps
        else _keeps(exported.choice),
    ]
    if exported.has_eps and exported.choice is None:
        trained = exported.policy.card["config"]["restriction_range"]
        known = f"from {trained[0]:g} to {trained[1]:g}" if trained else f"{exported.own_eps} alone"
        lines.append(f"- It was trained for eps {known}; the graph accepts other values without warning.")
    if exported.has_safe_action and exported.calibration is None:
        lines.append("- No calibration was made: how much it costs at which eps is not known.")
    if exported.measured is None:
        lines.append("- It has not been tried in a simulator.")
    return "\n".join(lines)


def _keeps(choice: "Choice | None") -> str:
    if choice is None or choice.risk is None:
        return "- A budget is kept on average over episodes, not in each of them."
    return (
        f"- The budget is kept, as far as logs tell, in all but {choice.risk:.0%} of episodes, not in each of them."
    )
