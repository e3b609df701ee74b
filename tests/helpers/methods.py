"""What every method must pass, and the small driving problem that the learning tests share.

A method's test file says `class TestCommon(MethodTests): method = "its name"` and has all the tests of this class.
"""

import ast
import inspect
from dataclasses import asdict
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lspc
from helpers import tiny
from helpers.data import small_dataset
from helpers.ring import measure, ring_data
from lspc import algos, files, lanes, policy, training
from lspc.algos import base
from lspc.algos.base import Method, Spec
from lspc.data import Dataset
from lspc.policy import TrainedPolicy, load_policy
from lspc.training import loop
from lspc.training.chunk import SweepMethod

SMALL: dict[str, Any] = {
    "steps": 2,
    "batch_size": 8,
    "hidden": (8, 8),
    "cvae_hidden": (8, 8),
    "latent_dim": 4,
    "candidates": 3,
    "mmd_samples": 3,
    "critic_batch_size": 8,
    "actor_width": 8,
    "actor_blocks": 1,
    "context": 4,
    "width": 8,
    "layers": 1,
    "heads": 2,
    "budget": 25.0,
}
"""Settings that make a method tiny; each takes those it knows."""
DATA = small_dataset(episodes=6, steps=10)
SPEC = Spec.of(DATA)
PARTS = {"reward", "cost", "cvae", "encoder", "policy", "lagrangian"}
"""What metrics are named after."""


def small(method: Method, **changes: Any) -> Any:
    known = inspect.signature(method.Config).parameters
    return method.Config(**{name: value for name, value in SMALL.items() if name in known} | changes)


def with_columns(**columns: Any) -> Dataset:
    """DATA with other columns."""
    return Dataset(**{name: getattr(DATA, name) for name in base.Batch._fields} | columns)


def one_update(method: Method, config: Any, dataset: Dataset = DATA, state: Any = None) -> tuple[Any, Any, Any]:
    """The state before, the state after, and the metrics of one update on a batch of `dataset`.

    It is what the loop itself compiles, so that all tests of a method wait for one compilation.
    """
    states = training.init_states(method, SPEC, config, (0,)) if state is None else add_axis(state)
    table = getattr(method, "table", base.table)(dataset, config)
    states, table = lanes.replicate((states, table), 1)
    before = first(states)  # now: the loop reuses the memory of what it is given
    chunk = training.make_chunk(cast(Method, SweepMethod(method)), SPEC, (config,))
    (after,), (metrics,) = chunk((states,), jnp.asarray((0,)), table, jnp.asarray(0), length=1)
    return before, first(after), first(metrics)


def add_axis(state: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[None]), state)


def first(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jnp.asarray(np.asarray(leaf)[0]), tree)  # by numpy: no program for each shape


def numbers(tree: Any) -> list[np.ndarray]:
    return [np.asarray(leaf) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))]


