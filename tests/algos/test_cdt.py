"""CDT: its losses by hand, what its windows hold, relabelling, and that asking for less cost gets less."""

from dataclasses import replace
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tiny
from helpers.ring import Driver, Floats, at_limit, drive, limit, ring_data

from lspc import training
from lspc.acting import Act, Seen
from lspc.algos import cdt
from lspc.algos.base import Spec
from lspc.algos.parts.transformer import Dropout, LayerNorm, Transformer, attention
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.policy import TrainedPolicy, load_policy

SMALL = cdt.Config(steps=4, batch_size=8, context=4, width=8, layers=1, heads=2, budget=25.0)


def two_ways(episodes: int = 60, length: int = 8, seed: int = 0) -> Dataset:
    """Each episode keeps to one action: near +1 it earns and pays 1 a step, near -1 it earns 0.2 and pays nothing."""
    rng = np.random.default_rng(seed)
    bold = np.repeat(np.arange(episodes) % 2 == 0, length)
    rows = episodes * length
    observations = rng.normal(size=(episodes, length + 1, 2)).astype(np.float32)
    return Dataset(
        observations=observations[:, :-1].reshape(rows, 2),
        actions=np.where(bold, 0.8, -0.8)[:, None].astype(np.float32),
        rewards=np.where(bold, 1.0, 0.2).astype(np.float32),
        costs=bold.astype(np.float32),
        next_observations=observations[:, 1:].reshape(rows, 2),
        terminated=np.zeros(rows, bool),
        truncated=np.arange(rows) % length == length - 1,
    )


def test_attention_by_hand() -> None:
    queries = jnp.array([[1.0, 0.0], [0.0, 1.0]])
    values = jnp.array([[1.0], [3.0]])
    everything, first_only = jnp.ones((2, 2), bool), jnp.array([[True, False], [True, False]])
    weight = np.exp(1 / np.sqrt(2))
    expected = (weight * 1 + 3) / (weight + 1)
    np.testing.assert_allclose(attention(queries, queries, values, everything)[0, 0], expected, rtol=1e-6)
    np.testing.assert_allclose(attention(queries, queries, values, first_only)[:, 0], [1.0, 1.0], rtol=1e-6)
    np.testing.assert_allclose(LayerNorm(2)(jnp.array([1.0, 3.0])), [-1.0, 1.0], rtol=1e-4)


def test_the_transformer_sees_the_past_alone_and_no_filling() -> None:
    net = eqx.filter_jit(Transformer(8, 2, 2, key=jax.random.key(0)))
    x = jax.random.normal(jax.random.key(1), (1, 6, 8))
    real, quiet = jnp.array([[0.0, 0, 1, 1, 1, 1]]), Dropout(0.5, None)
    out = net(x, real, quiet)
    later = net(x.at[0, 5].add(9.0), real, quiet)
    np.testing.assert_allclose(out[0, 2:5], later[0, 2:5], atol=1e-6)
    assert not np.allclose(out[0, 5], later[0, 5])
    filled = net(x.at[0, :2].add(9.0), real, quiet)
    np.testing.assert_allclose(out[0, 2:], filled[0, 2:], atol=1e-6)
    kept = Dropout(0.5, jax.random.key(2))(jnp.ones(2000))
    assert set(np.unique(kept)) == {0.0, 2.0}
    assert abs(float(kept.mean()) - 1) < 0.1


def test_losses_by_hand() -> None:
    mean, log_std, actions = jnp.array([[0.0, 0.5]]), jnp.log(jnp.array([[1.0, 2.0]])), jnp.array([[1.0, 0.5]])
    # 0.5 * 1 + 0 for the first dimension; 0 + log 2 - 0.1 log 2 for the second.
    np.testing.assert_allclose(cdt.action_loss(mean, log_std, actions, 0.1), [0.5 + 0.9 * np.log(2)], rtol=1e-6)
    np.testing.assert_allclose(cdt.cost_loss(jnp.array([0.0, 2.0]), jnp.array([3.0, 0.0])),
                               [np.log(2), np.log(1 + np.exp(2))], rtol=1e-6)  # fmt: skip


