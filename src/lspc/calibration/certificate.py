"""The certificate that a pilot leaves beside the policy it speaks of, and how a run comes by one."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lspc import files
from lspc.algos.lspc import LspcPolicy
from lspc.algos.parts.admission import restriction_for
from lspc.calibration import pilot, storage
from lspc.calibration.choosing import Choice
from lspc.calibration.families import LspcFamily
from lspc.calibration.pilot import Claim, Stage, Trial
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.evaluation import check_fits
from lspc.policy import TrainedPolicy, load_policy
from lspc.runs import Run, fields, layout
from lspc.sims.pool import Pool
from lspc.tasks import Task, get_task
from lspc.version import __version__

FIRST_EPISODE_SEED = 2_000_000
"""Pilot episodes are numbered from here: none that the policy was chosen by is among them."""
BATCH = 10
"""Simulated episodes between two looks at the test."""
EVENLY = 5
"""eps to try when nothing is known of any."""
AGAIN = "restore it from a copy, or run `lspc pilot` again (recorded episodes serve again: --log)"
ALIKE = 0.05
"""Mean difference of logged and computed actions, which lie within 1, beyond which a certificate mentions it."""


@dataclass(frozen=True)
class Certificate:
    """That LSPC-O at `restriction` costs at most the budget on average, or that no eps was proved to."""

    claim: Claim
    restriction: float | None
    """Of those that passed, the one that earned most in the pilot; none if none passed."""
    stages: tuple[Stage, ...]
    untested: tuple[float, ...]
    """eps that were not tried because a smaller one failed."""
    source: str
    """Where the episodes are from."""
    notes: tuple[str, ...]
    """What else there is to know."""
    training_seed: int
    dataset: str
    """Fingerprint of the data that the policy learned from."""
    weights: str
    """SHA-256 of the policy's weights."""
    lspc_version: str
    command: str

    @property
    def episodes(self) -> int:
        """Real episodes at the certified eps."""
        return next((len(stage.costs) for stage in self.stages if stage.restriction == self.restriction), 0)

    @property
    def too_costly(self) -> Stage | None:
        """The smallest eps that was proved to cost more than the budget: none from there upward may be used."""
        return min((s for s in self.stages if s.too_costly), key=lambda stage: stage.restriction, default=None)

    def choose(self) -> Choice | None:
        """The certified eps; none where nothing was proved."""
        if self.restriction is None:
            return None
        why = f"eps {self.restriction:.3g}: certified with {self.episodes} real episodes"
        return Choice(self.claim.budget, self.restriction, None, None, why, certified=True)

    def check(self, choice: Choice) -> Choice:
        """The calibration's choice, refused if this eps or a smaller one was proved too costly."""
        refuted = self.too_costly
        if refuted is None or choice.restriction is None or choice.restriction < refuted.restriction:
            return choice
        return Choice(
            choice.budget, None, None, None,
            f"the logs suggest eps {choice.restriction:.3g}, but a pilot found {refuted.explain(self.claim)}; deploy "
            "LSPC-S, raise the budget, or certify a smaller eps with `lspc pilot`",
        )  # fmt: skip

    def explain(self) -> str:
        """The whole of it in plain words; the last line is what it comes to."""
        claim = self.claim
        lines = [stage.explain(claim) for stage in self.stages]
        if self.untested:
            lines.append(
                f"not tried, because a smaller eps failed: {', '.join(f'{eps:.3g}' for eps in self.untested)}"
            )
        lines += self.notes
        if self.restriction is None:
            lines.append(f"no certificate: no eps was proved to cost at most {claim.budget:g} on average")
        else:
            lines.append(
                f"certificate from {self.episodes} real episodes at {claim.confidence:.0%}: LSPC-O at eps "
                f"{self.restriction:.3g} costs at most {claim.budget:g} per episode on average; it concerns the "
                f"mean over episodes that start and continue as these did, and relies on no episode costing more "
                f"than {claim.bound:g} ({claim.bound_from})"
            )
        return "\n".join(lines)


def save(folder: Path, certificate: Certificate) -> Path:
    path = layout.certificate_path(folder, certificate.claim.budget)
    content = {**asdict(certificate), "words": certificate.explain().splitlines()}
    files.write_json(path, files.seal(files.as_json(content)))
    return path


