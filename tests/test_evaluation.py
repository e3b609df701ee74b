"""Evaluation: complete raw records from the real simulator, and figures that can be checked by hand."""

import os
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.attacks import pool_workers
from helpers.calibrated import add_calibration
from helpers.made_runs import make_record

import lspc
from lspc import algos, files, training
from lspc.acting import Act, Seen
from lspc.data import Dataset
from lspc.deploy.guard import Guard
from lspc.errors import UserError
from lspc.evaluation import behaviour, evaluate, policy_name, summarise
from lspc.runs import Record, Run, layout
from lspc.tasks import get_task

TASK = replace(get_task("BallRun"), reward_min=0.0, reward_max=100.0, thresholds=(10, 20, 40))
BALL_RUN = get_task("BallRun")


def episode(reward: float, cost: float, *, seed: int = 0, **more: Any) -> Record:
    return make_record(reward, cost, training_seed=seed, **{"run": "a", "mode": "sampled", **more})


@pytest.fixture(scope="module")
def finished(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = algos.get("lspc").Config(steps=10, batch_size=32, hidden=(8, 8), latent_dim=4)
    out = tmp_path_factory.mktemp("runs") / "tiny"
    return training.train(dataset, out, config, seeds=(0, 3), task=BALL_RUN)


@pytest.mark.simulator
def test_records_are_complete(finished: Path) -> None:
    started: list[tuple[str, int]] = []
    ended: list[int] = []
    records = evaluate(
        finished, BALL_RUN, episodes=2, variants=("LSPC-S", "CVAE"), workers=0,
        on_start=lambda what, count: started.append((what, count)), on_episode=lambda: ended.append(1),
    )  # fmt: skip
    cells = [(r.training_seed, r.policy, r.mode, r.seed) for r in records]
    modes, seeds = ("deterministic", "sampled"), (1_000_000, 1_000_001)
    assert cells == [(k, p, m, s) for k in (0, 3) for p in ("LSPC-S", "CVAE") for m in modes for s in seeds]
    assert Run.open(finished).records() == records
    assert len(ended) == len(records) == 16
    assert started[0] == ("LSPC-S deterministic, seed 0", 2)
    run = Run.open(finished)
    for found in records:
        assert found.run == "tiny"
        assert found.task == "BallRun"
        assert found.method == "lspc"
        assert found.updates == 10
        assert found.dataset == run.dataset.fingerprint
        assert found.config == files.content_hash(run.config)
        assert 0 < found.length <= BALL_RUN.episode_length
        assert found.cost_return >= 0
        assert isinstance(found.terminated, bool)


@pytest.mark.simulator
def test_what_is_measured_is_stored_before_the_next_begins(finished: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    shutil.copytree(finished, run)
    (run / layout.EVALUATIONS).unlink(missing_ok=True)

    def die_at_the_second(what: str, count: int) -> None:
        if "sampled" in what:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        evaluate(run, BALL_RUN, episodes=1, variants=("LSPC-S",), workers=0, on_start=die_at_the_second)
    assert [(r.policy, r.mode) for r in Run.open(run).records()] == [("LSPC-S", "deterministic")]


def test_a_folder_that_cannot_be_written_into_is_refused_before_the_first_episode(
    finished: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(tempfile, "NamedTemporaryFile", refuse)
    with pytest.raises(UserError, match=r"tiny: cannot be written into \(Permission denied\)"):
        evaluate(finished, BALL_RUN, episodes=1)  # a world would need a mark


@pytest.mark.simulator
def test_measuring_again_replaces_and_keeps_the_rest(finished: Path) -> None:
    evaluate(finished, BALL_RUN, episodes=2, variants=("LSPC-S",), modes=("deterministic",), workers=0)
    evaluate(finished, BALL_RUN, episodes=3, variants=("LSPC-O",), modes=("deterministic",), workers=0)
    again = evaluate(finished, BALL_RUN, episodes=1, variants=("LSPC-O",), modes=("deterministic",), workers=0)
    stored = Run.open(finished).records()
    assert [r for r in stored if r.policy == "LSPC-O"] == again
    assert len(again) == 2
    assert len([r for r in stored if r.policy == "LSPC-S" and r.mode == "deterministic"]) == 4


@pytest.mark.simulator
@pytest.mark.process
def test_the_same_seeds_give_the_same_numbers_with_any_workers(finished: Path) -> None:
    def measure(**how: Any) -> list[Record]:
        return evaluate(finished, BALL_RUN, episodes=3, variants=("LSPC-O",), modes=("sampled",), **how)

    alone = measure(workers=0)
    assert alone == measure(workers=0)
    assert alone == measure(workers=2)
    assert alone != measure(workers=0, first_seed=5)


@pytest.mark.simulator
def test_lspc_o_is_measured_at_every_eps_and_the_others_once(finished: Path) -> None:
    started: list[str] = []
    found = evaluate(
        finished, BALL_RUN, episodes=1, variants=("LSPC-O", "LSPC-S"), modes=("deterministic",), workers=0,
        restrictions=(0.02, 2.0), seeds=[3], records_file="sweep.jsonl",
        on_start=lambda what, _: started.append(what),
    )  # fmt: skip
    cells = [(r.training_seed, r.policy, r.restriction) for r in found]
    assert cells == [(3, "LSPC-O", 0.02), (3, "LSPC-O", 2.0), (3, "LSPC-S", None)]
    assert started[0] == "LSPC-O, eps 0.02 deterministic, seed 3"
    assert Run.open(finished).records("sweep.jsonl") == found
    assert not any(r.restriction for r in Run.open(finished).records())  # the run's own records are left alone
    assert found[0].reward_return != found[1].reward_return
    assert [row.policy for row in summarise(found, BALL_RUN)] == ["LSPC-O, eps 0.02", "LSPC-O, eps 2", "LSPC-S"]
    (own,) = evaluate(
        finished, BALL_RUN, episodes=1, variants=("LSPC-O",), modes=("deterministic",), workers=0,
        restrictions=(1.0,), seeds=[3], records_file="sweep.jsonl",
    )  # fmt: skip
    (default,) = evaluate(
        finished, BALL_RUN, episodes=1, variants=("LSPC-O",), modes=("deterministic",), workers=0, seeds=[3],
        records_file="other.jsonl",
    )  # fmt: skip
    assert own.reward_return == pytest.approx(default.reward_return)  # eps 1 is the run's own
    assert default.restriction is None
    assert Run.open(finished).records("sweep.jsonl") == [*found, own]  # another eps replaces nothing


def test_eps_and_seeds_that_are_not_there_are_refused(finished: Path) -> None:
    with pytest.raises(UserError, match=r"trained for every eps from 0\.02 to 2, not for 3"):
        evaluate(finished, BALL_RUN, episodes=1, variants=("LSPC-O",), restrictions=(3.0,), workers=0)
    with pytest.raises(UserError, match="has no seed 1: it has 0, 3"):
        evaluate(finished, BALL_RUN, episodes=1, seeds=[1], workers=0)


@pytest.mark.simulator
def test_the_guard_is_measured_beside_the_policy_it_watches(finished: Path, dataset: Dataset) -> None:
    """Its judges expect a cost of 1/4 at each step: 25 in an episode of 100, twice what budget 12 allows."""
    with pytest.raises(UserError, match="has no calibration"):
        evaluate(finished, BALL_RUN, episodes=1, variants=("LSPC-O",), guards=(12.0,), seeds=[0], workers=0)
    add_calibration(finished, dataset, horizon=100, familiar_within=1e9)
    found = evaluate(
        finished, BALL_RUN, episodes=2, variants=("LSPC-O", "LSPC-S"), guards=(0.0, 1e6), seeds=[0], workers=0,
        records_file="guarded.jsonl",
    )  # fmt: skip
    cells = [(r.policy, r.mode, r.guard) for r in found][::2]
    assert cells == [
        ("LSPC-O", "deterministic", None), ("LSPC-O", "deterministic", 0.0), ("LSPC-O", "deterministic", 1e6),
        ("LSPC-O", "sampled", None), ("LSPC-S", "deterministic", None), ("LSPC-S", "sampled", None),
    ]  # fmt: skip
    by_cell = {cell: [r.reward_return for r in found[2 * i : 2 * i + 2]] for i, cell in enumerate(cells)}
    bold, careful = by_cell["LSPC-O", "deterministic", None], by_cell["LSPC-S", "deterministic", None]
    assert by_cell["LSPC-O", "deterministic", 1e6] == pytest.approx(bold, rel=1e-4)
    assert by_cell["LSPC-O", "deterministic", 0.0] == pytest.approx(careful, rel=1e-4)
    shares = {r.guard: r.intervened for r in found if r.guard is not None}
    assert shares == {0.0: 1.0, 1e6: 0.0}
    names = [row.policy for row in summarise(found, BALL_RUN)]
    assert names == ["LSPC-O", "LSPC-O, guard 0", "LSPC-O, guard 1e+06", "LSPC-O", "LSPC-S", "LSPC-S"]


@pytest.mark.simulator
@pytest.mark.process
def test_killed_workers_do_not_change_how_often_the_guard_intervened(
    finished: Path, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It intervenes while more than 20 is expected to come: first halves counted twice would change the share."""
    run, troubles = tmp_path / "run", list[str]()
    shutil.copytree(finished, run)
    add_calibration(run, dataset, horizon=100, familiar_within=1e9)
    real, calls = Guard.for_episodes, [0]

    def measure() -> list[Record]:
        found = evaluate(
            run, BALL_RUN, episodes=4, variants=("LSPC-O",), modes=("deterministic",), guards=(20.0,), seeds=[0],
            workers=2, on_trouble=troubles.append,
        )  # fmt: skip
        return [record for record in found if record.guard is not None]

    def strike(guard: Guard, budget: float) -> Act:
        act = real(guard, budget)

        def disturbed(seen: Seen) -> np.ndarray:
            calls[0] += 1
            if calls[0] == 60:
                for worker in pool_workers():
                    os.kill(worker, signal.SIGKILL)
            return act(seen)

        return disturbed

    undisturbed = measure()
    monkeypatch.setattr(Guard, "for_episodes", strike)
    assert measure() == undisturbed
    assert any("SIGKILL" in line for line in troubles)
    assert 0 < (undisturbed[0].intervened or 0) < 1


def test_what_cannot_be_measured_is_refused(finished: Path, dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="modes among deterministic, sampled"):
        evaluate(finished, BALL_RUN, modes=("random",))
    with pytest.raises(UserError, match="episodes must be 1 or more"):
        evaluate(finished, BALL_RUN, episodes=0)
    with pytest.raises(UserError, match="observations of size 7, BallCircle has 8"):
        evaluate(finished, get_task("BallCircle"))
    with pytest.raises(UserError, match="no policy 'BC'"):
        evaluate(finished, BALL_RUN, variants=("BC",))
    with pytest.raises(UserError, match="is not a run folder"):
        evaluate(tmp_path, BALL_RUN)
    files.write_json(layout.config_path(tmp_path), files.seal(Run.open(finished).describe()))
    with pytest.raises(UserError, match="training has not finished"):
        evaluate(tmp_path, BALL_RUN)


@pytest.mark.simulator
@pytest.mark.process
def test_the_library_evaluates_for_the_runs_own_task(finished: Path, dataset: Dataset, tmp_path: Path) -> None:
    out = lspc.train(dataset, tmp_path / "bc", algo="bc", steps=10, hidden=(8, 8), task="BallRun")
    rows = lspc.evaluate(out, episodes=1, dataset=dataset)
    assert [(row.policy, row.mode) for row in rows] == [
        ("data", "logged"),
        ("BC", "deterministic"),
        ("BC", "sampled"),
    ]
    nameless = lspc.train(dataset, tmp_path / "nameless", algo="bc", steps=10, hidden=(8, 8))
    with pytest.raises(UserError, match="was not trained for a task"):
        lspc.evaluate(nameless)


def test_a_summary_by_hand() -> None:
    records = [episode(50, 0), episode(70, 20), episode(30, 40, seed=1), episode(10, 60, seed=1)]
    (row,) = summarise(records, TASK)
    assert (row.policy, row.mode, row.seeds, row.episodes) == ("LSPC-O", "sampled", 2, 4)
    assert row.reward.mean == pytest.approx(0.40)
    assert {k: v.mean for k, v in row.cost.items()} == pytest.approx({10: 3.0, 20: 1.5, 40: 0.75})
    assert row.average_cost.mean == pytest.approx((3.0 + 1.5 + 0.75) / 3)
    assert row.raw_cost.mean == pytest.approx(30)
    assert row.over_budget == {10: 0.75, 20: 0.5, 40: 0.25}  # a cost equal to the budget is within it
    assert row.reached == {10: None, 20: None, 40: None}
    for interval in (row.reward, row.average_cost, row.raw_cost):
        assert interval.low <= interval.mean <= interval.high


def test_seeds_count_alike_whatever_their_episodes() -> None:
    (row,) = summarise([episode(100, 0), *[episode(0, 10, seed=1)] * 3], TASK)
    assert row.reward.mean == pytest.approx(0.5)
    assert row.raw_cost.mean == pytest.approx(5)


def test_rows_keep_the_order_and_runs_that_differ_stay_apart() -> None:
    records = [
        episode(1, 0, policy="B"),
        episode(2, 0, policy="A"),
        episode(3, 0, policy="A", mode="deterministic"),
        episode(4, 0, policy="A", seed=1, run="b"),  # another seed in another folder: the same policy
        episode(5, 0, policy="B", run="wide", config="other"),
    ]
    rows = [(row.policy, row.mode, row.seeds) for row in summarise(records, TASK)]
    assert rows == [("B, a", "sampled", 1), ("B, wide", "sampled", 1), ("A", "sampled", 2), ("A", "deterministic", 1)]
    assert summarise([], TASK) == []


def by_hand(returns: list[float], costs: list[float]) -> Dataset:
    """One transition per episode."""
    n = len(returns)
    zeros = np.zeros((n, 1), np.float32)
    flags = np.zeros(n, bool)
    return Dataset(zeros, zeros, np.array(returns), np.array(costs), zeros, flags, ~flags)


def test_the_share_reached_is_of_the_best_episode_within_the_budget() -> None:
    data = by_hand([20, 50, 80, 100], [5, 10, 30, 41])
    (row,) = summarise([episode(40, 0), episode(20, 0)], TASK, data)
    assert row.reached == pytest.approx({10: 30 / 50, 20: 30 / 50, 40: 30 / 80})
    (row,) = summarise([episode(40, 0)], TASK, by_hand([50], [15]))
    assert row.reached == {10: None, 20: pytest.approx(0.8), 40: pytest.approx(0.8)}


def test_the_datas_own_behaviour() -> None:
    row = behaviour(by_hand([20, 40], [0, 30]), TASK)
    assert (row.policy, row.mode, row.seeds, row.episodes) == ("data", "logged", 1, 2)
    assert row.reward.mean == pytest.approx(0.3)
    assert row.raw_cost.mean == pytest.approx(15)
    assert row.over_budget == {10: 0.5, 20: 0.5, 40: 0.0}
    assert row.reached == pytest.approx({10: 1.5, 20: 1.5, 40: 0.75})


def test_bc_on_cheap_episodes_has_its_own_name() -> None:
    assert policy_name("BC", "bc", {"budget": None}) == "BC"
    assert policy_name("BC", "bc", {"budget": 20.0}) == "BC-Safe (20)"
    assert policy_name("CPQ", "cpq", {"budget": 20.0}) == "CPQ"  # which is never trained without a budget
    assert policy_name("LSPC-O", "lspc", {}) == "LSPC-O"
