"""LeRobot's folders: Parquet files below data/, one or more episodes in each, described by meta/info.json.

Its `next.done` marks the last frame of an episode whatever ended it, so it is not taken for an end of the task.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from lspc.data.dataset import Metadata
from lspc.data.formats import parquet
from lspc.data.formats.base import AGAIN, Folder, one_line
from lspc.data.tables import Table
from lspc.data.validate import Findings

INFO = Path("meta", "info.json")
SINGLE = {"reward": "next.reward", "cost": "next.cost", "episode": "episode_index", "step": "frame_index"}


def recognise(folder: Path) -> bool:
    return (folder / INFO).is_file() and (folder / "data").is_dir()


def read(folder: Path, found: Findings) -> tuple[Table, Metadata] | None:
    try:
        features = _features(folder)
    except (OSError, ValueError) as error:
        found.fatal("file", f"{INFO} cannot be read ({one_line(error)}); {AGAIN}")
        return None
    names = sorted(str(path.relative_to(folder)) for path in (folder / "data").rglob("*.parquet"))
    table = parquet.read_files(folder, names, found)
    if table is None:
        return None
    seen = [name for name, kind in features.items() if name.startswith("observation.") and kind.startswith("float")]
    roles = {role: [name] for role, name in SINGLE.items() if name in table.columns}
    roles |= {"observations": seen} if seen else {}
    roles |= {"actions": ["action"]} if "action" in features else {}
    return replace(table, roles=roles), {}


def _features(folder: Path) -> dict[str, str]:
    """The type of each column."""
    told = json.loads((folder / INFO).read_text(encoding="utf-8"))
    features: Any = told.get("features") if isinstance(told, dict) else None
    if not isinstance(features, Mapping):
        raise ValueError("it names no features")
    return {str(name): str(each.get("dtype")) for name, each in features.items() if isinstance(each, Mapping)}


def read_metadata(folder: Path) -> Metadata:
    return {}


FOLDER = Folder("LeRobot", recognise, read, read_metadata)
