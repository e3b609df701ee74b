"""What JAX compiled stays for the next run, in the user's cache folder: the second `lspc train` starts at once.

LSPC_CACHE names another folder, or says `off`. Where it cannot be written, or JAX has been told of another cache,
nothing happens. JAX writes an entry in place, so a program that is killed may leave half of one: whoever finds the
mark of a program that did not end well removes what is younger than the mark.
"""

import atexit
import hashlib
import os
import platform
from contextlib import suppress
from pathlib import Path

VARIABLE = "LSPC_CACHE"
JAX_FOLDER = "JAX_COMPILATION_CACHE_DIR"
LARGEST = 500_000_000
"""Bytes; beyond it the entries that were not used for longest go."""
MARK = "in-use-by-"


def use_compilation_cache() -> None:
    """Before JAX is imported: tell it, and the programs started from here, where to keep what it compiles."""
    asked = os.environ.get(VARIABLE, "")
    if JAX_FOLDER in os.environ or asked.lower() in ("off", "0", "none"):
        return
    root = Path(asked) if asked else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "lspc"
    folder = root / f"compiled-{_describe_machine()}"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _clear(folder)
        mark = folder / f"{MARK}{os.getpid()}"
        mark.touch()
    except OSError:  # read-only, full, or not ours: then it is compiled again
        return
    atexit.register(mark.unlink, missing_ok=True)
    os.environ[JAX_FOLDER] = str(folder)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")


def _describe_machine() -> str:
    """Programs hold instructions of this processor; a home folder may be shared by machines that lack them."""
    features = ""
    with suppress(OSError):
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
        features = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    return hashlib.sha256(f"{platform.machine()} {features}".encode()).hexdigest()[:12]


def _clear(folder: Path) -> None:
    """Remove entries that may be half written, and the oldest if there are too many."""
    entries = {path: path.stat() for path in folder.iterdir() if not path.name.startswith(MARK)}
    for mark in folder.glob(f"{MARK}*"):
        if not Path(f"/proc/{mark.name.removeprefix(MARK)}").exists():
            began = mark.stat().st_mtime
            for path in [path for path, found in entries.items() if found.st_mtime >= began]:
                path.unlink(missing_ok=True)
                del entries[path]
            mark.unlink(missing_ok=True)
    size = sum(found.st_size for found in entries.values())
    for path, found in sorted(entries.items(), key=lambda entry: max(entry[1].st_atime, entry[1].st_mtime)):
        if size <= LARGEST:
            break
        path.unlink(missing_ok=True)
        size -= found.st_size
