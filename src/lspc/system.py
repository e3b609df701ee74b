"""The machine and the processes we start on it: cores, memory, threads, and workers that end when we do."""

import os
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

ONE_THREAD = {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}
"""The environment of a process that shares the cores with others like it."""


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def busy_cores() -> float:
    """How many cores' worth of programs ran or waited to run over the last minute."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0


def free_memory() -> int:
    """Bytes that programs may still take: of the machine or, if that is less, of the control group we run in.

    LSPC_MEMORY, in gigabytes, says otherwise: on a machine that is shared without control groups.
    """
    with suppress(ValueError):
        return int(float(os.environ.get("LSPC_MEMORY", "")) * 1e9)
    free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024
    with suppress(OSError, ValueError):
        group = Path("/sys/fs/cgroup")
        limit, used = (int((group / name).read_text()) for name in ("memory.max", "memory.current"))
        free = min(free, limit - used)
    return free


def start_worker(
    command: Sequence[str], *, errors: IO[bytes] | int = subprocess.STDOUT, platform: str = "cpu"
) -> subprocess.Popen[str]:
    """Start a process of one thread that tells its progress on standard output and calls `end_with_parent`.

    `errors` is where its standard error goes, `platform` what JAX runs on there.
    """
    return subprocess.Popen(
        command,
        stdin=subprocess.PIPE,  # its end tells the worker that we are gone, however that came about
        stdout=subprocess.PIPE,
        stderr=errors,
        text=True,
        env={**os.environ, **ONE_THREAD, "JAX_PLATFORMS": platform},
        start_new_session=True,  # Ctrl-C reaches us alone; the workers are then ended in order
    )


def end_with_parent() -> None:
    """From now on this process ends when its standard input closes: whoever started it is gone, perhaps killed."""

    def watch() -> None:
        while os.read(0, 1024):
            pass
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
