"""Makes the tests quicker: JAX compiles no program where none is needed, and makes what programs share only once.

Most programs of a test are a single operation on a few numbers. Each costs milliseconds, however often it was
compiled before, and a test makes hundreds of them.
"""

from functools import cache
from typing import Any

import jax
import numpy as np
from jax._src.interpreters import mlir
from jax._src.lax import lax
from jax._src.literals import TypedNdArray

# One context serves the lowering of all programs; making one for each takes about a tenth of the time of all tests.
mlir.make_ir_context = cache(mlir.make_ir_context)


def _convert_in_numpy(primitive: Any) -> None:
    """Outside of compiled functions numpy turns its arrays into the type asked for: JAX has a program per shape."""
    compiled = primitive.impl

    def convert(operand: Any, *, new_dtype: Any = None, weak_type: bool = False, sharding: Any = None) -> Any:
        if isinstance(operand, TypedNdArray) and not operand.weak_type and not weak_type and sharding is None:
            return jax.device_put(np.array(operand, new_dtype))
        asked = {"new_dtype": new_dtype, "weak_type": weak_type, "sharding": sharding}
        return compiled(operand, **(asked if new_dtype is not None else {}))

    primitive.def_impl(convert)


_convert_in_numpy(lax.stage_p)  # jnp.asarray(x)
_convert_in_numpy(lax.convert_element_type_p)  # jnp.asarray(x, jnp.float32)
