"""The pool: the plain loop's numbers, also when workers are killed or stopped, and nothing left behind."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.attacks import pool_workers

from lspc.acting import Act, Seen
from lspc.errors import UserError
from lspc.sims.pool import Episode, Pool
from lspc.tasks import Task, get_task

pytestmark = [pytest.mark.simulator, pytest.mark.process]
BALL = get_task("BallRun")
SEEDS = [4, 0, 9, 2, 7, 1, 1, 30]


def small_network(observation_dim: int, action_dim: int) -> Act:
    """A policy with real matrix products and noise drawn from the episode's seed and step."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=(observation_dim, 64)).astype(np.float32)
    second = rng.normal(size=(64, action_dim)).astype(np.float32)

    def act(seen: Seen) -> np.ndarray:
        noise = np.sin(seen.seeds * 12.9898 + seen.steps * 78.233)[:, None]
        return np.tanh(np.tanh(seen.observations @ first) @ second) + 0.3 * noise

    return act


def run_episodes(
    task: Task, act: Act, seeds: Sequence[int], on_episode: Callable[[Episode], None] | None = None, **options: Any
) -> list[Episode]:
    with Pool(task, **options) as pool:
        return pool.run(act, seeds, on_episode=on_episode)


POLICY = small_network(BALL.observation_dim, BALL.action_dim)


@pytest.fixture(scope="module")
def expected() -> list[Episode]:
    return run_episodes(BALL, POLICY, SEEDS, workers=0)


def test_pool_equals_the_plain_loop(expected: list[Episode]) -> None:
    heard: list[Episode] = []
    assert run_episodes(BALL, POLICY, SEEDS, workers=2, on_episode=heard.append) == expected
    assert sorted(heard) == sorted(expected)
    assert [episode.seed for episode in expected] == SEEDS
    assert expected[5] == expected[6]
    assert all(episode.length == BALL.episode_length for episode in expected)
    assert len({episode.reward_return for episode in expected}) == len(SEEDS) - 1
    assert pool_workers() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_workers_stay_for_the_next_policy(expected: list[Episode], workers: int) -> None:
    with Pool(BALL, workers=workers) as pool:
        assert pool.run(POLICY, SEEDS) == expected
        first = pool_workers()
        assert len(first) == workers
        assert pool.run(POLICY, SEEDS[:3]) == expected[:3]
        assert pool_workers() == first
        with pytest.raises(ZeroDivisionError):
            pool.run(lambda seen: 1 / 0 * seen.observations, SEEDS)  # pyrefly: ignore [division-by-zero]
        assert pool.run(POLICY, SEEDS) == expected
        if workers:
            assert not set(pool_workers()) & set(first)
    assert pool_workers() == []


def test_episodes_that_end_early_and_more_workers_than_work() -> None:
    drone = get_task("DroneCircle")
    policy = small_network(drone.observation_dim, drone.action_dim)
    here = run_episodes(drone, policy, range(5), workers=0, worlds=2)
    assert run_episodes(drone, policy, range(5), workers=3, worlds=2) == here
    assert any(episode.terminated for episode in here)
    assert len({episode.length for episode in here}) > 1
    assert run_episodes(BALL, POLICY, [], workers=2) == []


def test_the_batch_keeps_its_shape_and_rows_know_their_episode() -> None:
    shapes: set[tuple[int, ...]] = set()
    steps_of: dict[int, list[int]] = {seed: [] for seed in (11, 12, 13)}
    lanes_of: dict[int, set[int]] = {seed: set() for seed in (11, 12, 13)}
    earned: dict[int, float] = dict.fromkeys((11, 12, 13), 0.0)

    def act(seen: Seen) -> np.ndarray:
        kinds = [array.dtype for array in seen]
        assert kinds == [np.float32, np.int64, np.int64, np.float32, np.float32, np.int64]
        shapes.add(seen.observations.shape)
        for seed, step, reward, lane, row in zip(
            seen.seeds.tolist(), seen.steps.tolist(), seen.rewards.tolist(), seen.lanes.tolist(), seen.observations,
            strict=True,
        ):  # fmt: skip
            if row.any():
                steps_of[seed].append(step)
                lanes_of[seed].add(lane)
                assert step > 0 or reward == 0
                earned[seed] += reward
        return np.zeros((len(seen.seeds), BALL.action_dim))

    episodes = run_episodes(BALL, act, [11, 12, 13], workers=1, worlds=2)
    assert shapes == {(2, BALL.observation_dim)}
    assert all(steps == list(range(BALL.episode_length)) for steps in steps_of.values())
    assert all(len(lanes) == 1 for lanes in lanes_of.values())
    for episode in episodes:  # all but what the last action earned
        assert earned[episode.seed] == pytest.approx(episode.reward_return, abs=30)


