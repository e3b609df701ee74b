"""A calibration on disk, beside the policy it speaks of: calibration.json, and the networks that the guard needs."""

import warnings
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from lspc import checkpoints, files
from lspc.algos.base import Spec
from lspc.calibration import fitted_q
from lspc.calibration.choosing import RULES, Calibration, Point
from lspc.calibration.familiarity import LANDMARKS
from lspc.calibration.margins import Margin, Replay
from lspc.errors import UserError
from lspc.runs import layout
from lspc.runs.statistics import Interval

FILE, FITTED_Q = layout.CALIBRATION, layout.FITTED_Q
HASHES, HASHED = "files_sha256", (layout.WEIGHTS, FITTED_Q)
AGAIN = "run `lspc calibrate` again"


class GuardModels(eqx.Module):
    """What the guard predicts with, step by step."""

    fitted_q: fitted_q.FittedQ
    """The ensemble."""
    landmarks: Float[Array, "landmarks observation"]


def save(folder: str | Path, calibration: Calibration, models: GuardModels) -> None:
    """Write the networks, then the calibration, with hashes of the files it speaks of and of its own content."""
    checkpoints.write(Path(folder) / FITTED_Q, models, {"dataset": calibration.dataset})
    hashes = {name: files.file_hash(place) for name in HASHED if (place := Path(folder) / name).exists()}
    files.write_json(Path(folder) / FILE, files.seal(files.as_json({**asdict(calibration), HASHES: hashes})))


def _read(folder: Path) -> dict[str, Any]:
    """The content of the file, after making sure that it is unchanged and speaks of the policy beside it."""
    path = folder / FILE
    values = files.read_json(path)
    if not isinstance(values, dict) or not files.is_sealed(values, f"{path}", AGAIN):
        raise UserError(f"{path}: carries no SHA-256 of its content, as in older versions; {AGAIN}")
    _check_hash(folder, layout.WEIGHTS, values)
    if (folder / layout.CARD).exists():
        card = files.read_json(folder / layout.CARD)
        own = {"dataset": card.get("dataset", {}).get("fingerprint"), "training_seed": card.get("training_seed")}
        if any(told is not None and values.get(name) != told for name, told in own.items()):
            raise UserError(f"{path}: made for another data set or training seed than the policy's; {AGAIN}")
    return values


def _check_hash(folder: Path, name: str, values: dict[str, Any]) -> None:
    """Refuse a calibration whose file of this name is another one than when it was made."""
    path, expected = folder / name, values.get(HASHES, {}).get(name)
    if path.exists() and expected is not None and files.file_hash(path) != expected:
        raise UserError(f"{folder / FILE}: made for another {name} than {path} (SHA-256 differs); {AGAIN}")


def load(folder: str | Path) -> Calibration:
    path = Path(folder) / FILE
    if not path.exists():
        raise UserError(f"{folder} has no calibration: run `lspc calibrate` on its run first")
    values = _read(Path(folder))
    values = {name: value for name, value in values.items() if name not in (HASHES, files.SEAL)}
    try:
        curve: list[dict[str, Any]] = [
            {**p, "cost": Interval(**p["cost"]), "reward": Interval(**p["reward"])} for p in values["curve"]
        ]
        parts: dict[str, Any] = {
            **values,
            "curve": tuple(Point(**point) for point in curve),
            "replays": tuple(Replay(**replay) for replay in values["replays"]),
            "cost_margin": _read_margin(values["cost_margin"]),
            "reward_margin": _read_margin(values["reward_margin"]),
            "episode_costs": tuple(values["episode_costs"]),
        }
        return Calibration(**parts)
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: not a calibration that this version of lspc can read ({error})") from error


@cache
def warn_of_other_rules(folder: Path, rules: int) -> None:
    """Say, once for a folder, that its calibration was made by other rules than today's, if it was."""
    if rules != RULES:
        warnings.warn(
            f"{folder / FILE}: made by other rules than this version's ({rules}, not {RULES}), which may answer "
            f"otherwise; {AGAIN}",
            stacklevel=4,
        )


def _read_margin(values: dict[str, Any]) -> Margin:
    shifts: Any = tuple((place, shift) for place, shift in values.get("shifts", ()))
    return Margin(**{**values, "shifts": shifts})


def load_guard_models(folder: str | Path, calibration: Calibration, spec: Spec) -> GuardModels:
    path = Path(folder) / FITTED_Q
    if not path.exists():
        raise UserError(f"{path}: missing, as in calibrations of older versions; run `lspc calibrate` again")
    if (path.parent / FILE).exists():
        _check_hash(path.parent, FITTED_Q, _read(path.parent))
    config = fitted_q.Config(**files.restore_tuples(calibration.settings))
    eps = [point.restriction for point in calibration.curve]

    def make_skeleton() -> GuardModels:
        member = fitted_q.make_skeleton(spec, config, eps[0], eps[-1], calibration.horizon)
        members = jax.tree.map(lambda leaf: jnp.zeros((config.members, *leaf.shape)), member)
        return GuardModels(members, jnp.zeros((LANDMARKS, spec.observation_dim)))

    return checkpoints.read(path, eqx.filter_eval_shape(make_skeleton))
