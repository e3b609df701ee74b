"""A trained policy as a user meets it: load it from a folder, ask it for actions.

The folder holds weights.safetensors and card.json (method, settings, data statistics, how it was trained). Loading
rebuilds the network's shape from the card and fills in the weights; nothing in the folder can run code.
"""

import shutil
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from lspc import algos, calibration, checkpoints, files
from lspc.acting import Act, Seen
from lspc.algos.base import Policy, SequencePolicy, Spec
from lspc.algos.lspc import LspcPolicy
from lspc.data.bounds import Bounds
from lspc.errors import UserError
from lspc.replay import NotReplayable, Replay
from lspc.runs.layout import CARD, WEIGHTS, certificate_path, find_policy
from lspc.runs.run import build_config

if TYPE_CHECKING:
    from lspc.calibration.certificate import Certificate
    from lspc.calibration.choosing import Calibration, Choice
    from lspc.deploy.guard import Guard

WEIGHTS_HASH = "weights_sha256"
RESTORE = "restore both from a copy, or train again"
NOT_FINITE = (
    "the policy's action was NaN or infinite; LSPC-S acted instead, or zeros where it has none: `fallbacks` of the "
    "policy counts how often. Is the observation within anything the data have seen?"
)


def save(folder: str | Path, policy: Policy, card: dict[str, Any]) -> None:
    """Write the weights, then the card: a folder with a card is complete."""
    folder = Path(folder)
    files.clear_unfinished(folder)
    checkpoints.write(folder / WEIGHTS, policy, {"method": card["method"]})
    weights = files.file_hash(folder / WEIGHTS)
    content = files.as_json({"variants": list(policy.variants), **card, WEIGHTS_HASH: weights})
    files.write_json(folder / CARD, files.seal(content))


def load_policy(
    path: str | Path, *, seed: int | None = None, variant: str | None = None, restriction: float | None = None
) -> "TrainedPolicy":
    """The policy in a run folder (of its first seed unless told) or in a policy folder itself.

    `restriction` is LSPC-O's eps, if not the run's own.
    """
    folder = find_policy(Path(path), seed)
    card = _read_card(folder)
    try:
        method = algos.get(card["method"])
        spec = Spec(**files.restore_tuples(card["spec"]))
        config = build_config(card["method"], card["config"], f"{folder / CARD}")
    except (KeyError, TypeError) as error:
        raise UserError(f"{folder / CARD}: not a card that this version of lspc can read ({error})") from error
    if seed not in (None, card.get("training_seed", seed)):
        raise UserError(f"{folder} is the policy of seed {card['training_seed']}, not of seed {seed}")
    skeleton = eqx.filter_eval_shape(lambda key: method.policy(method.init(key, spec, config)), jax.random.key(0))
    net = checkpoints.read(folder / WEIGHTS, skeleton)
    _check_weights(net, folder / WEIGHTS)
    variant = variant or net.variants[0]
    if variant not in net.variants:
        raise UserError(f"{folder} has no policy {variant!r}: choose one of {', '.join(net.variants)}")
    trained = TrainedPolicy(net, variant, card, folder)
    return trained if restriction is None else trained.at(restriction)


def _read_card(folder: Path) -> dict[str, Any]:
    """The card, after making sure that it and the weights are those that were written together."""
    card = files.read_json(folder / CARD)
    if not isinstance(card, dict):
        raise UserError(f"{folder / CARD}: not a card: it must be a JSON object; {RESTORE}")
    sealed = files.expect_seal(card, f"{folder / CARD}", RESTORE)
    if (sealed or WEIGHTS_HASH in card) and card.get(WEIGHTS_HASH) != files.file_hash(folder / WEIGHTS):
        raise UserError(
            f"{folder / WEIGHTS}: not the weights that {CARD} was written for (SHA-256 differs); {RESTORE}"
        )
    return card


def _check_weights(net: Policy, place: Path) -> None:
    for name, leaf in checkpoints.arrays_by_path(net).items():
        if jnp.issubdtype(leaf.dtype, jnp.floating) and not np.isfinite(leaf).all():
            raise UserError(f"{place}: {name} holds NaN or infinity: the policy cannot be trusted; train it again")


