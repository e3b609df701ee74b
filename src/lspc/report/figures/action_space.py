"""The paper's picture of the action space: what the CVAE, LSPC-S and LSPC-O do in one state, and what it is worth."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import Polygon

from lspc.algos.lspc import LspcPolicy
from lspc.algos.parts import iql
from lspc.data import Bounds, Dataset
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy
from lspc.report.drawing import BUDGET_COLOUR, SERIES_COLOURS, TEXT_COLOUR, new_figure, save, tidy
from lspc.report.figures import Request
from lspc.report.gather import STATES
from lspc.runs import Run

POLICIES = ("CVAE", "LSPC-S", "LSPC-O")
COLOURS: dict[str, str] = dict(zip(reversed(POLICIES), SERIES_COLOURS, strict=False))
"""As in the other figures."""
DRAWS = 4000
PROBES = 64
"""Actions per state by which a state is chosen."""
NOISE_SEED = 0
GRID = 160
SHARES = (0.9, 0.5)
"""Of a policy's actions, inside the outer and the inner contour."""


class Drawn(NamedTuple):
    """Actions of each policy with noise, the one LSPC-O takes without, and Q_r of the CVAE's."""

    actions: dict[str, np.ndarray]
    chosen: np.ndarray
    values: np.ndarray

    def in_units(self, bounds: Bounds) -> "Drawn":
        actions = {policy: bounds.to_plant(actions) for policy, actions in self.actions.items()}
        return self._replace(actions=actions, chosen=bounds.to_plant(self.chosen))


def draw(asked: Request) -> None:
    """Left: where each policy's actions lie. Right: what the CVAE's are worth, and which part of them is kept."""
    path = asked.runs[0]
    dataset = asked.dataset or Run.open(path).require_dataset()
    trained = load_policy(path, seed=asked.seed)
    net = _checked(trained, dataset, path)
    row = telling_row(net, dataset)
    drawn = draw_actions(net, dataset.observations[row]).in_units(trained.action_bounds)
    first, second = widest(trained.action_bounds.to_unit(drawn.actions["CVAE"]))
    plane = {policy: actions[:, [first, second]] for policy, actions in drawn.actions.items()}
    figure = new_figure(12, 5.4)
    about = trained.card["task"] or path.resolve().name
    title = f"{about}, seed {trained.card['training_seed']}: actions in row {row:,} of the data"
    figure.suptitle(title, fontsize=14, fontweight="bold", color=TEXT_COLOUR)
    left, right = figure.subplots(1, 2, sharex=True, sharey=True, width_ratios=[1, 1.15])
    _draw_densities(left, plane)
    _draw_values(right, plane, drawn.chosen[[first, second]], drawn.values)
    for axes in (left, right):
        tidy(axes)
        axes.set_xlabel(f"action[{first}]")
    left.set_ylabel(f"action[{second}]")
    handles = [handle for axes in (left, right) for handle in axes.get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False)
    save(figure, asked.out)


def _checked(trained: TrainedPolicy, dataset: Dataset, path: Path) -> LspcPolicy:
    net, spec = trained.net, trained.card["spec"]
    if not isinstance(net, LspcPolicy) or not set(POLICIES) <= set(net.variants):
        raise UserError(f"{path} has no {', '.join(POLICIES)}: the picture of actions is of an LSPC run")
    sizes, known = (dataset.observation_dim, dataset.action_dim), (spec["observation_dim"], spec["action_dim"])
    if sizes != known:
        raise UserError(f"{path} was trained on observations and actions of sizes {known}, the data have {sizes}")
    if dataset.action_dim < 2:
        raise UserError(f"{path} has actions of one dimension, and the picture needs two")
    return net


def telling_row(net: LspcPolicy, dataset: Dataset) -> int:
    """Of states spread over the data, the one in which it matters most for cost what the CVAE does: spread of Q_c."""
    rows = np.linspace(0, dataset.transitions - 1, min(STATES, dataset.transitions)).astype(int)
    observations = np.repeat(dataset.observations[rows], PROBES, axis=0)
    noise = np.random.default_rng(NOISE_SEED).standard_normal((len(observations), net.noise_dim), dtype=np.float32)
    actions = net(jnp.asarray(observations), jnp.asarray(noise), "CVAE")
    costs = iql.twin(net.cost_q, net.normaliser(jnp.asarray(observations)), actions, is_cost=True)
    return int(rows[np.asarray(costs).reshape(len(rows), PROBES).std(axis=1).argmax()])


