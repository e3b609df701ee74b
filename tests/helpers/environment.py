"""Settings of JAX for the tests and every program they start; import this before JAX.

Most of a test's time is compilation. Hence no optimisation of what then runs for milliseconds (less than half the
time to compile; `optimise` is for what runs for seconds), nothing noted of where in the source an operation stands,
and one cache for all: often another worker or an earlier run has compiled the same. And one thread each: two workers
with two threads each on two cores keep waiting for one another.
"""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

CACHE = Path(__file__).parents[2] / ".pytest_cache" / "d" / "jax"
"""Where `pytest --cache-clear` finds it."""

assert "jax" not in sys.modules, "JAX has read its settings already"
for name, value in {
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    " --xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "JAX_TRACEBACK_IN_LOCATIONS_LIMIT": "0",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JAX_COMPILATION_CACHE_DIR": str(CACHE),
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}.items():
    os.environ.setdefault(name, value)

READ_ONLY = {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1e9"}
"""For programs that are killed: one that dies while it writes to the cache leaves half an entry there for ever."""


@contextmanager
def optimise() -> Generator[None]:
    """Inside `with`, programs are compiled as a user's are."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    try:
        yield
    finally:
        jax.config.update("jax_disable_most_optimizations", before)