def load(folder: str | Path, budget: float) -> Certificate:
    """The certificate of a policy for a budget; refused if it is of another one, or of other weights."""
    folder = Path(folder)
    path = layout.certificate_path(folder, budget)
    if not path.exists():
        raise UserError(f"{folder} has no certificate for budget {budget:g}: run `lspc pilot` on its run first")
    certificate = read(path)
    if certificate.claim.budget != budget:
        told, asked = (layout.spell_budget(each) for each in (certificate.claim.budget, budget))
        raise UserError(f"{path} is for budget {told}, not {asked}: delete it, or run `lspc pilot` for {asked}")
    if certificate.weights != hash_weights(folder):
        raise UserError(f"{path} is for other weights than {layout.WEIGHTS} beside it: run `lspc pilot` again")
    return certificate


def belongs(path: Path, certificate: Certificate) -> bool:
    """Whether it speaks of the policy beside it, for the budget that its file is named after."""
    folder = path.parent
    if path != layout.certificate_path(folder, certificate.claim.budget) or not (folder / layout.WEIGHTS).exists():
        return False
    return certificate.weights == hash_weights(folder)


def read(path: Path) -> Certificate:
    """The certificate in a file; one that was changed since it was written is refused."""
    values = files.read_json(path)
    if not isinstance(values, dict) or not isinstance(values.get("stages"), list):
        raise UserError(f"{path}: damaged, not a certificate with its stages; {AGAIN}")
    files.expect_seal(values, f"{path}", AGAIN)
    stages = [fields.parse(Stage, each, f"{path}", inside=f"stages[{i}]") for i, each in enumerate(values["stages"])]
    return fields.parse(Certificate, values, f"{path}", stages=tuple(stages))


def hash_weights(folder: Path) -> str:
    return hashlib.sha256((folder / layout.WEIGHTS).read_bytes()).hexdigest()


def run_pilot(
    run: str | Path,
    budget: float,
    *,
    task: str | None = None,
    logs: Mapping[float, Dataset] | None = None,
    restrictions: Sequence[float] = (),
    episodes: int = 100,
    confidence: float = 0.9,
    bound: float | None = None,
    test: str = pilot.BETTING,
    seed: int | None = None,
    workers: int | None = None,
    command: str = "lspc.pilot",
    on_stage: Callable[[str, int, int], None] = lambda what, done, total: None,
) -> tuple[Certificate, Path]:
    """Try LSPC-O with real episodes, in a simulator or from `logs` by eps, and leave a certificate with the policy.

    `bound` is the largest cost that an episode can have; unless given, steps times the data's largest cost of one.
    """
    opened, policy = Run.open(run), load_policy(run, seed=seed)
    net = policy.net
    if not isinstance(net, LspcPolicy) or "LSPC-S" not in net.variants or policy.folder is None:
        raise UserError(f"{run}: a pilot tries LSPC-O from its smallest eps upward; {opened.method} has none")
    if logs and (task or restrictions):
        raise UserError("episodes come from --log or from a simulator (--on, --restrictions): give one of the two")
    simulated = None if logs else _find_task(opened, task)
    steps = simulated.episode_length if simulated else max(
        opened.spec.longest_episode, *(int(log.lengths.max()) for log in (logs or {}).values())
    )  # fmt: skip
    claim = Claim(budget, *_bound_cost(opened, steps, bound), confidence, test)
    wanted = sorted(logs or set(restrictions) or _propose(policy, budget))
    for restriction in wanted:
        net.at(restriction)
    if logs:
        notes = [_compare_actions(policy, restriction, logs[restriction]) for restriction in wanted]
        plan = {eps: len(log.episodes) for eps, log in logs.items()}
        stages = pilot.run_sequence(claim, plan, pilot.try_logs(logs, steps), batch=max(plan.values()))
        source = "; ".join(f"eps {eps:g}: {logs[eps].source} ({logs[eps].fingerprint[:16]})" for eps in wanted)
    else:
        assert simulated is not None
        _check_enough(claim, episodes)
        notes = []
        stages = _test_in_simulator(claim, policy, simulated, wanted, episodes, workers, on_stage)
        source = f"simulator: {simulated.name}, episode seeds from {FIRST_EPISODE_SEED}"
    best = max((s for s in stages if s.passed), key=lambda stage: stage.mean_reward, default=None)
    certificate = Certificate(
        claim, best.restriction if best else None, stages, tuple(wanted[len(stages) :]), source,
        tuple(note for note in notes if note), policy.card["training_seed"], opened.dataset.fingerprint,
        hash_weights(policy.folder), __version__, command,
    )  # fmt: skip
    return certificate, save(policy.folder, certificate)


