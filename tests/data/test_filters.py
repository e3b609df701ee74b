"""Every filter against a slow and plain statement of its rule."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.cli import TINY, Cli

from lspc.data import Dataset, load, save
from lspc.data.filters import FILTERS, apply_filters, usage
from lspc.data.validate import CONTINUITY_TOLERANCE
from lspc.errors import UserError
from lspc.runs import Run


def make_dataset(episodes: int = 40, seed: int = 0) -> Dataset:
    """Episodes of unequal length, some of them without any cost."""
    rng = np.random.default_rng(seed)
    parts = []
    for episode in range(episodes):
        length = int(rng.integers(3, 9))
        path = rng.normal(size=(length + 1, 2)) * [1.0, 50.0]
        parts.append({
            "observations": path, "actions": rng.uniform(-1, 1, (length, 1)),
            "rewards": rng.uniform(0, 1, length) + episode / 40,
            "costs": rng.integers(0, 3, length) * (episode % 4 > 0), "terminated": bool(episode % 2),
        })  # fmt: skip
    return Dataset.from_episodes(parts)


def episodes_of(dataset: Dataset) -> list[dict[str, list[Any]]]:
    """The same as plain lists."""
    names = ("observations", "next_observations", "actions", "rewards", "costs", "terminated", "truncated")
    return [{name: getattr(dataset, name)[rows].tolist() for name in names} for rows in dataset.episodes]


def cost_of(episode: dict[str, list[Any]]) -> float:
    return sum(episode["costs"])


def return_of(episode: dict[str, list[Any]]) -> float:
    return sum(episode["rewards"])


def run(text: str, dataset: Dataset | None = None, seed: int = 0) -> list[dict[str, list[Any]]]:
    return episodes_of(apply_filters(dataset or make_dataset(), [text], seed))


ALL = episodes_of(make_dataset())


def test_safe_only_leaves_no_cost() -> None:
    plain = [episode for episode in ALL if all(cost == 0 for cost in episode["costs"])]
    assert 0 < len(plain) < len(ALL)
    assert run("safe-only") == plain


@pytest.mark.parametrize("cost", [0, 3, 5.5, 100])
def test_max_cost_keeps_what_costs_at_most_that(cost: float) -> None:
    assert run(f"max-cost={cost}") == [episode for episode in ALL if cost_of(episode) <= cost]


@pytest.mark.parametrize("share", [0.001, 0.5, 1])
def test_subsample_draws_episodes_and_keeps_their_order(share: float) -> None:
    kept = run(f"subsample={share}")
    places = [ALL.index(episode) for episode in kept]
    assert places == sorted(set(places))
    assert len(kept) == max(round(share * len(ALL)), 1)
    if share == 0.5:
        assert run("subsample=0.5", seed=1) != kept
        assert {ALL.index(episode) for seed in range(40) for episode in run("subsample=0.1", seed=seed)} == set(
            range(len(ALL))
        )


@pytest.mark.parametrize(("text", "sizes"), [("grid=3:4:5:1", (3, 4, 5, 1)), ("grid=2:1:3:0", (2, 1, 3, 0))])
def test_grid_thins_out_each_cell(text: str, sizes: tuple[int, int, int, int]) -> None:
    rows, columns, most, least = sizes

    def cell(episode: dict[str, list[Any]]) -> tuple[int, int]:
        place = []
        for value, values, bins in (
            (cost_of(episode), [cost_of(each) for each in ALL], rows),
            (return_of(episode), [return_of(each) for each in ALL], columns),
        ):
            edges = [min(values) + (max(values) - min(values)) * i / bins for i in range(1, bins)]
            place.append(sum(value >= edge for edge in edges))
        return place[0], place[1]

    before, after = Counter(map(cell, ALL)), Counter(map(cell, run(text)))
    assert after == {place: min(count, most) for place, count in before.items() if count > least}
    assert any(count > most for count in before.values())


def test_noise_reads_every_moment_once() -> None:
    dataset = make_dataset(400)
    noisy = apply_filters(dataset, ["noise=0.1"], 0)
    before, after = episodes_of(dataset), episodes_of(noisy)
    for episode, changed in zip(before, after, strict=True):
        assert changed["observations"][1:] == changed["next_observations"][:-1]
        assert changed["observations"] != episode["observations"]
        assert all(changed[name] == episode[name] for name in ("actions", "rewards", "costs", "terminated"))
    added = noisy.observations - dataset.observations
    last = (noisy.next_observations - dataset.next_observations)[dataset.terminated | dataset.truncated]
    for moved in (added, last):
        np.testing.assert_allclose(moved.std(axis=0), 0.1 * dataset.observations.std(axis=0), rtol=0.15)
        np.testing.assert_allclose(moved.mean(axis=0) / dataset.observations.std(axis=0), 0, atol=0.02)
    assert CONTINUITY_TOLERANCE < 0.01  # else the round trip below would prove nothing


def test_noisy_data_can_be_written_and_opened(tmp_path: Path) -> None:
    noisy = apply_filters(make_dataset(), ["noise=0.5"], 3)
    save(noisy, tmp_path / "noisy.hdf5")
    assert load(tmp_path / "noisy.hdf5").fingerprint == noisy.fingerprint


def test_outliers_pretend_to_be_safe() -> None:
    changed = run("outliers=0.1:3")
    most_cost, most_return = max(map(cost_of, ALL)), max(map(return_of, ALL))
    lying = [number for number, episode in enumerate(changed) if episode != ALL[number]]
    assert 0 < len(lying) <= int(0.1 * len(ALL))
    for number in lying:
        assert cost_of(ALL[number]) >= most_cost / 2
        assert return_of(ALL[number]) >= most_return / 2
        assert cost_of(changed[number]) < 3
        assert set(changed[number]["costs"]) <= {0.0, 1.0}
        np.testing.assert_allclose(changed[number]["rewards"], 1.5 * np.array(ALL[number]["rewards"]), rtol=1e-6)
        assert changed[number]["observations"] == ALL[number]["observations"]
    assert len([n for n, episode in enumerate(run("outliers=0.0001:3")) if episode != ALL[n]]) == 1


def test_inpaint_cuts_a_window_out_of_the_plane() -> None:
    costs, returns = [cost_of(episode) for episode in ALL], [return_of(episode) for episode in ALL]

    def inside(episode: dict[str, list[Any]]) -> bool:
        cost = (cost_of(episode) - min(costs)) / (max(costs) - min(costs))
        reward = (return_of(episode) - min(returns)) / (max(returns) - min(returns))
        return 0.2 <= cost <= 0.7 and 0 <= reward <= 0.5

    kept = run("inpaint=0.2:0.7:0:0.5")
    assert kept == [episode for episode in ALL if not inside(episode)]
    assert len(kept) < len(ALL)


@pytest.mark.parametrize("eps", [2.0, 0.0, -2.0])
def test_eps_reduce_takes_the_best_away(eps: float) -> None:
    group = [episode for episode in ALL if (cost_of(episode) <= 4) == (eps >= 0)]
    best = max(map(return_of, group))
    plain = [episode for episode in ALL if episode not in group or return_of(episode) < best - abs(eps) - 1e-6]
    assert 0 < len(plain) < len(ALL)
    assert run(f"eps-reduce={eps}:4") == plain


def test_filters_follow_each_other_and_are_told() -> None:
    dataset = apply_filters(make_dataset(), ["max-cost=5", "subsample=0.5"], 0)
    assert dataset.warnings[-2].endswith(f"filter max-cost=5: {len(run('max-cost=5'))} of 40 episodes")
    half = round(len(run("max-cost=5")) / 2)
    assert dataset.warnings[-1].endswith(f"filter subsample=0.5: {half} of {len(run('max-cost=5'))} episodes")


@pytest.mark.parametrize("name", FILTERS)
def test_the_same_seed_does_the_same(name: str) -> None:
    numbers = {"max-cost": "5", "subsample": "0.5", "noise": "0.1", "outliers": "0.1:3", "inpaint": "0:0.5:0:0.5",
               "eps-reduce": "1:4", "grid": "2:2:4:1"}  # fmt: skip
    text = f"{name}={numbers[name]}" if name in numbers else name
    assert run(text, seed=7) == run(text, seed=7) != ALL


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("nothing", "there is no filter 'nothing'; there are safe-only, max-cost=COST"),
        ("max-cost", "write max-cost=COST"),
        ("max-cost=much", "write max-cost=COST with numbers"),
        ("max-cost=nan", "write max-cost=COST"),
        ("safe-only=3", "write safe-only"),
        ("grid=1:2", r"write grid[=COSTS:RETURNS:MOST:LEAST]"),
        ("grid=0:1:1:1", "must be 1 or more"),
        ("max-cost=-1", "no episode was selected"),
        ("subsample=2", "SHARE must be above 0"),
        ("outliers=0.9:3", "are wanted"),
        ("eps-reduce=1:-1", "no episode costs at most -1"),
    ],
)
def test_what_cannot_be_done_is_told_in_one_line(text: str, told: str) -> None:
    with pytest.raises(UserError) as refused:
        run(text)
    assert told in str(refused.value)
    assert f"--filter {text}: " in str(refused.value)
    assert str(refused.value).count("list of episodes") <= 1


def test_usage_is_how_it_is_written_and_the_docs_have_them_all() -> None:
    docs = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    assert [name for name in FILTERS if f"| `{name}" not in docs] == []
    assert usage("grid") == "grid[=COSTS:RETURNS:MOST:LEAST]"
    assert usage("safe-only") == "safe-only"


@pytest.mark.slow
def test_a_run_remembers_its_filters(cli: Cli, data_file: Path, tmp_path: Path) -> None:
    whole = load(data_file)
    chosen = ("--filter", "subsample=0.5", "noise=0.1", "--filter-seed", "3")
    done = cli("train", "--data", data_file, "--task", "None", *chosen, "--out", tmp_path / "run", *TINY)
    assert done.returncode == 0, done.stderr
    assert "filter subsample=0.5: 10 of 20 episodes" in " ".join(done.stderr.split())
    found = Run.open(tmp_path / "run")
    assert found.dataset.fingerprint != whole.fingerprint
    again = found.require_dataset()
    assert (len(again.episodes), again.opened["filter_seed"]) == (10, 3)
    other = cli("train", "--data", data_file, "--task", "None", *chosen[:-1], "4", "--out", tmp_path / "run", *TINY)
    assert "holds another run" in other.stderr
