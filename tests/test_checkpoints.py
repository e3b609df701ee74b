"""A tree of arrays goes to a file and comes back the same, or is refused with a reason."""

from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from lspc import checkpoints
from lspc.errors import UserError
from lspc.nets import MLP, Learner


def make(width: int = 4) -> Learner[MLP]:
    return Learner.of(MLP(3, 2, (width,), key=jax.random.key(0)))


def same(a: Any, b: Any) -> bool:
    """Equal to the last bit, types and structure included."""
    return bool(eqx.tree_equal(a, b, typematch=True))


@pytest.mark.parametrize("shapes_only", [False, True])
def test_round_trip(tmp_path: Path, shapes_only: bool) -> None:
    skeleton = eqx.filter_eval_shape(make) if shapes_only else make()
    path = tmp_path / "a.safetensors"
    tree = jax.tree.map(lambda leaf: leaf + jnp.asarray(1.25, leaf.dtype), make())
    checkpoints.write(path, tree, {"step": 250})
    back = checkpoints.read(path, skeleton)
    assert same(back, tree)
    assert back.net.activation is tree.net.activation
    assert checkpoints.read_facts(path) == {"step": 250}


def test_equal_trees_give_equal_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        checkpoints.write(tmp_path / name, make(), {"step": 1, "more": [2]})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_names_are_paths_in_the_tree() -> None:
    assert "net.layers.0.weight" in checkpoints.arrays_by_path(make())


def test_unusual_numbers_survive(tmp_path: Path) -> None:
    tree = {"a": jnp.array([jnp.inf, -0.0, 1e-45, 3.4e38]), "b": jnp.array(7, jnp.int32), "c": jnp.zeros((0, 3))}
    checkpoints.write(tmp_path / "a", tree, {})
    back = checkpoints.read(tmp_path / "a", tree)
    assert all(np.asarray(back[name]).tobytes() == np.asarray(tree[name]).tobytes() for name in tree)


def test_another_shape_is_refused_by_name(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    checkpoints.write(path, make(width=4), {})
    with pytest.raises(
        UserError, match=r"net\.layers\.0\.weight should be float32\[3, 5\] but the file has.*\[3, 4\]"
    ):
        checkpoints.read(path, make(width=5))


def test_missing_and_extra_arrays_and_other_types_are_refused(tmp_path: Path) -> None:
    one, two = {"a": jnp.zeros(2)}, {"a": jnp.zeros(2), "b": jnp.zeros(1)}
    path = tmp_path / "x.safetensors"
    checkpoints.write(path, one, {})
    with pytest.raises(UserError, match=r"b should be float32\[1\] but the file has nothing"):
        checkpoints.read(path, two)
    checkpoints.write(path, two, {})
    with pytest.raises(UserError, match="unexpected array b"):
        checkpoints.read(path, one)
    save_file({"a": np.zeros(2, np.float64)}, path)
    with pytest.raises(UserError, match=r"a should be float32\[2\] but the file has float64\[2\]"):
        checkpoints.read(path, one)


def test_a_file_whose_hash_became_unreadable_does_not_pass_for_an_earlier_version(tmp_path: Path) -> None:
    path, tree = tmp_path / "a.safetensors", {"a": jnp.zeros(2)}
    checkpoints.write(path, tree, {"step": 250})
    content = path.read_bytes()
    for entry in (b"sha256", checkpoints.SEALED.encode()):
        path.write_bytes(content[:-1].replace(entry, b"#" + entry[1:]) + b"\x01")
        with pytest.raises(UserError, match=r"a\.safetensors: damaged, or not written by lspc"):
            checkpoints.read(path, tree)


def test_a_file_of_an_earlier_version_has_no_hash(tmp_path: Path) -> None:
    path, tree = tmp_path / "a.safetensors", {"a": np.arange(2, dtype=np.float32)}
    save_file(tree, path, {checkpoints.UNSEALED: '{"step": 250}'})
    np.testing.assert_array_equal(checkpoints.read(path, tree)["a"], tree["a"])
    assert checkpoints.read_facts(path) == {"step": 250}


@pytest.mark.parametrize("keep", [0, 5, 40, -1])
def test_a_cut_off_file_is_refused(tmp_path: Path, keep: int) -> None:
    path = tmp_path / "a.safetensors"
    checkpoints.write(path, make(), {"step": 1})
    path.write_bytes(path.read_bytes()[:keep])
    for read in (checkpoints.read_facts, lambda path: checkpoints.read(path, make())):
        with pytest.raises(UserError, match=r"a\.safetensors: .*delete it or name another"):
            read(path)


def test_somebody_elses_safetensors_is_no_checkpoint(tmp_path: Path) -> None:
    save_file({"a": np.zeros(2)}, tmp_path / "theirs.safetensors")
    with pytest.raises(UserError, match="not written by lspc"):
        checkpoints.read_facts(tmp_path / "theirs.safetensors")


def test_every_changed_number_is_refused(tmp_path: Path) -> None:
    path, rng = tmp_path / "a.safetensors", np.random.default_rng(0)
    checkpoints.write(path, make(), {"step": 250})
    content = path.read_bytes()
    begin = 8 + int.from_bytes(content[:8], "little")
    for place in rng.integers(begin, len(content), 30):
        changed = bytearray(content)
        changed[place] ^= int(rng.integers(1, 256))
        path.write_bytes(changed)
        with pytest.raises(UserError, match=r"a\.safetensors: changed since it was written"):
            checkpoints.read(path, make())


def test_a_file_of_an_earlier_version_has_no_hash_and_is_read(tmp_path: Path) -> None:
    path, tree = tmp_path / "a.safetensors", make()
    arrays = {name: np.asarray(leaf) for name, leaf in checkpoints.arrays_by_path(tree).items()}
    save_file(arrays, path, metadata={"lspc": '{"step": 3}'})
    assert same(checkpoints.read(path, make()), tree)