def test_windows_end_at_the_drawn_step_and_stay_in_its_episode(dataset: Dataset) -> None:
    spec, config = Spec.of(dataset), replace(SMALL, batch_size=512, augment_share=0.0)
    table = cdt.table(dataset, config)
    windows = jax.tree.map(np.asarray, cdt.draw(jax.tree.map(jnp.asarray, table), jax.random.key(0), spec, config))
    assert windows.observations.shape == (512, 4, 7)
    return_scale, cost_scale = cdt.scales(spec)
    for b in range(0, 512, 37):
        last = int(np.flatnonzero((dataset.observations == np.asarray(windows.observations[b, -1])).all(1))[0])
        start = last // 50 * 50
        count = min(4, last - start + 1)
        np.testing.assert_array_equal(windows.real[b], [0] * (4 - count) + [1] * count)
        rows = slice(last - count + 1, last + 1)
        np.testing.assert_array_equal(windows.actions[b, 4 - count :], dataset.actions[rows])
        np.testing.assert_array_equal(windows.times[b, 4 - count :], np.arange(rows.start - start, last - start + 1))
        to_go = [dataset.rewards[i : start + 50].sum() / return_scale for i in range(rows.start, rows.stop)]
        np.testing.assert_allclose(windows.wanted[b, 4 - count :], to_go, rtol=1e-3, atol=1e-5)
        to_pay = [dataset.costs[i : start + 50].sum() / cost_scale for i in range(rows.start, rows.stop)]
        np.testing.assert_allclose(windows.allowed[b, 4 - count :], to_pay, rtol=1e-3, atol=1e-5)


def test_relabelling_asks_for_more_than_the_best_episode_within_the_cost(dataset: Dataset) -> None:
    relabels = cdt.pareto_relabels(dataset, 0.5, np.random.default_rng(1))
    assert len(relabels) == 10
    for episode, wanted, allowed in relabels:
        within = dataset.cost_returns <= allowed
        assert dataset.returns[episode] == dataset.returns[within].max()
        assert dataset.returns[episode] <= wanted <= dataset.returns.max()
    plain, more = (cdt.table(dataset, replace(SMALL, augment_share=share)) for share in (0.0, 0.2))
    assert len(more.times) == len(plain.times) + 4 * 50


def test_the_target_comes_from_the_data(dataset: Dataset) -> None:
    inside = dataset.cost_returns <= 25
    assert cdt.best_target(dataset, SMALL) == pytest.approx(dataset.returns[inside].max())
    assert cdt.best_target(dataset, replace(SMALL, target_return=7.0)) == 7.0
    dear = dataset.select(np.flatnonzero(dataset.cost_returns > 0))
    with pytest.raises(UserError, match=r"no episode costs at most 0: add --target-return"):
        cdt.prepare(dear, replace(SMALL, budget=0.0))


@pytest.mark.learning
def test_asked_for_no_cost_it_takes_the_free_way(tmp_path: Path) -> None:
    dataset = two_ways()
    config = replace(SMALL, steps=250, batch_size=64, width=16, learning_rate=2e-3, warmup=50, augment_share=0.2)
    actions = {}
    for budget in (0.0, 8.0):
        run = training.train(dataset, tmp_path / f"{budget:g}", replace(config, budget=budget), method="cdt")
        policy = load_policy(run)
        act = policy.for_episodes(sampled=False)
        taken = []
        for step in range(8):
            last = taken[-1] if taken else None
            bold = np.float32(last is not None and last > 0)
            reward = 0.0 if last is None else (1.0 if bold else 0.2)
            seen = Seen(np.zeros((1, 2), np.float32), np.array([0]), np.array([step]),
                        np.array([reward], np.float32), np.array([bold]), np.zeros(1, np.int64))  # fmt: skip
            taken.append(float(act(seen)[0, 0]))
        actions[budget] = taken
        np.testing.assert_allclose(policy.act(np.zeros(2)), taken[:1], atol=1e-5)
    assert np.mean(actions[0.0]) < -0.5
    assert np.mean(actions[8.0]) > 0.5