def _find_task(run: Run, named: str | None) -> Task:
    if named is None and run.task is None:
        raise UserError(
            f"{run.path} was not trained for a task: add --on TASK, or --log EPS=FILE for recorded episodes"
        )
    task = get_task(named or run.task or "")
    check_fits(run, task)
    return task


def _bound_cost(run: Run, steps: int, bound: float | None) -> tuple[float, str]:
    if bound is not None:
        return bound, "stated with --bound"
    largest = run.spec.largest_cost
    return steps * largest, f"{steps} steps times {largest:g}, the largest cost of a step in the data"


def _propose(policy: TrainedPolicy, budget: float) -> list[float]:
    """The least eps, the one that the calibration chose, and one between them; some of all without a calibration.

    Where that could choose none, the eps that has learned from episodes of half of the budget stands in.
    """
    assert isinstance(policy.net, LspcPolicy)
    assert policy.folder is not None
    low, high = LspcFamily(policy.net).range
    if (policy.folder / layout.CALIBRATION).exists():
        calibration = storage.load(policy.folder)
        chosen = calibration.choose(budget).restriction
        if chosen is None:
            costs = np.asarray(calibration.episode_costs)
            chosen = round(restriction_for(costs, budget / 2, (low, high)), 6)
        return sorted({low, round((low + chosen) / 2, 6), chosen})
    return np.unique(np.linspace(low, high, EVENLY).round(6)).tolist()


def _check_enough(claim: Claim, episodes: int) -> None:
    needed = claim.fewest_episodes()
    if episodes < needed:
        raise UserError(
            f"--episodes {episodes} cannot prove a mean of at most {claim.budget:g} where an episode may cost "
            f"{claim.bound:g}: even {needed - 1} episodes without any cost would not; add --episodes {needed} or "
            "more, or a smaller --bound if you know one"
        )


def _test_in_simulator(
    claim: Claim,
    policy: TrainedPolicy,
    task: Task,
    restrictions: Sequence[float],
    episodes: int,
    workers: int | None,
    on_stage: Callable[[str, int, int], None],
) -> tuple[Stage, ...]:
    with Pool(task, workers=workers) as pool:

        def try_episodes(restriction: float, first: int, count: int) -> list[Trial]:
            on_stage(f"eps {restriction:.3g}", first, episodes)
            act = policy.at(restriction).for_episodes(sampled=False)
            seeds = range(FIRST_EPISODE_SEED + first, FIRST_EPISODE_SEED + first + count)
            return [Trial(each.cost_return, each.reward_return) for each in pool.run(act, seeds)]

        return pilot.run_sequence(claim, dict.fromkeys(restrictions, episodes), try_episodes, batch=BATCH)


def _compare_actions(policy: TrainedPolicy, restriction: float, log: Dataset) -> str:
    """A word if the logged actions are not those of the policy at this eps."""
    size = policy.card["spec"]["observation_dim"], policy.card["spec"]["action_dim"]
    if (log.observation_dim, log.action_dim) != size:
        raise UserError(
            f"{log.source}: observations and actions of sizes {log.observation_dim} and {log.action_dim}; the "
            f"policy's are {size[0]} and {size[1]}"
        )
    difference = float(np.abs(policy.at(restriction).act(log.observations) - log.actions).mean())
    if difference <= ALIKE:
        return ""
    return (
        f"{log.source}: its actions differ from the policy's at eps {restriction:g} by {difference:.2g} on average; "
        "was it recorded with this policy and eps?"
    )