class TrainedPolicy:
    """Gives actions for one observation or a batch; deterministic unless given a random generator.

    An action is always finite: where a network gives none, LSPC-S acts, and where that has none either, zeros, the
    middle of the range. The first time is told with a warning; `fallbacks` counts them.
    """

    def __init__(self, net: Policy, variant: str, card: dict[str, Any], folder: Path | None = None):
        self.net, self.variant, self.card, self.folder = net, variant, card, folder
        self._compiled = eqx.filter_jit(type(net).__call__)
        spec = card["spec"]
        self.action_bounds = Bounds(tuple(spec.get("action_low", ())), tuple(spec.get("action_high", ())))
        """Of its actions, in the plant's units."""
        self._for_budget: dict[tuple[float, float | None], TrainedPolicy] = {}
        self.fallbacks = Counter[str]()
        """How often LSPC-S or zeros acted, because the action was not finite."""

    def __repr__(self) -> str:
        spec, seed = self.card["spec"], self.card.get("training_seed")
        eps = f", eps {float(self.net.restriction):g}" if isinstance(self.net, LspcPolicy) else ""
        sizes = f"{spec['observation_dim']} observations to {spec['action_dim']} actions in {self.action_bounds}"
        return f"TrainedPolicy({self.variant} of {self.card['method']}{eps}, seed {seed}: {sizes}, {self.folder})"

    def predict(self, observations: np.ndarray) -> np.ndarray:
        """The deterministic action for one observation or a batch: `act` by the name that estimators give it."""
        return self.act(observations)

    def save(self, folder: str | Path) -> None:
        """Copy the policy, calibration and certificates too, to a folder that `lspc.load_policy` opens.

        Which eps it has is said when it is loaded.
        """
        if self.folder is None:
            save(folder, self.net, self.card)
            return
        # The card last: a folder that has one is complete.
        for path in sorted(self.folder.iterdir(), key=lambda path: path.name == CARD):
            with files.atomic_path(Path(folder) / path.name) as temporary:
                shutil.copyfile(path, temporary)

    def act(
        self,
        observation: np.ndarray,
        rng: np.random.Generator | None = None,
        *,
        budget: float | None = None,
        risk: float | None = None,
        budget_left: float | None = None,
        steps_left: int | None = None,
    ) -> np.ndarray:
        """The action for `observation` (one or a batch of them); sampled with `rng`, else the deterministic one.

        It is in the plant's units: between the bounds that the data had.

        After `lspc calibrate`, `budget` asks for LSPC-O at the eps chosen for that cost of an episode (the one that
        `lspc pilot` has certified, where it has; none that it has proved too costly). With a `risk`, such as 0.05,
        only that share of episodes is estimated to exceed the budget at its eps. `budget_left` and `steps_left` put
        the guard in charge, which falls back to LSPC-S when they do not suffice.
        """
        observation = self._checked(observation)
        if (budget, budget_left, steps_left) != (None, None, None):
            self._check_takes_budget()
        if budget is None and risk is not None:
            raise UserError("a risk is the chance of exceeding a budget: give a budget too")
        if budget is not None:
            return self.for_budget(budget, risk).act(observation, rng, budget_left=budget_left, steps_left=steps_left)
        if budget_left is not None or steps_left is not None:
            if budget_left is None or steps_left is None or rng is not None:
                raise UserError("the guard needs both budget_left and steps_left, and does not sample actions")
            return self.guard.act(observation, budget_left=budget_left, steps_left=steps_left)
        if rng is None and observation.ndim == 1 and self._replay is not None:
            actions = self._replay(observation)
        else:
            shape = (*observation.shape[:-1], self.net.noise_dim)
            noise = np.zeros(shape, np.float32) if rng is None else rng.standard_normal(shape, dtype=np.float32)
            actions = np.asarray(self._compiled(self.net, jnp.asarray(observation), jnp.asarray(noise), self.variant))
        return self.action_bounds.to_plant(self._finite(actions, observation))

    @cached_property
    def _replay(self) -> Replay | None:
        """The deterministic action for one observation, without starting a compiled program; none: it needs one."""
        net, variant = self.net, self.variant
        noise = np.zeros(net.noise_dim, np.float32)
        example = np.zeros(self.card["spec"]["observation_dim"], np.float32)
        try:
            return Replay(lambda observation: net(observation, jnp.asarray(noise), variant), example)
        except NotReplayable:
            return None

    def _finite(self, actions: np.ndarray, observation: np.ndarray) -> np.ndarray:
        """Actions that are all finite: LSPC-S's in place of broken ones, or zeros."""
        if np.isfinite(actions).all():
            return actions
        if not self.fallbacks:
            warnings.warn(NOT_FINITE, stacklevel=3)
        broken = ~np.isfinite(actions).all(-1, keepdims=True)
        if "LSPC-S" in self.net.variants and self.variant != "LSPC-S":
            noise = jnp.zeros((*observation.shape[:-1], self.net.noise_dim))
            careful = np.asarray(self._compiled(self.net, jnp.asarray(observation), noise, "LSPC-S"))
            actions = np.where(broken, careful, actions)
        hopeless = ~np.isfinite(actions).all(-1, keepdims=True)
        self.fallbacks["LSPC-S"] += int((broken & ~hopeless).sum())
        self.fallbacks["zeros"] += int(hopeless.sum())
        return np.where(hopeless, np.float32(0), actions)

    def _checked(self, observation: np.ndarray) -> np.ndarray:
        observation = np.asarray(observation, np.float32)
        expected = self.card["spec"]["observation_dim"]
        if observation.shape[-1:] != (expected,):
            raise UserError(f"the policy takes observations of size {expected}, not of shape {observation.shape}")
        if not np.isfinite(observation).all():
            raise UserError("the observation holds NaN or infinity: refusing to act on it")
        return observation

    def at(self, restriction: float) -> "TrainedPolicy":
        """LSPC-O with another eps."""
        return TrainedPolicy(self._lspc().at(restriction), self.variant, self.card, self.folder)

    def for_budget(self, budget: float, risk: float | None = None) -> "TrainedPolicy":
        """LSPC-O with the eps of `choose`; where that names none, an error says why."""
        self._check_takes_budget()
        asked = budget, risk
        if asked not in self._for_budget:
            choice = self.choose(budget, risk)
            if choice.restriction is None:
                raise UserError(f"budget {budget:g}: {choice.why}")
            net = self._lspc().at(choice.restriction)
            self._for_budget[asked] = TrainedPolicy(net, net.variants[0], self.card, self.folder)
            self._for_budget[asked].fallbacks = self.fallbacks
        return self._for_budget[asked]

    def _check_takes_budget(self) -> None:
        if self.variant != self.net.variants[0]:
            raise UserError(
                f"this is {self.variant}, which does not depend on a budget: load {self.net.variants[0]} to act "
                "within one"
            )

    def choose(self, budget: float, risk: float | None = None) -> "Choice":
        """The eps that a pilot has certified for this budget, else the calibration's choice.

        That is refused where the pilot has proved this eps or a smaller one too costly. A pilot proves the mean cost:
        with a `risk`, the chance that an episode may exceed the budget, the calibration chooses in any case.
        """
        piloted = self.piloted(budget)
        if piloted and risk is None and (certified := piloted.choose()):
            return certified
        choice = self.calibration.choose(budget, risk)
        return piloted.check(choice) if piloted else choice

    def piloted(self, budget: float) -> "Certificate | None":
        """What `lspc pilot` proved, or failed to prove, for this budget; none without a pilot."""
        if self.folder is None or not certificate_path(self.folder, budget).exists():
            return None
        from lspc.calibration import certificate

        return certificate.load(self.folder, budget)

    def certified(self, budget: float) -> float | None:
        """The eps that `lspc pilot` has certified for this budget, if it has."""
        piloted = self.piloted(budget)
        return piloted.restriction if piloted else None

    @cached_property
    def calibration(self) -> "Calibration":
        """What `lspc calibrate` found; what other rules than today's found is told with a warning."""
        self._lspc()
        if self.folder is None:
            raise UserError("a policy that was not loaded from a folder has no calibration")
        found = calibration.load(self.folder)
        calibration.warn_of_other_rules(self.folder, found.rules)
        return found

    @cached_property
    def guard(self) -> "Guard":
        """LSPC-O watched over by what `lspc calibrate` found; `guard.interventions` counts."""
        from lspc.deploy.guard import Guard

        found, net = self.calibration, self._lspc()
        assert self.folder is not None
        spec = Spec(**files.restore_tuples(self.card["spec"]))
        return Guard(net, calibration.load_guard_models(self.folder, found, spec), found, self.action_bounds)

    def _lspc(self) -> LspcPolicy:
        if not isinstance(self.net, LspcPolicy):
            raise UserError(f"a policy of {self.card['method']} has no restriction: only LSPC-O serves every budget")
        return self.net

    def for_episodes(self, *, sampled: bool) -> Act:
        """A function for the evaluation pool, whose noise depends on (episode seed, step) alone."""
        to_plant = self.action_bounds.to_plant
        if isinstance(self.net, SequencePolicy):
            remembering = _Remembering(self.net, self.variant, sampled)
            return lambda seen: to_plant(self._finite(remembering(seen), seen.observations))
        leaves, shape = jax.tree.flatten(self.net)
        compiled = _compiled_actions(shape, self.variant, sampled)

        def act(seen: Seen) -> np.ndarray:
            actions = np.asarray(compiled(leaves, seen.observations, seen.seeds, seen.steps))
            return to_plant(self._finite(actions, seen.observations))

        return act