def disturbed(signal_to_send: int, times: int = 1) -> Act:
    """The policy, which in the middle of things strikes one of the workers."""
    left, calls = [times], [0]

    def act(seen: Seen) -> np.ndarray:
        calls[0] += 1
        if left[0] and calls[0] % 30 == 0:
            left[0] -= 1
            os.kill(pool_workers()[0], signal_to_send)
        return POLICY(seen)

    return act


@pytest.mark.parametrize(
    ("signal_to_send", "timeout", "why"),
    [(signal.SIGKILL, 60.0, "killed by SIGKILL"), (signal.SIGSTOP, 4.0, "no answer for 4 s")],
)
def test_a_worker_in_trouble_changes_no_number(
    expected: list[Episode], signal_to_send: int, timeout: float, why: str
) -> None:
    troubles: list[str] = []
    episodes = run_episodes(
        BALL, disturbed(signal_to_send), SEEDS, workers=2, timeout=timeout, on_trouble=troubles.append
    )
    assert episodes == expected
    assert any(why in line and "run again" in line and "\n" not in line for line in troubles)
    assert pool_workers() == []


def test_an_episode_that_always_kills_its_worker_is_given_up() -> None:
    troubles: list[str] = []
    with pytest.raises(UserError, match=r"3 tries.*SIGKILL.*seeds 5"):
        run_episodes(BALL, disturbed(signal.SIGKILL, 99), [5], workers=1, on_trouble=troubles.append)
    assert len(troubles) == 2
    assert pool_workers() == []


def test_a_worker_that_cannot_start_is_given_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "lspc").mkdir()
    (tmp_path / "lspc" / "__init__.py").write_text("raise RuntimeError('broken install')")
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(UserError, match="broken install"):
        run_episodes(BALL, POLICY, [1], workers=1)
    assert pool_workers() == []


@pytest.mark.parametrize("workers", [0, 2])
def test_what_a_simulator_refuses_is_told_in_one_line(workers: int) -> None:
    with pytest.raises(UserError, match="NaN"):
        run_episodes(BALL, lambda seen: np.full((len(seen.seeds), 2), np.nan), [1, 2], workers=workers)
    with pytest.raises(UserError, match="shape"):
        run_episodes(BALL, lambda seen: np.zeros((len(seen.seeds), 3)), [1, 2], workers=workers)
    assert pool_workers() == []


def test_an_error_in_the_policy_leaves_no_process_behind() -> None:
    def act(seen: Seen) -> np.ndarray:
        assert len(pool_workers()) == 2
        raise ZeroDivisionError("the policy is broken")

    with pytest.raises(ZeroDivisionError):
        run_episodes(BALL, act, [1, 2, 3], workers=2)
    assert pool_workers() == []


SCRIPT = """
import numpy as np
from lspc.sims.pool import Pool
from lspc.tasks import get_task

task = get_task("BallRun")
def act(seen):
    {extra}
    return np.zeros((len(seen.seeds), task.action_dim))
with Pool(task, workers=2) as pool:
    print(len(pool.run(act, range(3))), flush=True)
"""


def test_a_script_without_a_main_guard_works(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.format(extra="pass"))
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "3\n", "")


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_workers_do_not_outlive_the_program(tmp_path: Path, how: int) -> None:
    script = tmp_path / "script.py"
    report = "import os, time; print(open(f'/proc/self/task/{os.getpid()}/children').read(), flush=True)"
    script.write_text(SCRIPT.format(extra=report + "; time.sleep(30)"))
    program = subprocess.Popen(
        [sys.executable, script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert program.stdout is not None
    workers = [int(pid) for pid in program.stdout.readline().split()]
    assert len(workers) == 2
    assert all(alive(pid) for pid in workers)
    os.killpg(program.pid, how)
    _, errors = program.communicate(timeout=30)
    deadline = time.monotonic() + 10
    while any(alive(pid) for pid in workers) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(pid) for pid in workers)
    assert errors.count("Traceback") <= 1  # the program's own KeyboardInterrupt, none from workers
