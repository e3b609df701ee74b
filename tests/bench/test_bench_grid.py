"""The plan: which cells there are, what they are called, what would make it another bench."""

from pathlib import Path
from typing import Any

import pytest

from lspc import algos, files
from lspc.bench import grid
from lspc.bench.grid import Plan, budgets, find_data, keep_plan, make_jobs, make_plan, read_plan
from lspc.errors import UserError
from lspc.tasks import get_task
from lspc.training.settings import parse

BULLET = get_task("BallRun")
DATA = {"BallRun": Path("a.hdf5"), "CarRun": Path("b.hdf5")}


def plan(*methods: str, **more: object) -> Plan:
    values: dict[str, Any] = {
        "tasks": {"BallRun": "f"},
        "methods": methods or ("bc", "lspc"),
        "preset": "cpu",
        **more,
    }
    return Plan(**values)


def test_what_each_method_is_trained_for() -> None:
    each = BULLET.thresholds
    expected = dict.fromkeys(("bcq_lag", "bear_lag", "cpq", "coptidice", "cdt"), each)
    expected |= {"lspc": (None,), "fisor": (None,), "bc": (None, *each)}
    assert {name: budgets(algos.get(name), BULLET) for name in algos.METHODS} == expected
    assert budgets(algos.get("cpq"), get_task("AntVelocity")) == (20, 40, 80)


def test_the_cells_of_a_plan() -> None:
    made = make_jobs(plan("bc", "lspc", tasks={"BallRun": "f", "CarRun": "g"}), Path("bench"), DATA)
    assert [job.name for job in made[:3]] == [
        "BallRun/bc-seeds-0-2",
        "BallRun/lspc-seeds-0-2",  # one of each method first
        "BallRun/bc-10-seeds-0-2",
    ]
    assert len(made) == 2 * (4 + 1) == len({job.name for job in made})
    (safe,) = (job for job in made if job.name == "CarRun/bc-20-seeds-0-2")
    assert (safe.task, safe.method, safe.seeds, safe.dataset) == ("CarRun", "bc", [0, 1, 2], "g")
    assert safe.config["budget"] == 20.0
    assert safe.provenance["budget"] == "user"
    assert (safe.data, safe.out) == ("b.hdf5", "bench/runs/CarRun/bc-20-seeds-0-2")
    assert files.as_json(safe.config) == safe.config


def test_seeds_go_together_as_far_as_the_plan_says() -> None:
    made = make_jobs(plan("lspc", seeds=5, together=2), Path("bench"), DATA)
    assert [(job.name, job.seeds) for job in made] == [
        ("BallRun/lspc-seeds-0-1", [0, 1]),
        ("BallRun/lspc-seeds-2-3", [2, 3]),
        ("BallRun/lspc-seeds-4-4", [4]),
    ]


def test_settings_for_all_methods_and_for_one() -> None:
    given = parse(["steps=5", "lspc.hidden=(8, 8)", "lspc.latent_form=clamp", "bc.learning_rate=1e-2"])
    assert given == {"steps": 5, "lspc.hidden": (8, 8), "lspc.latent_form": "clamp", "bc.learning_rate": 0.01}
    made = {job.method: job.config for job in make_jobs(plan(settings=given), Path("bench"), DATA)}
    assert made["bc"]["steps"] == made["lspc"]["steps"] == 5
    assert (made["lspc"]["hidden"], made["bc"]["hidden"]) == ([8, 8], [256, 256])
    assert made["bc"]["learning_rate"] == 0.01
    for wrong in ("steps", "=5"):
        with pytest.raises(UserError, match="cannot read the setting"):
            parse([wrong])


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"latent_dim": 4}, "unknown setting 'latent_dim'"),  # bc has none
        ({"bc.budget": 3}, "the budget is what a bench varies"),
        ({"cpq.steps": 3}, "to a method that is not part of this bench"),
        ({"steps": "many"}, "steps cannot be 'many'"),
    ],
)
def test_what_cannot_be_set(settings: dict[str, object], told: str) -> None:
    with pytest.raises(UserError, match=told):
        make_plan(DATA, ["bc", "lspc"], overrides=settings)


def test_what_cannot_be_planned(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UserError, match="unknown method 'magic'"):
        make_plan(DATA, ["magic"])
    with pytest.raises(UserError, match="unknown preset 'paper'"):
        make_plan(DATA, ["lspc", "bc"], preset="paper")
    with pytest.raises(UserError, match="must be 1 or more"):
        make_plan(DATA, ["bc"], seeds=0)
    with pytest.raises(UserError, match="modes must be among deterministic, sampled, not random"):
        make_plan(DATA, ["bc"], modes=["random"])
    monkeypatch.setattr(grid.sims, "is_installed", lambda name: name != "CarRun")
    with pytest.raises(UserError, match="the simulator of CarRun is not installed"):
        make_plan(DATA, ["bc"])


def test_data_are_found_in_two_places_and_missing_ones_named(tmp_path: Path) -> None:
    (tmp_path / "CarRun").mkdir()
    for name in ("BallRun.hdf5", "CarRun/data.hdf5"):
        (tmp_path / name).touch()
    assert find_data(tmp_path, ["BallRun", "CarRun"]) == {
        "BallRun": tmp_path / "BallRun.hdf5",
        "CarRun": tmp_path / "CarRun" / "data.hdf5",
    }
    with pytest.raises(UserError, match="no data for AntRun, DroneRun: it must hold"):
        find_data(tmp_path, ["AntRun", "BallRun", "DroneRun"])


def test_a_bench_may_grow_but_not_change(tmp_path: Path) -> None:
    first = plan("bc", settings={"hidden": (8, 8)})
    assert read_plan(tmp_path) is None
    keep_plan(first, tmp_path)
    keep_plan(first, tmp_path)
    more = plan("lspc", "bc", tasks={"CarRun": "g"}, settings={"hidden": (8, 8)}, modes=("sampled",))
    grown = keep_plan(more, tmp_path)
    assert grown == read_plan(tmp_path)
    assert grown.tasks == {"BallRun": "f", "CarRun": "g"}
    assert grown.methods == ("bc", "lspc")
    assert grown.modes == ("deterministic", "sampled")
    for change, told in (
        ({"seeds": 5}, "a bench with seeds 3, not 5"),
        ({"settings": {}}, "a bench with settings"),
        ({"preset": "default"}, "a bench with preset cpu, not default"),
        ({"episodes": 3}, "a bench with episodes 20, not 3"),
        ({"tasks": {"BallRun": "other"}}, "a bench on other data of BallRun"),
    ):
        with pytest.raises(UserError, match=told):
            keep_plan(plan("bc", **{"settings": {"hidden": (8, 8)}, **change}), tmp_path)
    assert read_plan(tmp_path) == grown