@lru_cache(maxsize=32)
def _compiled_actions(shape: Any, variant: str, sampled: bool) -> Callable[..., Any]:
    """One program for all policies of a shape: a run's policies are measured many times while it is trained."""

    def actions(leaves: Any, observations: Any, seeds: Any, steps: Any) -> Any:
        net = jax.tree.unflatten(shape, leaves)
        return net(observations, _episode_noise(net, seeds, steps, sampled), variant)

    return jax.jit(actions)


def _episode_noise(net: Policy, seeds: Any, steps: Any, sampled: bool) -> Any:
    def noise(seed: Any, step: Any) -> Any:
        return jax.random.normal(jax.random.fold_in(jax.random.key(seed), step), (net.noise_dim,))

    return jax.vmap(noise)(seeds, steps) if sampled else jnp.zeros((seeds.shape[0], net.noise_dim))


class _Remembering:
    """A sequence policy in the pool: one memory for each lane, wiped when an episode begins there."""

    def __init__(self, net: SequencePolicy, variant: str, sampled: bool) -> None:
        self._net, self._memory, self._size = net, None, 0

        def step(memory: Any, seen: Any) -> tuple[Any, Any]:
            def fresh(old: Any, blank: Any) -> Any:
                begins = (seen.steps == 0).reshape(-1, *[1] * (old.ndim - 1))
                return jnp.where(begins, blank, old)

            rows = jax.tree.map(lambda all_lanes: all_lanes[seen.lanes], memory)
            rows = jax.tree.map(fresh, rows, net.start(seen.lanes.shape[0]))
            noise = _episode_noise(net, seen.seeds, seen.steps, sampled)
            actions, rows = net.step(rows, seen.observations, seen.rewards, seen.costs, noise, variant)
            return actions, jax.tree.map(lambda old, new: old.at[seen.lanes].set(new), memory, rows)

        self._step = jax.jit(step)

    def __call__(self, seen: Seen) -> np.ndarray:
        if (needed := int(seen.lanes.max()) + 1) > self._size:
            more = self._net.start(needed - self._size)
            grown = more if self._memory is None else jax.tree.map(lambda *a: jnp.concatenate(a), self._memory, more)
            self._memory, self._size = grown, needed
        actions, self._memory = self._step(self._memory, seen)
        return np.asarray(actions)
