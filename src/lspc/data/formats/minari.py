"""Minari's folders, in each of its three storages: HDF5, Arrow and Parquet. Read without its library.

An episode has one observation and one info more than actions: those of the reset come first.
"""

import json
import math
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np
from numpy.typing import NDArray

from lspc.data.bounds import HIGH, LOW
from lspc.data.dataset import Metadata
from lspc.data.formats import arrow_size, hdf5, parquet
from lspc.data.formats.base import AGAIN, DAMAGE, Arrays, Folder, one_line
from lspc.data.formats.bounds import Allowance, check_memory
from lspc.data.tables import Table, Unusable, import_arrow
from lspc.data.tables.reading import read_columns
from lspc.data.validate import Findings

MAIN, DESCRIPTION = Path("data", "main_data.hdf5"), Path("data", "metadata.json")
EPISODE = re.compile(r"(?:episode_)?(\d+)")
ID = re.compile(r"([-\w]+/)*[-\w]+-v\d+")
FLAGS = {"terminations": "terminated", "truncations": "truncated"}
DISCRETE = ("Discrete", "MultiDiscrete", "MultiBinary")


def recognise(folder: Path) -> bool:
    if (folder / MAIN).is_file():
        return True
    try:
        return (folder / DESCRIPTION).is_file() and "data_format" in _describe(folder)
    except (OSError, ValueError, RecursionError):  # a file of that name in a folder of anything
        return False


def find_by_id(name: str) -> Path | None:
    """Where Minari keeps the dataset of this id, if it does."""
    root = Path(os.environ.get("MINARI_DATASETS_PATH") or Path.home() / ".minari" / "datasets")
    return root / name if ID.fullmatch(name) and recognise(root / name) else None


def read(folder: Path, found: Findings) -> tuple[Table, Metadata] | None:
    try:
        told = _describe(folder)
        episodes = list(_read_hdf5(folder / MAIN) if (folder / MAIN).is_file() else _read_arrow(folder / "data"))
        if not episodes:
            raise Unusable("file", f"the folder holds no episode; {AGAIN}")
        if (kind := _parse_space(told, "action_space").get("type")) in DISCRETE:
            raise Unusable("actions", f"its actions are {kind}, and lspc learns continuous ones")
        return _make_table(str(folder), episodes), read_metadata(folder)
    except Unusable as error:
        found.fatal(error.field, str(error))
    except DAMAGE as error:
        found.fatal("file", f"not a Minari dataset, or damaged or cut off ({one_line(error)}); {AGAIN}")
    return None


def read_metadata(folder: Path) -> Metadata:
    """The id of the environment as the task, and the bounds of its actions."""
    told = _describe(folder)
    metadata: dict[str, str | int | float] = {}
    specification = json.loads(str(told.get("env_spec") or "{}"))
    if isinstance(specification, dict) and isinstance(specification.get("id"), str):
        metadata["task"] = specification["id"]
    space = _parse_space(told, "action_space")
    if "low" in space and "high" in space:
        low, high = (np.asarray(space[name], np.float64).reshape(-1) for name in ("low", "high"))
        if np.isfinite([*low, *high]).all():
            metadata |= {LOW: json.dumps(low.tolist()), HIGH: json.dumps(high.tolist())}
    return metadata


def _describe(folder: Path) -> Mapping[str, Any]:
    """What Minari says of the dataset: beside it or, in old ones, as attributes of the HDF5 file."""
    if (folder / DESCRIPTION).is_file():
        told = json.loads((folder / DESCRIPTION).read_text(encoding="utf-8"))
        if not isinstance(told, dict):
            raise ValueError(f"{DESCRIPTION} must be a JSON object")
        return told
    return hdf5.read_metadata(folder / MAIN)