@pytest.mark.learning
def test_on_the_ring_who_allows_less_cost_gets_less(tmp_path: Path) -> None:
    """One run, asked for other costs than it was trained for: it adapts without training again, say its authors."""
    data = ring_data()
    config = replace(
        SMALL, steps=500, batch_size=64, width=32, dropout=0.0, learning_rate=2e-3, warmup=50, budget=2.0
    )
    trained = load_policy(training.train(data, tmp_path / "cdt", config, method="cdt"))
    return_scale, cost_scale = cdt.scales(Spec.of(data))
    found = []
    for budget in (0.0, 2.0, 10.0):
        wanted = cdt.best_target(data, replace(config, budget=budget))
        asked = jnp.asarray([wanted / return_scale, budget / cost_scale], jnp.float32)
        assert isinstance(trained.net, cdt.CdtPolicy)
        if budget == config.budget:
            np.testing.assert_allclose(trained.net.target, asked, rtol=1e-5)
        net = eqx.tree_at(lambda policy: policy.target, trained.net, asked)
        result = drive(remembering(TrainedPolicy(net, "CDT", trained.card), 200), 200, 9)
        found.append((result.returns.mean() / drive(at_limit, 200, 9).returns.mean(), result.cost_returns.mean()))
    (reward, cost), middle, dear = found
    assert cost < 2
    assert 0.6 < reward < middle[0] < dear[0]
    assert cost <= middle[1] < dear[1]


def remembering(policy: TrainedPolicy, cars: int) -> Driver:
    """A driver who knows what the last actions earned and cost: without that CDT cannot tell what is left."""
    act, seeds, nothing = policy.for_episodes(sampled=False), np.zeros(cars, np.int64), np.zeros(cars, np.float32)
    past = [Seen(np.zeros((cars, 3), np.float32), seeds, seeds - 1, nothing, nothing, np.arange(cars))]

    def driver(observations: Floats) -> Floats:
        seen = past[-1]._replace(observations=observations, steps=past[-1].steps + 1)
        actions = act(seen)
        over = observations[:, 2] > limit(np.arctan2(observations[:, 1], observations[:, 0]))
        past.append(seen._replace(rewards=(actions[:, 0] + 1) / 2, costs=over.astype(np.float32)))
        return actions

    return driver


def test_filling_counts_nothing() -> None:
    """What stands at places before the episode's begin reaches neither loss nor metrics."""
    spec, config = Spec.of(two_ways()), replace(SMALL, dropout=0.0, augment_share=0.0)
    table = jax.tree.map(jnp.asarray, cdt.table(two_ways(), config))
    windows = cdt.draw(table, jax.random.key(0), spec, config)
    assert 0 < windows.real.mean() < 1
    net, fill = cdt.Net(spec, config, key=jax.random.key(1)), 9.0 * (1 - windows.real)
    other = windows._replace(
        observations=windows.observations + fill[..., None], actions=windows.actions + fill[..., None],
        wanted=windows.wanted + fill, costs=windows.costs + fill,
    )  # fmt: skip
    total_loss = eqx.filter_jit(cdt.total_loss)
    plain, filled = (total_loss(net, w, jax.random.key(2), config) for w in (windows, other))
    tiny.close(plain, filled)


@pytest.mark.slow
def test_each_lane_remembers_its_own_episode(tmp_path: Path, dataset: Dataset) -> None:
    """Two episodes side by side, on lanes that swap rows, get the actions they get alone."""
    policy = load_policy(training.train(dataset, tmp_path / "run", SMALL, method="cdt"))
    rng = np.random.default_rng(0)
    path, rewards = rng.normal(size=(6, 2, 7)).astype(np.float32), rng.random((6, 2)).astype(np.float32)

    def ask(act: Act, step: int, rows: list[int], lanes: list[int]) -> np.ndarray:
        count = len(rows)
        signal = rewards[step, rows] * (step > 0)
        seen = Seen(
            path[step, rows], np.zeros(count, np.int64), np.full(count, step), signal, signal, np.array(lanes)
        )
        return act(seen)

    together, alone = policy.for_episodes(sampled=False), policy.for_episodes(sampled=False)
    for step in range(6):
        pair = ask(together, step, [0, 1], [3, 1]) if step % 2 else ask(together, step, [1, 0], [1, 3])[::-1]
        np.testing.assert_allclose(pair[0], ask(alone, step, [0], [0])[0], atol=1e-5)
    # A new episode on a used lane starts from nothing.
    np.testing.assert_allclose(ask(together, 0, [0, 1], [3, 1])[0], ask(alone, 0, [0], [7])[0], atol=1e-5)
