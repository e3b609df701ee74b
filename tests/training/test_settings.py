"""Where settings come from: defaults < preset < task < user, and a name that does not exist is never ignored."""

from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from lspc import algos
from lspc.algos.base import Method
from lspc.errors import UserError
from lspc.tasks import Task, get_task
from lspc.training.settings import parse_sweep, resolve


@dataclass(frozen=True)
class Config:
    steps: int = 1
    rate: float = 0.1
    width: tuple[int, ...] = (8,)
    form: Literal["mean", "sum"] = "mean"
    mask: float | None = None
    scaled: bool = True


def task_settings(task: Task, preset: str) -> dict[str, Any]:
    return {"rate": 0.3, "mask": 2.0} if task.name == "BallRun" and preset == "big" else {}


PRESETS = {"default": {}, "big": {"steps": 9, "rate": 0.2, "form": "sum"}}
METHOD = cast(Method, SimpleNamespace(Config=Config, PRESETS=PRESETS, task_settings=task_settings))
BALL_RUN, CAR_RUN = get_task("BallRun"), get_task("CarRun")


def test_each_layer_lies_over_the_one_before() -> None:
    assert resolve(METHOD, "default", None).config == Config()
    assert resolve(METHOD, "big", None).config == Config(steps=9, rate=0.2, form="sum")
    assert resolve(METHOD, "big", CAR_RUN).config == Config(steps=9, rate=0.2, form="sum")
    assert resolve(METHOD, "big", BALL_RUN).config == Config(steps=9, rate=0.3, form="sum", mask=2.0)
    assert resolve(METHOD, "big", BALL_RUN, {"mask": 5.0}).config.mask == 5.0


def test_a_users_value_wins_even_where_it_repeats_the_default() -> None:
    config, provenance = resolve(
        METHOD, "big", BALL_RUN, {"rate": Config().rate, "steps": Config().steps, "mask": None}
    )
    assert (config.rate, config.steps, config.mask) == (Config().rate, Config().steps, None)
    assert provenance == {"steps": "user", "rate": "user", "form": "preset big", "mask": "user"}


def test_provenance_names_the_layer_that_decided() -> None:
    _, provenance = resolve(METHOD, "big", BALL_RUN, {"steps": 3})
    assert provenance == {"steps": "user", "rate": "task BallRun", "form": "preset big", "mask": "task BallRun"}
    assert resolve(METHOD, "default", BALL_RUN).provenance == {}


def test_unknown_names_are_refused_with_the_known_ones() -> None:
    with pytest.raises(UserError, match="unknown setting 'stepz'; known: form, mask, rate, scaled, steps, width"):
        resolve(METHOD, "default", None, {"stepz": 3})
    with pytest.raises(UserError, match="unknown preset 'huge': choose one of default, big"):
        resolve(METHOD, "huge", None)


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("steps", 1.5, "it must be int"),
        ("steps", True, "it must be int"),
        ("steps", None, "it must be int"),
        ("rate", "0.1", "it must be float"),
        ("form", "median", "it must be 'mean' or 'sum'"),
        ("mask", "none", "it must be float or None"),
        ("scaled", 1, "it must be bool"),
        ("width", 8, "it must be tuple"),
        ("width", (8, "8"), "it must be tuple"),
    ],
)
def test_values_of_the_wrong_kind_are_refused(name: str, value: Any, told: str) -> None:
    with pytest.raises(UserError, match=f"{name} cannot be .*: {told}"):
        resolve(METHOD, "default", None, {name: value})


def test_whole_numbers_and_lists_are_understood() -> None:
    config = resolve(METHOD, "default", None, {"rate": 1, "width": [4, 4], "mask": 0}).config
    assert config == Config(rate=1, width=(4, 4), mask=0)
    hash(config)  # a list inside would break compilation


@pytest.mark.parametrize("name", algos.METHODS)
def test_every_preset_of_every_method_resolves_for_every_suite(name: str) -> None:
    method = algos.get(name)
    assert {"default", "cpu"} <= set(method.PRESETS)
    for preset in method.PRESETS:
        for task in (None, "BallCircle", "AntRun", "PointGoal1", "easysparse"):
            config, provenance = resolve(method, preset, get_task(task) if task else None)
            defaults = method.Config()
            changed = {f.name for f in fields(config) if getattr(config, f.name) != getattr(defaults, f.name)}
            assert changed <= set(provenance)
            hash(config)


def test_the_same_number_written_in_two_ways_is_the_same_setting() -> None:
    one, other = (resolve(METHOD, "default", None, {"rate": rate, "mask": rate}).config for rate in (2, 2.0))
    assert repr(one) == repr(other) == repr(Config(rate=2.0, mask=2.0))
    ranged = resolve(algos.get("lspc"), "default", None, {"restriction_range": (0.5, 2)}).config
    assert repr(ranged.restriction_range) == "(0.5, 2.0)"
    assert repr(resolve(METHOD, "default", None, {"steps": 2}).config.steps) == "2"


def test_a_sweep_as_a_user_writes_it() -> None:
    assert parse_sweep(None) == {"": {}}
    assert parse_sweep("rate=1,2.5") == {"rate=1": {"rate": 1}, "rate=2.5": {"rate": 2.5}}
    assert parse_sweep("rate=1") == {"rate=1": {"rate": 1}}
    assert parse_sweep("form=mean,sum") == {"form=mean": {"form": "mean"}, "form=sum": {"form": "sum"}}
    assert parse_sweep("mask=None,0.5") == {"mask=None": {"mask": None}, "mask=0.5": {"mask": 0.5}}
    assert parse_sweep("width=(8,8),(4,)") == {"width=(8,8)": {"width": (8, 8)}, "width=(4,)": {"width": (4,)}}
    for wrong in ("rate", "rate=", "=1,2", "rate=1,1"):
        with pytest.raises(UserError, match=r"cannot sweep over .*: write NAME=VALUE,VALUE"):
            parse_sweep(wrong)