def _parse_space(told: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    space = json.loads(str(told.get(name) or "{}"))
    return space if isinstance(space, dict) else {}


def _number(name: str) -> int:
    matched = EPISODE.fullmatch(name)
    return int(matched[1]) if matched else -1


def _read_hdf5(path: Path) -> Iterator[Arrays]:
    """Each episode's arrays, those within groups under names such as infos/cost."""
    hdf5.check_heaps(path)
    with h5py.File(path, "r") as file:
        check_memory(_measure_hdf5(file))
        allowance = Allowance(path)
        for name in sorted((name for name in file if _number(name) >= 0), key=_number):
            yield {key.removeprefix(f"{name}/"): array for key, array in _leaves(file, name, allowance)}


def _measure_hdf5(file: h5py.File) -> int:
    """Bytes of all arrays in it, as far as it says; links are not followed."""
    found = [0]

    def add(_: str, entry: h5py.Group | h5py.Dataset) -> None:
        if isinstance(entry, h5py.Dataset) and entry.shape is not None:
            found.append(math.prod(entry.shape) * entry.dtype.itemsize)

    file.visititems(add)
    return sum(found)


def _leaves(file: h5py.File, name: str, allowance: Allowance) -> Iterator[tuple[str, NDArray[Any]]]:
    if reason := hdf5.refuse(file, name, allowance):
        raise Unusable("file", f"{name} {reason}")
    entry = file[name]
    if not isinstance(entry, h5py.Group):
        yield name, np.asarray(entry)
        return
    for inner in entry:
        yield from _leaves(file, f"{name}/{inner}", allowance)


def _read_arrow(data: Path) -> Iterator[Arrays]:
    """Each episode's arrays; what has no value after the last step was padded and is cut off."""
    import_arrow()
    from pyarrow import dataset

    parts = [
        _find_part(path) for path in sorted(data.iterdir(), key=lambda p: _number(p.name)) if _number(path.name) >= 0
    ]
    check_memory(sum((parquet if part.suffix == ".parquet" else arrow_size).measure(part) for part in parts))
    for part in parts:
        table = dataset.dataset(str(part), format=part.suffix[1:]).to_table()
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        arrays = {key: array for name, column in columns.items() for key, array in _spread(name, column)}
        yield {
            name: array if name.partition("/")[0] in ("observations", "infos") else array[:-1]
            for name, array in arrays.items()
        }


def _find_part(folder: Path) -> Path:
    part = next((path for path in folder.iterdir() if path.suffix in (".arrow", ".parquet")), None)
    if part is None:
        raise Unusable("file", f"episode {folder.name} is not there; {AGAIN}")
    return part


def _spread(name: str, array: Any) -> Iterator[tuple[str, NDArray[Any]]]:
    kinds, kind = import_arrow().types, array.type
    if kinds.is_struct(kind):
        for number, part in enumerate(array.flatten()):
            yield from _spread(f"{name}/{kind.field(number).name}", part)
    elif kinds.is_fixed_size_list(kind):
        yield name, array.flatten().to_numpy(zero_copy_only=False).reshape(len(array), -1)
    else:
        yield name, array.to_numpy(zero_copy_only=False)


def _make_table(source: str, episodes: list[Arrays]) -> Table:
    aligned = [_align(number, arrays) for number, arrays in enumerate(episodes)]
    # An info that some episode lacks is no column.
    names = [name for name in aligned[0] if all(name in arrays for arrays in aligned)]
    for needed in ("rewards", *FLAGS.values()):
        if needed not in names:
            raise Unusable("file", f"not every episode has {needed}; {AGAIN}")
    joined = {name: np.concatenate([arrays[name] for arrays in aligned]) for name in names}
    roles = {
        role: [name for name in names if name == role or name.startswith(f"{role}_")]
        for role in ("observations", "actions")
    }
    single = {"reward": "rewards", "cost": "infos_cost", "episode": "episode", "done": "terminated",
              "timeout": "truncated"}  # fmt: skip
    roles |= {role: [name] for role, name in single.items() if name in names}
    return replace(read_columns(joined, source), roles=roles)


def _align(number: int, arrays: Arrays) -> Arrays:
    """An episode with a row for each step; groups such as infos/cost become infos_cost."""
    if "rewards" not in arrays:
        raise Unusable("file", f"episode {number} has no rewards; {AGAIN}")
    steps = len(arrays["rewards"])
    aligned: Arrays = {"episode": np.full(steps, number)}
    for name, array in arrays.items():
        group, rows = name.partition("/")[0], len(array) if array.ndim else -1
        own = FLAGS.get(name, name.replace("/", "_"))
        flat = array.reshape(rows, math.prod(array.shape[1:])) if array.ndim > 2 else array
        if group == "observations" and rows == steps + 1:
            aligned[own], aligned[f"next_{own}"] = flat[:-1], flat[1:]
        elif group == "infos":
            if rows in (steps, steps + 1):  # the first is that of the reset
                aligned[own] = flat[rows - steps :]
        elif group in ("observations", "actions", "rewards", *FLAGS):
            if rows != steps:
                raise Unusable(group, f"{name} of episode {number} has {rows} rows for {steps} steps; {AGAIN}")
            aligned[own] = flat
    return aligned


FOLDER = Folder("Minari", recognise, read, read_metadata)
