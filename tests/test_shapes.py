"""What the tests of every other file rely on: annotated shapes are enforced, and arrays never mix silently."""

import re
from pathlib import Path

import jax
import jax.numpy as jnp
import pytest
from helpers import tiny
from helpers.strict import CHECKED
from jaxtyping import TypeCheckError

import lspc
from lspc.algos.parts import iql


def test_a_wrong_shape_is_refused() -> None:
    """A column of targets against a row of values would broadcast to all pairs, and learn nonsense."""
    twins, batch = (tiny.net(5, 1, 0), tiny.net(5, 1, 1)), tiny.batch()
    assert iql.q_loss(twins, batch.observations, batch.actions, batch.rewards).shape == ()
    with pytest.raises(TypeCheckError):
        iql.q_loss(twins, batch.observations, batch.actions, batch.rewards[:, None])


def test_ranks_and_types_do_not_mix() -> None:
    with pytest.raises(ValueError, match="rank_promotion"):
        jnp.add(jnp.ones((3, 2)), jnp.ones(2))
    with pytest.raises(jax.dtypes.TypePromotionError):
        jnp.add(jnp.ones(2), jnp.arange(2))


def test_every_file_that_annotates_shapes_is_checked() -> None:
    package = Path(lspc.__file__).parent
    annotated = {
        ".".join(("lspc", *path.relative_to(package).with_suffix("").parts))
        for path in package.rglob("*.py")
        if re.search(r"\b(Float|Int|Bool|Key)\[", path.read_text())
    }
    assert "lspc.nets" in annotated
    assert not [name for name in annotated if not name.startswith(CHECKED)]
