"""Makes the tests strict: shapes are what annotations say, and arrays of other ranks or types never mix silently.

Import it before anything of lspc: only what is imported afterwards is checked.
"""

import jax
from beartype import BeartypeConf, beartype
from jaxtyping import install_import_hook

CHECKED = (
    "lspc.nets",
    "lspc.algos",
    "lspc.training.chunk",
    "lspc.lanes",
    "lspc.calibration",
    "lspc.theory",
    "lspc.sims.collect.ppo",
    "lspc.sims.collect.agent",
)
"""Where the numbers are made; the rest of the package handles files and text."""

check_types = beartype(conf=BeartypeConf(is_pep484_tower=True))
"""As type checkers read annotations: a whole number will do where a float is asked for."""

install_import_hook(CHECKED, f"{__name__}.check_types")
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
