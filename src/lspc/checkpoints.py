"""A tree of arrays as one safetensors file: names are paths in the tree, plain facts ride in the header.

Nothing in such a file can run code. Loading needs a skeleton of the same shape, which is built from the settings.
"""

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from lspc import files
from lspc.errors import UserError

Tree = TypeVar("Tree")
HASH = "sha256"
"""The fact that is the hash of the arrays."""
SEALED, UNSEALED = "lspc-sealed", "lspc"
"""The header's entry of facts with a hash, and of those of earlier versions, which may have none. Two names, so that
a file whose hash has become unreadable does not pass for one of an earlier version."""


def _hash_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    digest = hashlib.sha256()
    for name in sorted(arrays):
        digest.update(f"{name} {arrays[name].dtype} {arrays[name].shape};".encode())
        digest.update(np.ascontiguousarray(arrays[name]).data)
    return digest.hexdigest()


def arrays_by_path(tree: Any) -> dict[str, Any]:
    """The array leaves by their path: `cost.value.layers.0.weight`."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(eqx.filter(tree, _is_arraylike))
    return {jax.tree_util.keystr(path, simple=True, separator="."): leaf for path, leaf in leaves}


def _is_arraylike(leaf: Any) -> bool:
    return eqx.is_array(leaf) or isinstance(leaf, jax.ShapeDtypeStruct)


def write(path: str | Path, tree: Any, facts: dict[str, Any]) -> None:
    arrays = {name: np.asarray(leaf) for name, leaf in arrays_by_path(tree).items()}
    # One entry, since several would come in any order, and equal trees give equal bytes.
    content = save(arrays, metadata={SEALED: json.dumps({**facts, HASH: _hash_arrays(arrays)})})
    with files.atomic_path(path) as temporary:
        temporary.write_bytes(content)


def read_facts(path: str | Path) -> dict[str, Any]:
    facts = _read_header(path)
    facts.pop(HASH, None)
    return facts


def _read_header(path: str | Path) -> dict[str, Any]:
    try:
        with safe_open(path, framework="numpy") as file:
            entries = file.metadata() or {}
        facts = json.loads(entries[SEALED if SEALED in entries else UNSEALED])
        if not isinstance(facts, dict) or (SEALED in entries and HASH not in facts):
            raise ValueError("its facts are incomplete")
        return facts
    except (SafetensorError, OSError, KeyError, ValueError, RecursionError) as error:
        raise UserError(f"{path}: damaged, or not written by lspc ({error}); delete it or name another") from error


def read(path: str | Path, skeleton: Tree) -> Tree:
    """The tree in `path`, shaped like `skeleton` (arrays or shapes); a file of another shape is refused."""
    try:
        with safe_open(path, framework="numpy") as file:
            stored = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError, TypeError, KeyError) as error:
        raise UserError(f"{path}: cannot be read ({error}); delete it or name another") from error
    wanted = arrays_by_path(skeleton)
    for name, leaf in wanted.items():
        expected = f"{leaf.dtype}{list(leaf.shape)}"
        found = f"{stored[name].dtype}{list(stored[name].shape)}" if name in stored else "nothing"
        if found != expected:
            raise UserError(f"{path}: {name} should be {expected} but the file has {found}; was it made elsewhere?")
    if extra := set(stored) - set(wanted):
        raise UserError(f"{path}: unexpected array {sorted(extra)[0]}; it was written for other settings")
    if _read_header(path).get(HASH, _hash_arrays(stored)) != _hash_arrays(stored):
        raise UserError(f"{path}: changed since it was written (its SHA-256 differs); delete it or name another")
    leaves = [jax.device_put(stored[name]) for name in wanted]  # jnp.asarray compiles a program for each shape
    arrays, rest = eqx.partition(skeleton, _is_arraylike)
    return eqx.combine(jax.tree.unflatten(jax.tree.structure(arrays), leaves), rest)