class MethodTests:
    """Tests that know nothing of a method but its name."""

    method: ClassVar[str]
    fixed: ClassVar[tuple[str, ...]] = ("normaliser",)
    """Parts of the state that no update changes; every array of every other part must change, but for those in"""
    may_rest: ClassVar[tuple[str, ...]] = ()
    settings: ClassVar[dict[str, Any]] = {}
    """Settings of the method in these tests, beside SMALL."""

    @property
    def module(self) -> Method:
        return algos.get(self.method)

    def config(self, **changes: Any) -> Any:
        return small(self.module, **self.settings | changes)

    def test_an_update_changes_what_it_should_and_nothing_else(self) -> None:
        before, after, _ = one_update(self.module, self.config())
        assert jax.tree.structure(before) == jax.tree.structure(after)
        for name in self.fixed:
            assert tiny.same(getattr(before, name), getattr(after, name)), name
        for name in set(vars(before)) - {*self.fixed, *self.may_rest}:
            for old, new in zip(numbers(getattr(before, name)), numbers(getattr(after, name)), strict=True):
                assert old.shape == new.shape
                assert not np.array_equal(old, new), name

    def test_metrics_are_finite_scalars_named_after_their_part(self) -> None:
        _, _, metrics = one_update(self.module, self.config())
        assert metrics
        for name, value in metrics.items():
            assert name.split("/")[0] in PARTS
            assert value.shape == ()
            assert np.isfinite(value), name
        bounds = self.module.metric_bounds(SPEC, self.config())
        assert set(bounds) <= set(metrics)
        assert all(bound > 0 for bound in bounds.values())

    def test_the_key_decides_everything(self) -> None:
        config = self.config()
        a, b, c = (self.module.init(jax.random.key(seed), SPEC, config) for seed in (0, 0, 1))
        assert tiny.same(a, b)
        assert not tiny.same(a, c)
        assert tiny.same(one_update(self.module, config)[1], one_update(self.module, config)[1])

    @pytest.mark.slow
    def test_nothing_follows_a_terminal_state(self) -> None:
        """Neither reward nor cost is looked for behind the end: what was seen there makes no difference."""
        ends = {"terminated": np.ones(DATA.transitions, bool), "truncated": np.zeros(DATA.transitions, bool)}
        ended = with_columns(**ends)
        elsewhere = with_columns(**ends, next_observations=DATA.next_observations + 5)
        assert tiny.same(*(one_update(self.module, self.config(), data)[1] for data in (ended, elsewhere)))

    def test_actions_stay_inside_for_any_observation_and_noise(self) -> None:
        net = self.module.policy(self.module.init(jax.random.key(0), SPEC, self.config()))
        observations = np.random.default_rng(0).normal(size=(2, 3, DATA.observation_dim))
        noise = np.random.default_rng(1).normal(size=(2, 3, net.noise_dim))
        for variant in net.variants:
            act = eqx.filter_jit(partial(net, variant=variant))
            for scale in (0.0, 1.0, 100.0):
                actions = act(jnp.asarray(scale * observations, jnp.float32), jnp.asarray(scale * noise, jnp.float32))
                assert actions.shape == (2, 3, DATA.action_dim)
                assert np.all(np.abs(actions) <= 1), variant
            alone = act(jnp.asarray(observations[0, 1], jnp.float32), jnp.asarray(noise[0, 1], jnp.float32))
            together = act(jnp.asarray(observations, jnp.float32), jnp.asarray(noise, jnp.float32))
            np.testing.assert_allclose(alone, together[0, 1], rtol=1e-4, atol=1e-5)

    def test_a_saved_policy_acts_as_before(self, tmp_path: Path) -> None:
        _, state, _ = one_update(self.module, self.config())
        net = self.module.policy(state)
        card = {"method": self.method, "spec": asdict(SPEC), "config": asdict(self.config())}
        policy.save(tmp_path, net, card)
        seen = np.asarray(DATA.observations[:5])
        for variant in net.variants:
            before, after = TrainedPolicy(net, variant, card), load_policy(tmp_path, variant=variant)
            np.testing.assert_array_equal(before.act(seen), after.act(seen))
            one, other = (trained.act(seen, np.random.default_rng(5)) for trained in (before, after))
            np.testing.assert_array_equal(one, other)

    @pytest.mark.slow
    def test_a_run_in_parts_ends_where_a_whole_one_ends(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(loop, "CHUNK", 1)

        def stop(now: training.Progress) -> None:
            if now.step == 1:
                raise ZeroDivisionError

        def run(name: str, on_progress: Any = None, seed: int = 3) -> Path:
            out = tmp_path / name
            return training.train(
                DATA, out, self.config(), method=self.method, seeds=(seed,), on_progress=on_progress
            )

        chunk: Any = training.make_chunk(cast(Method, SweepMethod(self.module)), SPEC, (self.config(),))
        whole = run("whole")
        compiled = chunk._cache_size()
        with pytest.raises(ZeroDivisionError):
            run("parts", stop)
        assert not (tmp_path / "parts" / "policy").exists()
        parts, other = run("parts"), run("other", seed=5)
        place = Path("policy", "seed-3", policy.WEIGHTS)
        assert (whole / place).read_bytes() == (parts / place).read_bytes()
        assert files.read_jsonl(whole / "metrics.jsonl") == files.read_jsonl(parts / "metrics.jsonl")
        assert not tiny.same(load_policy(whole).net, load_policy(other).net)
        assert chunk._cache_size() == compiled

    def test_it_has_the_presets_and_explains_every_setting(self) -> None:
        assert self.module.PRESETS["default"] == {}
        assert self.module.PRESETS["cpu"]["steps"] <= 10_000
        for config in inspect.getmro(self.module.Config)[:-1]:  # settings may be inherited; the last is object
            (tree,) = ast.parse(inspect.getsource(config)).body
            assert isinstance(tree, ast.ClassDef)
            for node, following in pairwise(tree.body):
                assert not isinstance(node, ast.AnnAssign) or isinstance(following, ast.Expr), ast.unparse(node)
            assert not isinstance(tree.body[-1], ast.AnnAssign), config


class LagrangianTests(MethodTests):
    """And for a PID Lagrangian: who hears of rewards, and of the multiplier."""

    fixed = ("normaliser", "limits", "budget")
    may_rest = ("pid",)

    def test_rewards_reach_neither_costs_nor_the_cvae(self) -> None:
        _, plain, _ = one_update(self.module, self.config())
        _, poorer, _ = one_update(self.module, self.config(), with_columns(rewards=-DATA.rewards))
        assert tiny.same((plain.cost, plain.cvae, plain.pid), (poorer.cost, poorer.cvae, poorer.pid))
        assert not tiny.same(plain.reward, poorer.reward)
        assert not tiny.same(plain.actor, poorer.actor)

    def test_the_multiplier_reaches_the_actor_alone(self) -> None:
        old, plain, _ = one_update(self.module, self.config())
        dear = eqx.tree_at(lambda s: s.pid.integral, old, jnp.float32(1e4))  # a long history of excess
        _, priced, metrics = one_update(self.module, self.config(), state=dear)
        assert metrics["lagrangian/multiplier"] > 10
        assert tiny.same((plain.reward, plain.cost, plain.cvae), (priced.reward, priced.cost, priced.cvae))
        assert not tiny.same(plain.actor, priced.actor)


class RingRun:
    """A run on the ring of helpers/ring.py: its metrics from chunk to chunk, and what its policy earns and costs."""

    def __init__(self, folder: Path, method: str, dataset: Dataset | None = None, **settings: Any):
        self.run = lspc.train(dataset or ring_data(), folder / method, algo=method, **settings)
        rows = files.read_jsonl(self.run / "metrics.jsonl")
        self.metrics = {name: np.asarray([row[name] for row in rows]) for name in rows[0]}

    def measure(self, *, seed: int = 0, sampled: bool = False) -> tuple[float, float]:
        """Reward in parts of the safe optimum's, and cost of 20 steps."""
        return measure(self.run, load_policy(self.run).variant, seed=seed, sampled=sampled)
