"""RLDS: recognised, not read. Its TFRecord files need TensorFlow, which is far larger than all of lspc."""

from pathlib import Path

from lspc.data.dataset import Metadata
from lspc.data.formats.base import Folder
from lspc.data.tables import Table
from lspc.data.validate import Findings

HELP = "an RLDS dataset is read by tensorflow_datasets: docs/data.md has the lines that make a list of episodes of it"


def recognise(folder: Path) -> bool:
    return next(folder.rglob("*.tfrecord*"), None) is not None


def read(folder: Path, found: Findings) -> tuple[Table, Metadata] | None:
    found.fatal("file", HELP)
    return None


def read_metadata(folder: Path) -> Metadata:
    return {}


FOLDER = Folder("RLDS", recognise, read, read_metadata)
