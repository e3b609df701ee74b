"""The picture of a calibration: predicted cost and reward over eps, the budgets, and the truth where it is known."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes

from lspc.calibration.check import Verification
from lspc.calibration.choosing import Calibration, Choice
from lspc.report.drawing import BUDGET_COLOUR, EPISODE_COLOUR, TEXT_COLOUR, new_figure, save, tidy


def calibration_figure(
    calibration: Calibration, choices: Sequence[Choice], verified: Verification | None, path: str | Path, title: str
) -> None:
    """Write a PNG: above, cost with the budgets and the eps chosen for each; below, reward."""
    figure = new_figure(8, 7)
    upper, lower = figure.subplots(2, 1, sharex=True)
    figure.suptitle(title, fontsize=14, fontweight="bold", color=TEXT_COLOUR)
    for axes, name in ((upper, "cost"), (lower, "reward")):
        _draw_curve(axes, calibration, name)
        if verified:
            eps = [truth.restriction for truth in verified.truths]
            label = f"in the simulator, {verified.episodes} episodes"
            axes.plot(eps, [getattr(t, name) for t in verified.truths], "o", color=TEXT_COLOUR, ms=4, label=label)
        axes.set_ylabel(f"{name} of an episode")
        tidy(axes)
    for number, choice in enumerate(choices):
        _draw_choice(upper, choice, place=0.01 + 0.2 * (number % 2))
    if any(choice.restriction is not None for choice in choices):
        upper.plot([], [], "v", color=BUDGET_COLOUR, label="upper bound at the chosen eps")
    largest = max(choice.budget for choice in choices) if choices else 0.0
    upper.set_ylim(bottom=-0.02 * largest, top=max(3.0 * largest, 10.0))
    lower.set_xlabel("eps: how far LSPC-O may look for reward")
    upper.legend(loc="upper left", framealpha=0.95)
    save(figure, path)


def _draw_curve(axes: Axes, calibration: Calibration, name: str) -> None:
    eps = [point.restriction for point in calibration.curve]
    estimates = [getattr(point, name) for point in calibration.curve]
    shaded = "shaded up to its bound" if name == "cost" else "interval shaded"
    label = f"estimate from logs, {shaded} ({calibration.confidence:.0%})"
    axes.fill_between(
        eps, [e.low for e in estimates], [e.high for e in estimates], color=EPISODE_COLOUR, alpha=0.2, linewidth=0
    )
    axes.plot(eps, [e.mean for e in estimates], color=EPISODE_COLOUR, label=label)


def _draw_choice(axes: Axes, choice: Choice, place: float) -> None:
    """The budget's line with its name at `place` of the width, so that those of close budgets do not meet."""
    axes.axhline(choice.budget, color=BUDGET_COLOUR, linestyle="--", linewidth=1.2)
    told = f"budget {choice.budget:g}: " + (
        f"eps {choice.restriction:.2g}" if choice.restriction is not None else "none fits"
    )
    axes.annotate(
        told,
        xy=(place, choice.budget),
        xycoords=("axes fraction", "data"),
        xytext=(0, 3),
        textcoords="offset points",
        fontsize=9,
        color=BUDGET_COLOUR,
        bbox={"facecolor": "white", "edgecolor": "none", "pad": 0.5},  # over the line of a budget just above
    )
    if choice.restriction is not None and choice.cost is not None:
        axes.plot([choice.restriction], [choice.cost.high], "v", color=BUDGET_COLOUR, ms=8)
