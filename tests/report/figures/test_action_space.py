"""The picture of the action space: its geometry by hand, its state and actions against the policy itself."""

import re
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.made_runs import change_description, make_run
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from lspc import files, policy
from lspc.algos import bc, lspc
from lspc.algos.base import Policy, Spec
from lspc.algos.parts import iql
from lspc.cli import main
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.report.figures import action_space, draw
from lspc.report.figures.action_space import convex_hull, density, level_of, telling_row, widest

pytestmark = pytest.mark.slow

SMALL = lspc.Config(hidden=(8, 8), latent_dim=4)


def run_of(folder: Path, dataset: Dataset, net: Policy, spec: Spec, method: str, config: Any) -> Path:
    """A run whose networks are as they begin, which is enough to act."""
    make_run(folder, dataset, method=method)
    description = change_description(folder, config=asdict(config), spec=asdict(spec))
    policy.save(folder / "policy" / "seed-3", net, {**description, "training_seed": 3})
    return folder


def lspc_run(folder: Path, dataset: Dataset, config: lspc.Config = SMALL) -> Path:
    spec = Spec.of(dataset)
    net = lspc.policy(lspc.init(jax.random.key(0), spec, config))
    return run_of(folder, dataset, net, spec, "lspc", config)


def net_of(run: Path) -> lspc.LspcPolicy:
    net = policy.load_policy(run).net
    assert isinstance(net, lspc.LspcPolicy)
    return net


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, dataset: Dataset) -> Path:
    return lspc_run(tmp_path_factory.mktemp("run"), dataset)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Figure]:
    figures: list[Figure] = []
    monkeypatch.setattr(action_space, "save", lambda figure, path: figures.append(figure))
    return figures


def test_a_hull_by_hand() -> None:
    square = np.array([(0, 0), (2, 0), (2, 2), (0, 2)], float)
    inside = np.array([(1, 1), (1, 0), (0.5, 1.5), (2, 2)], float)
    assert convex_hull(np.concatenate([inside, square])).tolist() == square.tolist()
    on_a_line = np.array([(1, 1), (0, 0), (3, 3), (2, 2)], float)
    assert convex_hull(on_a_line).tolist() == [[0, 0], [3, 3]]
    assert convex_hull(np.ones((5, 2))).tolist() == [[1, 1]]


def test_no_point_is_outside_its_hull() -> None:
    points = np.random.default_rng(0).normal(size=(500, 2))
    hull = convex_hull(points)
    for a, b in zip(hull, np.roll(hull, -1, axis=0), strict=True):
        left = (b[0] - a[0]) * (points[:, 1] - a[1]) - (b[1] - a[1]) * (points[:, 0] - a[0])
        assert left.min() > -1e-9


def test_a_density_by_hand() -> None:
    """One Gaussian of known width around each action, and a whole of one."""
    across, up = np.linspace(-4, 4, 81), np.linspace(-6, 6, 121)
    two = np.array([(-1.0, 0.5), (1.0, 0.5)])
    heights = density(two, across, up)
    assert heights.shape == (121, 81)
    assert heights.sum() * 0.1 * 0.1 == pytest.approx(1, abs=1e-3)
    assert np.unravel_index(heights.argmax(), heights.shape)[0] == np.argmin(np.abs(up - 0.5))
    # Scott: the spread 1 across times 2^(-1/6); no spread upwards, hence a cell of the grid.
    wide, narrow = 2 ** (-1 / 6), 0.1
    middle = np.exp(-0.5 / wide**2) / (2 * np.pi * wide * narrow)
    assert heights[np.argmin(np.abs(up - 0.5)), 40] == pytest.approx(middle, rel=1e-6)


def test_the_level_that_holds_a_share() -> None:
    heights = np.array([[4.0, 1.0], [3.0, 2.0]])
    assert level_of(heights, 0.4) == 4
    assert level_of(heights, 0.7) == 3
    assert level_of(heights, 0.75) == 2
    assert level_of(heights, 0.95) == 1


def test_the_two_widest_dimensions_in_their_order() -> None:
    noise = np.random.default_rng(0).normal(size=(100, 4))
    assert widest(noise * [0.1, 3.0, 0.2, 5.0]) == (1, 3)
    assert widest(noise[:, :2] * [1.0, 9.0]) == (0, 1)


