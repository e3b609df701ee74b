"""A run: the folder that training makes, opened as a typed description, and what can be asked of it.

The description says what decides the run's numbers (method, settings, seeds, data) and where those came from. It is
written once, when a folder is claimed, and read here and nowhere else.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from lspc import algos, data, files
from lspc.algos.base import Spec
from lspc.data import Dataset
from lspc.errors import UserError
from lspc.runs import fields, layout, record
from lspc.runs.record import Record
from lspc.tasks import Task, get_task, thresholds_of
from lspc.tasks.own import is_own, make_own
from lspc.version import __version__

STORE_WAIT = 60.0
"""Seconds: far longer than another process needs to store its records."""


class Foreseen(NamedTuple):
    """What training would do in a folder."""

    words: str
    finished: bool = False
    """Whether there is nothing to do."""


@dataclass(frozen=True)
class DatasetFacts:
    """What a run knows of the data it learned from."""

    source: str
    """The file they came from."""
    fingerprint: str
    episodes: int
    episodes_used: int
    """Those that the method learned from."""
    transitions_used: int
    opened: dict[str, Any] | None = None
    """How the file was opened, where it needed words: the columns of a table."""
    held_out: float = 0.0
    """Share of the episodes that were held out from training, for `lspc calibrate`: `Dataset.hold_out` says which."""


@dataclass(frozen=True, eq=False)
class Run:
    """A run, whether its folder is there already (`open`) or not yet (`plan`)."""

    path: Path
    lspc_version: str
    method: str
    task: str | None
    seeds: tuple[int, ...]
    config: dict[str, Any]
    """The method's settings, as JSON has them."""
    provenance: dict[str, str]
    """Setting -> the layer that set it, for every one that is not at its default."""
    dataset: DatasetFacts
    spec: Spec

    @staticmethod
    def open(path: str | Path) -> "Run":
        """The run in a folder."""
        folder = Path(path)
        if not layout.is_run(folder):
            raise UserError(f"{folder} is not a run folder: it has no {layout.CONFIG}")
        place = layout.config_path(folder)
        values = files.read_json(place)
        run = fields.parse(Run, values, f"{place}", path=folder)
        files.expect_seal(values, f"{place}", "restore it from a copy, or train again")
        if not run.seeds:
            raise UserError(f"{place}: seeds must name one training seed or more, found none; repair or delete it")
        return run

    @staticmethod
    def plan(
        path: str | Path,
        dataset: Dataset,
        learned: Dataset,
        config: Any,
        *,
        method: str,
        seeds: Sequence[int],
        task: Task | None,
        provenance: Mapping[str, str],
        held_out: float = 0.0,
    ) -> "Run":
        """The run that training `method` with `config` will be; `learned` is the part of `dataset` it learns from."""
        facts = DatasetFacts(
            dataset.source, dataset.fingerprint, len(dataset.episodes), len(learned.episodes), learned.transitions,
            dict(dataset.opened) or None, held_out,
        )  # fmt: skip
        return Run(
            Path(path), __version__, method, task.name if task else None, tuple(seeds),
            files.as_json(asdict(config)), dict(provenance), facts, Spec.of(learned),
        )  # fmt: skip

    @property
    def name(self) -> str:
        return self.path.resolve().name

    def describe(self) -> dict[str, Any]:
        """What the description on disk holds."""
        values = asdict(self)
        del values["path"]
        if self.dataset.opened is None:
            del values["dataset"]["opened"]
        if not self.dataset.held_out:
            del values["dataset"]["held_out"]
        return files.as_json(values)

    def identity(self) -> dict[str, Any]:
        """All that decides the run's numbers, flat, so that a difference can be named."""
        held_out = {"hold_out": self.dataset.held_out} if self.dataset.held_out else {}
        return identity(self.method, self.seeds, self.dataset.fingerprint, self.config) | held_out

    def claim(self) -> None:
        """Take a fresh folder, or make sure that the run in it is this one; one of fewer updates is extended.

        What a run has learned after so many updates does not depend on how many follow, so it goes on from there.
        What was measured of its policy so far is set aside.
        """
        if layout.is_run(self.path):
            there = self.check_folder()
            if there is not None and there.steps < self.steps:
                layout.set_aside(self.path, there.steps)
                files.write_json(layout.config_path(self.path), files.seal(self.describe()))
            return
        if self.checkpoint_paths():
            raise UserError(
                f"{self.path} has checkpoints but no {layout.CONFIG}; choose another --out or delete that folder"
            )
        files.write_json(layout.config_path(self.path), files.seal(self.describe()))

    def check_folder(self) -> "Run | None":
        """The run that is in the folder already, if there is one; one that this cannot go on with is refused."""
        if not layout.is_run(self.path):
            return None
        there = Run.open(self.path)
        wanted = self.identity()
        fewer = there.steps < self.steps
        there.check_same({**wanted, "steps": there.steps} if fewer else wanted)
        return there

    @property
    def steps(self) -> int:
        """How many updates it has when it is finished."""
        return self.config["steps"]

    def updates_done(self) -> int:
        """How many updates its last checkpoint is of."""
        paths = self.checkpoint_paths()
        return layout.updates_of(paths[-1]) if paths else 0

    def foresee(self) -> "Foreseen":
        """What training this planned run would do."""
        there = self.check_folder()
        if there is None:
            return Foreseen(f"a new run of {self.steps} updates")
        done = there.updates_done()
        if there.steps < self.steps:
            return Foreseen(f"continues from update {done} to {self.steps} (it was started with {there.steps})")
        if there.is_finished():
            return Foreseen(f"already finished, with {self.steps} updates; a larger --steps continues it", True)
        return Foreseen(f"continues from update {done} of {self.steps}")

    def check_same(self, wanted: Mapping[str, Any]) -> None:
        """Refuse to go on in this run's folder with a run of another identity."""
        there = self.identity()
        for name in {**wanted, **there}:
            if there.get(name) != wanted.get(name):
                detail = f"{name} is {there.get(name)} there, {wanted.get(name)} now"
                raise UserError(
                    f"{self.path} holds another run ({detail}); choose another --out or delete that folder"
                )

    def method_config(self) -> Any:
        """The settings as the method's own `Config`."""
        return build_config(self.method, self.config, f"{layout.config_path(self.path)}")

    def load_dataset(self, given: Path | None = None) -> Dataset | None:
        """The data the run learned from, at `given` or where it found them; none if they are gone or have changed."""
        source = given or Path(self.dataset.source)
        if not source.exists():
            return None
        dataset = self.bound_actions(data.load(source, **self.dataset.opened or {}))
        return dataset if dataset.fingerprint == self.dataset.fingerprint else None

    def bound_actions(self, dataset: Dataset) -> Dataset:
        """The data with the run's own action bounds: those of the file may be others. The fingerprint judges."""
        sizes_differ = dataset.action_dim != self.spec.action_dim
        return dataset if sizes_differ else dataset.bound_actions(self.spec.action_bounds, slack=math.inf)

    def require_dataset(
        self, given: Path | None = None, on_warning: Callable[[str], None] = lambda line: None
    ) -> Dataset:
        """The data the run learned from, or a word on where to name them; `on_warning` hears what is odd there."""
        if (dataset := self.load_dataset(given)) is not None:
            for warning in dataset.warnings:
                on_warning(warning)
            return dataset
        source = given or Path(self.dataset.source)
        if source.exists():
            raise UserError(
                f"{source} is not the data that the policy learned from: their fingerprints differ; add --data FILE"
            )
        raise UserError(f"the data of {self.path} is not at {source} any more: add --data FILE")

    def find_task(
        self, name: str | None = None, *, budgets: Sequence[float] = (), horizon: int | None = None, **own: Any
    ) -> Task:
        """The task of this name, the run's own unless told, with the budgets to judge by, the run's unless given.

        A name such as `module:callable` is the user's own environment; `own` are options of `make_own`, and its
        episodes are as long as the longest in the data unless a horizon is given.
        """
        if (name := name or self.task) is None:
            raise UserError(
                f"{self.path} was not trained for a task: add --on TASK (see `lspc tasks`), or --on MODULE:CALLABLE "
                "for an environment of your own"
            )
        if not is_own(name):
            task = get_task(name)
            return replace(task, thresholds=tuple(budgets) or self.budgets(task))
        return make_own(
            name, observation_dim=self.spec.observation_dim, action_dim=self.spec.action_dim,
            horizon=horizon or self.spec.longest_episode, budgets=tuple(budgets) or self.budgets(None), **own,
        )  # fmt: skip

    def budgets(self, task: Task | None) -> tuple[float, ...]:
        """What costs are judged by: what the user asked for last, else the task's thresholds or the usual ones."""
        place = self.path / layout.BUDGETS
        if not place.exists():
            return thresholds_of(task)
        found = files.read_json(place)
        if not isinstance(found, list) or not found or not all(map(_is_budget, found)):
            raise UserError(
                f"{place}: must be a list of cost budgets, each a number of 0 or more, found {found!r}; "
                "repair or delete it"
            )
        return tuple(found)

    def remember_budgets(self, budgets: Sequence[float]) -> None:
        """Judge by these from now on, in every table and picture; none changes nothing."""
        if budgets:
            files.write_json(self.path / layout.BUDGETS, sorted(set(budgets)))

    def records(self, name: str = layout.EVALUATIONS) -> list[Record]:
        """The episodes in one of the run's files of records; none if there is no such file."""
        path = self.path / name
        return record.read(path, self._known) if path.exists() else []

    def store_records(self, records: Sequence[Record], name: str = layout.EVALUATIONS) -> None:
        """Keep these in place of those of the same policies; other processes may store theirs at the same time."""
        with files.locked(self.path, wait=STORE_WAIT):
            record.store(self.path / name, records, self._known)

    @property
    def _known(self) -> dict[str, Any]:
        """What older records of the run do not say themselves."""
        return {"budget": self.config.get("budget")}

    def policy_folder(self, seed: int | None = None) -> Path:
        """Where the policy of a training seed (the first unless told) is, if it is trained."""
        return layout.find_policy(self.path, seed)

    def checkpoint_paths(self) -> list[Path]:
        return layout.checkpoint_paths(self.path)

    def is_finished(self) -> bool:
        """Whether there is a policy of every seed."""
        return all((layout.policy_folder(self.path, seed) / layout.CARD).exists() for seed in self.seeds)


def _is_budget(value: Any) -> bool:
    known = isinstance(value, int | float) and not isinstance(value, bool)
    return known and math.isfinite(value) and value >= 0


def identity(method: str, seeds: Sequence[int], dataset: str, config: Mapping[str, Any]) -> dict[str, Any]:
    """What tells a run from every other; `dataset` is the data's fingerprint."""
    return {"method": method, "seeds": list(seeds), "dataset": dataset, **config}


def build_config(method: str, settings: Mapping[str, Any], place: str) -> Any:
    """Settings that were read from JSON as the method's `Config`; `place` is where they stand, for messages."""
    module = algos.get(method)
    renamed: Mapping[str, str] = getattr(module, "RENAMED", {})
    known = {**getattr(module, "ADDED", {}), **{renamed.get(name, name): settings[name] for name in settings}}
    try:
        return module.Config(**files.restore_tuples(known))
    except TypeError as error:
        raise UserError(f"{place}: not settings of {method} that this version of lspc can read ({error})") from error
