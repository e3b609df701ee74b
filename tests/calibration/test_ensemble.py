"""What the ensembles share: bootstrap weights, the numbers of the episodes, and a loop that chunks do not change."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.known_plants import HORIZON, Constant, logged, risky
from jaxtyping import Array

from lspc.batches import draw_rows
from lspc.calibration import closed_loop, dynamics, ensemble
from lspc.calibration.pipeline import share_out


def test_bootstrap_weights_are_exponential_and_the_seed_decides() -> None:
    weights = ensemble.bootstrap_weights(0, 4, 1_000)
    assert weights.shape == (4, 1_000)
    assert np.all(weights > 0)
    assert weights.mean() == pytest.approx(1.0, abs=0.1)
    assert weights.std() == pytest.approx(1.0, abs=0.15)
    np.testing.assert_array_equal(weights, ensemble.bootstrap_weights(0, 4, 1_000))
    assert not np.any(weights == ensemble.bootstrap_weights(1, 4, 1_000))


def test_columns_are_filled_up_with_rows_that_are_never_drawn() -> None:
    column = np.arange(1.0, 6.0, dtype=np.float32)
    filled = ensemble.pad(column)
    assert filled.shape == (ensemble.ROWS,)
    np.testing.assert_array_equal(filled[:5], column)
    assert len(ensemble.pad(np.zeros((ensemble.ROWS, 2), np.float32))) == ensemble.ROWS
    places = jnp.arange(ensemble.ROWS)
    assert int(draw_rows(places, jax.random.key(0), 200, jnp.asarray(5)).max()) == 4


def test_every_transition_knows_the_number_of_its_episode() -> None:
    data = logged(risky, episodes=5)
    numbers = ensemble.number_episodes(data)
    assert len(numbers) == data.transitions
    for number, episode in enumerate(data.episodes):
        assert (numbers[episode.start : episode.stop] == number).all()


def note(state: Array, data: Array, key: Any, number: Array, count: Array, config: ensemble.Config) -> Array:
    """An update that writes down what it was given: the data, a draw of the step, the number of the member."""
    drawn = jnp.stack([data, jax.random.uniform(key), number.astype(jnp.float32)])
    return state.at[count].set(drawn)


def noted(updates: int, members: int = 3, seed: int = 0, told: list[int] | None = None) -> np.ndarray:
    config = ensemble.Config(updates=updates, members=members)
    on_progress = None if told is None else told.append
    return np.asarray(
        ensemble.fit(
            lambda key: jnp.full((updates, 3), -1.0), note, jnp.asarray(7.0), config, seed=seed,
            on_progress=on_progress,
        )
    )  # fmt: skip


def test_members_take_every_step_once_with_a_key_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int] = []
    found = noted(10, told=told)
    assert told == [10]
    assert found.shape == (3, 10, 3)
    assert (found[..., 0] == 7.0).all()
    assert len(np.unique(found[..., 1])) == 30  # no two members or steps draw alike
    assert (found[..., 2] == np.arange(3)[:, None]).all()
    monkeypatch.setattr(ensemble, "CHUNK", 4)
    told.clear()
    np.testing.assert_array_equal(noted(10, told=told), found)
    assert told == [4, 8, 10]
    assert (noted(10, seed=1)[..., 1] != found[..., 1]).all()


def test_members_begin_differently() -> None:
    begun = ensemble.fit(
        jax.random.uniform, lambda state, *_: state, None, ensemble.Config(updates=1, members=4), seed=0
    )
    assert len(np.unique(begun)) == 4


def foretell() -> list[float]:
    """What three models of a plant say, from training to roll-outs."""
    data, config = logged(risky, episodes=24), dynamics.Config(updates=4, members=3, batch_size=16, hidden=(8,))
    unseen = share_out(data, 3, 0.0, 0)
    models = dynamics.fit(data, config, unseen)
    driven = closed_loop.drive_again(models, data, unseen, HORIZON)
    rolled = dynamics.roll_out(models, Constant(), data.initial_observations, np.linspace(-0.5, 0.5, 3), HORIZON)
    return [float(values.mean()) for values in (driven.predicted, driven.driven_out, rolled.values, rolled.strayed)]


@pytest.mark.process
def test_members_are_sharded_over_devices() -> None:
    """Three members on two devices say what they say on one."""
    flags = f"--xla_force_host_platform_device_count=2 {os.environ.get('XLA_FLAGS', '')}"
    script = (
        "import jax, json\nfrom test_ensemble import foretell\nprint(json.dumps([len(jax.devices()), *foretell()]))"
    )
    folders = os.pathsep.join(map(str, [Path(__file__).parent, Path(__file__).parents[1]]))
    done = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, "XLA_FLAGS": flags, "PYTHONPATH": folders},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    count, *told = json.loads(done.stdout)
    assert count == 2
    np.testing.assert_allclose(told, foretell(), rtol=1e-3)