def test_the_state_is_the_one_where_the_critic_of_cost_is_in_most_doubt(
    run: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(action_space, "STATES", 12)
    net = net_of(run)
    rows = np.linspace(0, dataset.transitions - 1, action_space.STATES).astype(int)
    noise = np.random.default_rng(5).standard_normal((400, net.noise_dim), dtype=np.float32)
    spreads = {}
    for row in rows.tolist():
        states = jnp.asarray(np.repeat(dataset.observations[row : row + 1], 400, axis=0))
        drawn = net(states, jnp.asarray(noise), "CVAE")
        spreads[row] = float(jnp.std(iql.twin(net.cost_q, net.normaliser(states), drawn, is_cost=True)))
    chosen = telling_row(net, dataset)
    assert chosen in spreads
    assert sorted(spreads.values(), reverse=True).index(spreads[chosen]) < 3  # other noise, nearly the same order
    assert telling_row(net, dataset) == chosen


def test_what_is_drawn(run: Path, dataset: Dataset, drawn: list[Figure], tmp_path: Path) -> None:
    draw("action-space", tmp_path / "unused.png", runs=[run], dataset=dataset)
    net, row = net_of(run), telling_row(net_of(run), dataset)
    left, right, _ = drawn[0].axes
    assert drawn[0].get_suptitle() == f"BallRun, seed 3: actions in row {row:,} of the data"
    assert (left.get_xlabel(), right.get_xlabel(), left.get_ylabel()) == ("action[0]", "action[0]", "action[1]")

    dots = right.collections[0]
    places, values = np.asarray(dots.get_offsets()), np.asarray(dots.get_array())
    states = jnp.asarray(np.repeat(dataset.observations[row : row + 1], action_space.DRAWS, axis=0))
    assert places.shape == (action_space.DRAWS, 2)
    worth = iql.twin(net.reward_q, net.normaliser(states), jnp.asarray(places, jnp.float32), is_cost=False)
    assert values == pytest.approx(np.asarray(worth), abs=1e-5)

    star = next(line for line in right.get_lines() if line.get_label() == "LSPC-O's action")
    usual = policy.load_policy(run, variant="LSPC-O").act(dataset.observations[row])
    assert np.asarray(star.get_xydata())[0] == pytest.approx(usual, abs=1e-6)

    (hull,) = (patch for patch in right.patches if isinstance(patch, Polygon))
    safe = policy.load_policy(run, variant="LSPC-S").act(dataset.observations[row])
    assert hull.get_path().contains_point((safe[0], safe[1]))  # the middle of its latents
    assert np.ptp(hull.get_xy(), axis=0).max() < np.ptp(places, axis=0).max()

    (legend,) = drawn[0].legends
    told = [text.get_text() for text in legend.get_texts()]
    assert told == ["CVAE", "LSPC-S", "LSPC-O", "LSPC-S's hull", "LSPC-O's action"]
    assert len({to_rgba(line.get_color()) for line in left.get_lines()}) == 3


def test_the_same_run_gives_the_same_file(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        draw("action-space", tmp_path / name, runs=[run], dataset=dataset, seed=3)
    content = (tmp_path / "a.png").read_bytes()
    assert content.startswith(b"\x89PNG")
    assert content == (tmp_path / "b.png").read_bytes()


def test_more_dimensions_and_a_policy_that_always_does_the_same(
    dataset: Dataset, drawn: list[Figure], tmp_path: Path
) -> None:
    four = replace(dataset, actions=np.tile(dataset.actions, 2))
    run = lspc_run(tmp_path / "four", four)
    draw("action-space", tmp_path / "unused.png", runs=[run], dataset=four)
    left = drawn[0].axes[0]
    assert re.fullmatch(r"action\[[0-3]\]", left.get_xlabel())
    assert left.get_xlabel() < left.get_ylabel()

    # A decoder of zeros gives the same action for every latent: nothing spreads, and there is still a picture.
    net = eqx.tree_at(
        lambda net: net.decoder, net_of(run), replace_fn=lambda decoder: jax.tree.map(jnp.zeros_like, decoder)
    )
    policy.save(run / "policy" / "seed-3", net, files.read_json(run / "policy" / "seed-3" / "card.json"))
    draw("action-space", tmp_path / "still.png", runs=[run], dataset=four)


def test_refusals(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    out = tmp_path / "unused.png"
    one = replace(dataset, actions=dataset.actions[:, :1])
    config = bc.Config(hidden=(8, 8))
    cloned = bc.policy(bc.init(jax.random.key(0), Spec.of(dataset), config))
    for folder, data, told in [
        (run, one, r"sizes \(7, 2\), the data have \(7, 1\)"),
        (lspc_run(tmp_path / "one", one), one, "actions of one dimension"),
        (lspc_run(tmp_path / "swapped", dataset, replace(SMALL, roles="converse")), dataset, "has no CVAE, LSPC-S"),
        (run_of(tmp_path / "bc", dataset, cloned, Spec.of(dataset), "bc", config), dataset, "is of an LSPC run"),
    ]:
        with pytest.raises(UserError, match=told):
            draw("action-space", out, runs=[folder], dataset=data)
    with pytest.raises(UserError, match="has no seed 0: it has 3"):
        draw("action-space", out, runs=[run], dataset=dataset, seed=0)
    assert not out.exists()


def test_the_verb_refuses_the_wrong_number_of_runs_and_missing_data(
    run: Path, data_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for arguments, told in [
        (["action-space"], "was given 0 runs; the command is: lspc figure action-space RUN"),
        (["maps", run], "was given 1 runs; the command is: lspc figure maps"),
        (["converse", run], "the command is: lspc figure converse RUN CONVERSE_RUN"),
        (["dataset-profile"], "name the dataset: lspc figure dataset-profile --data FILE"),
        (["action-space", run], "is not at arrays any more: add --data FILE"),
        (["lambda"], "was given 0 runs; the command is: lspc figure lambda RUN ..."),
        (["portrait"], "unknown figure 'portrait': choose one of training-curves, action-space"),
        (["expectile", run], "has no evaluations.jsonl"),
        (["restriction-sweep", run], "has no evaluations.jsonl"),
        (["training-curves", run], "has no curve.jsonl"),
    ]:
        with pytest.raises(SystemExit):
            main(["figure", *map(str, arguments)])
        assert told in capsys.readouterr().err.splitlines()[-1]
    for arguments in (
        ["action-space", run, "--data", data_file, "--seeds", 3],
        ["dataset-profile", "--data", data_file],
    ):
        picture = tmp_path / f"{arguments[0]}.png"
        main(["figure", *map(str, arguments), "--out", str(picture)])
        assert picture.read_bytes().startswith(b"\x89PNG")
