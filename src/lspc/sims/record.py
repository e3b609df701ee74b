"""Recording a plant or an environment while something else drives it: a gymnasium wrapper that leaves a dataset.

Every finished episode is in the file before the next one begins: the file is copied, added to and renamed, so a
process that is killed loses at most the episode it was in.
"""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import h5py
import numpy as np

from lspc.data.bounds import Bounds, read_bounds, write_bounds
from lspc.data.dataset import FIELDS, FLOAT_FIELDS
from lspc.data.validate import FILE_NAMES
from lspc.errors import UserError
from lspc.files import atomic_path
from lspc.sims.own import read_answer

SUFFIXES = (".hdf5", ".h5")
ROWS_PER_CHUNK = 1024

Cost = str | Callable[[np.ndarray, np.ndarray, np.ndarray], float]
"""Where `info` holds the cost of a step, or a function of the observation, the action and the next observation."""


def record(env: Any, path: str | Path, *, cost: Cost = "cost") -> "Recorder":
    """The environment, with every finished episode added to the HDF5 file at `path`, which is made or gone on with.

    An episode that is abandoned, by a reset or by the end of the process, is left out: what it would have cost is not
    known.
    """
    return Recorder(env, Path(path), cost)


class Recorder(gymnasium.Wrapper):
    """What `record` gives: used like the environment it is around."""

    def __init__(self, env: Any, path: Path, cost: Cost) -> None:
        super().__init__(env)
        if path.suffix.lower() not in SUFFIXES:
            raise UserError(
                f"{path}: a recording is an HDF5 file; give it a name that ends in {' or '.join(SUFFIXES)}"
            )
        for what in ("observation", "action"):
            space = getattr(env, f"{what}_space")
            if not isinstance(space, gymnasium.spaces.Box):
                raise UserError(
                    f"{path}: the environment's {what}s are {space}; only a Box of numbers can be recorded"
                )
        self.path, self._cost = path, cost
        self._rows: dict[str, list[Any]] = {field: [] for field in FIELDS}
        self._last: np.ndarray | None = None
        self._bounds = _find_bounds(env.action_space)
        if path.exists():
            _check_same(path, self._sizes(), self._bounds)

    def reset(self, **options: Any) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(**options)
        self._rows = {field: [] for field in FIELDS}
        self._last = _flat(observation)
        return observation, info

    def step(self, action: Any) -> Any:
        if self._last is None:
            raise UserError(f"{self.path}: reset the environment before its first step, and after an episode's last")
        answer: Any = self.env.step(action)
        key = self._cost if isinstance(self._cost, str) else None
        observation, reward, cost, terminated, truncated = (
            read_answer(answer, str(self.path), key) if key else (answer[0], float(answer[1]), 0.0, *answer[-3:-1])
        )
        before, taken, after = self._last, _flat(action), _flat(observation)
        if callable(self._cost):
            cost = float(self._cost(before, taken, after))
        row = (before, taken, reward, cost, after, bool(terminated), bool(truncated and not terminated))
        for field, value in zip(FIELDS, row, strict=True):
            self._rows[field].append(value)
        self._last = after
        if terminated or truncated:
            self._last = None
            append(self.path, self._rows, self._bounds)
        return answer

    def _sizes(self) -> dict[str, int]:
        spaces = {"observations": self.env.observation_space, "actions": self.env.action_space}
        return {name: int(np.prod(space.shape or (1,))) for name, space in spaces.items()}


def append(path: Path, rows: dict[str, list[Any]], bounds: Bounds | None) -> None:
    """Add transitions to a recording: whole, or not at all."""
    with atomic_path(path) as temporary:
        going_on = path.exists()
        if going_on:
            shutil.copyfile(path, temporary)
        with h5py.File(temporary, "r+" if going_on else "w") as file:
            for field in FIELDS:
                values = np.asarray(rows[field], np.float32 if field in FLOAT_FIELDS else np.bool_)
                _extend(file, FILE_NAMES[field], values)
            if bounds is not None:
                file.attrs.update(write_bounds(bounds))


def _extend(file: h5py.File, name: str, values: np.ndarray) -> None:
    if name in file and file[name].maxshape[0] is not None:  # written by something else than a recorder
        values = np.concatenate([file[name][:], values])
        del file[name]
    if name not in file:
        file.create_dataset(
            name, data=values, maxshape=(None, *values.shape[1:]), chunks=(ROWS_PER_CHUNK, *values.shape[1:]),
            compression="gzip", shuffle=True, track_times=False,
        )  # fmt: skip
        return
    there = len(file[name])
    file[name].resize(there + len(values), axis=0)
    file[name][there:] = values


def _check_same(path: Path, sizes: dict[str, int], bounds: Bounds | None) -> None:
    """Refuse to go on with a recording of something else."""
    try:
        with h5py.File(path, "r") as file:
            there = {name: int(file[name].shape[1]) for name in sizes}
            known = read_bounds(file.attrs)
    except (OSError, KeyError, IndexError, ValueError) as error:
        raise UserError(f"{path} is not a recording that can be continued ({error}); name another file") from error
    for name, size in sizes.items():
        if there[name] != size:
            raise UserError(
                f"{path} holds {name} of size {there[name]}, the environment has {size}; name another file"
            )
    if known is not None and bounds is not None and known != bounds:
        raise UserError(
            f"{path} holds actions within {known}, the environment's are within {bounds}; name another file"
        )


def _find_bounds(space: gymnasium.spaces.Box) -> Bounds | None:
    """Those of the actions, if the environment has any."""
    if not (np.isfinite(space.low).all() and np.isfinite(space.high).all()):
        return None
    return Bounds(tuple(np.ravel(space.low).tolist()), tuple(np.ravel(space.high).tolist()))


def _flat(values: Any) -> np.ndarray:
    return np.asarray(values, np.float32).reshape(-1)
