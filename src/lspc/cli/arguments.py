"""What every verb understands before its own parser: --quiet, and --config FILE, whose options come first."""

import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lspc.errors import UserError

CONFIG, QUIET = "--config", "--quiet"


class Common(NamedTuple):
    rest: list[str]
    """What the verb's own parser gets."""
    quiet: bool


def take_common(arguments: Sequence[str]) -> Common:
    """Take out the options that every verb has; those of a file come first, so that the command line wins."""
    rest = [argument for argument in arguments if argument != QUIET]
    options: list[str] = []
    while (place := next((i for i, word in enumerate(rest) if word.partition("=")[0] == CONFIG), None)) is not None:
        word = rest.pop(place)
        name = word.partition("=")[2] if "=" in word else rest.pop(place) if place < len(rest) else ""
        if not name:
            raise UserError("--config needs the name of a TOML file, such as run.toml")
        options += _read(Path(name))
    # Values on the command line may belong to a positional argument; the file's options never do.
    first_option = next((i for i, word in enumerate(rest) if word.startswith("--")), len(rest))
    return Common([*rest[:first_option], *options, *rest[first_option:]], QUIET in arguments)


def _read(path: Path) -> list[str]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise UserError(f"{path}: there is no such file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not TOML ({error})") from error
    return [word for name, value in values.items() for word in _write(path, name, value)]


def _write(path: Path, name: str, value: Any) -> Iterator[str]:
    """An entry as it would stand on the command line."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        yield f"--{flag}" if value else f"--no-{flag}"
        return
    if isinstance(value, dict):
        raise UserError(f"{path}: {name} is a table; write every option at the top, such as {name}_... = ...")
    yield f"--{flag}"
    yield from map(str, value if isinstance(value, list) else (value,))