def draw_actions(net: LspcPolicy, observation: np.ndarray) -> Drawn:
    """The same noise for every policy, so that they differ in nothing else."""
    noise = np.random.default_rng(NOISE_SEED).standard_normal((DRAWS, net.noise_dim), dtype=np.float32)
    states = jnp.broadcast_to(jnp.asarray(observation, jnp.float32), (DRAWS, len(observation)))
    actions = {policy: np.asarray(net(states, jnp.asarray(noise), policy)) for policy in POLICIES}
    chosen = np.asarray(net(states[:1], jnp.zeros((1, net.noise_dim)), "LSPC-O"))[0]
    values = iql.twin(net.reward_q, net.normaliser(states), jnp.asarray(actions["CVAE"]), is_cost=False)
    return Drawn(actions, chosen, np.asarray(values))


def widest(actions: np.ndarray) -> tuple[int, int]:
    """The two dimensions in which these actions spread most, in their own order."""
    first, second = sorted(np.argsort(-actions.std(axis=0), kind="stable")[:2].tolist())
    return first, second


def density(actions: np.ndarray, across: np.ndarray, up: np.ndarray) -> np.ndarray:
    """Gaussian kernel density on a grid, rows along `up`; Scott's bandwidth, and at least a cell of the grid."""
    kernels = []
    for places, values in zip((across, up), actions.T, strict=True):
        width = max(float(values.std()) * len(values) ** (-1 / 6), float(places[1] - places[0]))
        kernels.append(np.exp(-0.5 * ((places[:, None] - values) / width) ** 2) / (width * np.sqrt(2 * np.pi)))
    return kernels[1] @ kernels[0].T / len(actions)


def level_of(heights: np.ndarray, share: float) -> float:
    """The height above which this share of the density lies."""
    falling = np.sort(heights, axis=None)[::-1]
    inside = np.cumsum(falling)
    return float(falling[np.searchsorted(inside, share * inside[-1])])


def convex_hull(points: np.ndarray) -> np.ndarray:
    """The hull's corners, counter-clockwise (Andrew's monotone chain); of points on a line, its two ends.

    By hand because Qhull refuses points on a line, which a policy at the edge of the action space gives.
    """
    ordered = np.unique(points, axis=0)
    if len(ordered) < 3:
        return ordered

    def half(path: np.ndarray) -> list[np.ndarray]:
        corners: list[np.ndarray] = []
        for point in path:
            while len(corners) > 1 and _turn(corners[-2], corners[-1], point) <= 0:
                corners.pop()
            corners.append(point)
        return corners[:-1]

    return np.array(half(ordered) + half(ordered[::-1]))


def _turn(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> float:
    """Above zero if the way from a over b to c turns left."""
    return float((b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]))


def _draw_densities(axes: Axes, plane: Mapping[str, np.ndarray]) -> None:
    every = np.concatenate(list(plane.values()))
    low, reach = every.min(axis=0), np.maximum(np.ptp(every, axis=0), 1e-3)
    # The grid ends with the actions: at the edge of the action space a kernel would leak out of it.
    across, up = (np.linspace(low[i], low[i] + reach[i], GRID) for i in range(2))
    for policy, actions in plane.items():
        heights, colour = density(actions, across, up), COLOURS[policy]
        levels = [level_of(heights, share) for share in SHARES]
        axes.contourf(across, up, heights, [*levels, heights.max()], colors=[colour], alpha=0.25)
        axes.contour(across, up, heights, levels, colors=[colour], linewidths=[1, 2])
        axes.plot([], [], color=colour, linewidth=2, label=policy)
    axes.set_xlim(low[0] - 0.05 * reach[0], low[0] + 1.05 * reach[0])
    axes.set_ylim(low[1] - 0.05 * reach[1], low[1] + 1.05 * reach[1])
    title = f"contours hold {SHARES[1]:.0%} and {SHARES[0]:.0%} of {DRAWS:,} draws (noise seed {NOISE_SEED})"
    axes.set_title(title, color=TEXT_COLOUR)


def _draw_values(axes: Axes, plane: Mapping[str, np.ndarray], chosen: np.ndarray, values: np.ndarray) -> None:
    dots = axes.scatter(*plane["CVAE"].T, c=values, s=6, cmap="viridis", linewidths=0)
    hull = Polygon(
        convex_hull(plane["LSPC-S"]), fill=False, edgecolor=TEXT_COLOUR, linewidth=2, label="LSPC-S's hull"
    )
    axes.add_patch(hull)
    axes.plot(*chosen, marker="*", markersize=18, color=BUDGET_COLOUR, markeredgecolor="black", linestyle="none",
              label="LSPC-O's action")  # fmt: skip
    figure = axes.get_figure()
    assert figure is not None
    figure.colorbar(dots, ax=axes, label="Q_r: reward to come, as the critic sees it")
    axes.set_title("what the CVAE's actions are worth", color=TEXT_COLOUR)
