"""What the report collects, from run folders written by hand, and that nothing in them can break the page."""

import base64
import itertools
import json
import math
import re
import shutil
from dataclasses import asdict, replace
from importlib import resources
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from helpers.data import small_dataset
from helpers.made_runs import change_description, episodes, make_record, make_run
from PIL import Image

from lspc import files, policy
from lspc.algos import lspc
from lspc.algos.base import Spec
from lspc.calibration import certificate
from lspc.calibration.certificate import Certificate
from lspc.calibration.choosing import Calibration, Margin, Point
from lspc.calibration.pilot import Claim, Stage
from lspc.data import Dataset, load
from lspc.errors import UserError
from lspc.report import clips, curves, gather, page, views
from lspc.report.views import Source
from lspc.runs import Run, layout, record
from lspc.runs.statistics import Interval
from lspc.tasks import get_task

BALL = get_task("BallRun")


def source(folder: Path, given: Path | None = None) -> Source:
    return Source(Run.open(folder), given)


def view(*folders: Path, task: str | None = "BallRun") -> dict[str, Any]:
    return page.to_plain(views.make_view(task, [source(folder) for folder in folders]))


def test_a_row_by_hand(tmp_path: Path, data_file: Path) -> None:
    records = episodes("LSPC-O", [0, 4]) + episodes("LSPC-O", [8, 12], seed=1)
    (row,) = view(make_run(tmp_path / "run", data_file, records))["rows"]
    assert (row["name"], row["mode"], row["seeds"], row["episodes"]) == ("LSPC-O", "deterministic", 2, 4)
    assert row["cost"]["mean"] == 6
    assert row["cost"]["low"] <= 2
    assert row["cost"]["high"] >= 10
    assert row["raw_reward"]["mean"] == 506
    assert row["reward"]["mean"] == pytest.approx((506 - BALL.reward_min) / (BALL.reward_max - BALL.reward_min))
    # The page judges every budget by the raw cost: cost / budget averaged over 10, 20 and 40 is the same thing.
    assert row["average_cost"]["mean"] == pytest.approx(6 * (1 / 10 + 1 / 20 + 1 / 40) / 3)
    assert row["points"] == [[0, 500, 0], [4, 504, 0], [8, 508, 1], [12, 512, 1]]


def test_several_eps_make_a_sweep_and_the_table_keeps_the_runs_own(tmp_path: Path, data_file: Path) -> None:
    own = episodes("LSPC-O", [4, 6])
    swept = [r for eps in (0.5, 0.25) for r in episodes("LSPC-O", [8 * eps, 8 * eps], eps=eps)]
    again = episodes("LSPC-O", [4, 6], eps=1.0)  # the run's own eps by its number: the same episodes
    seen = view(make_run(tmp_path / "run", data_file, [*own, *swept, *again, *episodes("LSPC-S", [0, 0])]))
    assert [(row["name"], row["restriction"], row["episodes"]) for row in seen["rows"]] == [
        ("LSPC-O", 1, 2),
        ("LSPC-S", None, 2),
    ]
    (sweep,) = seen["sweeps"]
    assert [(point["restriction"], point["cost"]["mean"]) for point in sweep["points"]] == [
        (0.25, 2),
        (0.5, 4),
        (1, 5),
    ]
    assert sweep["points"][2]["costs"] == [4, 6]
    assert seen["conflicts"] == []


def test_without_the_runs_own_eps_the_table_names_each(tmp_path: Path, data_file: Path) -> None:
    records = [r for eps in (0.25, 0.5) for r in episodes("LSPC-O", [1], eps=eps)]
    assert [row["name"] for row in view(make_run(tmp_path / "run", data_file, records))["rows"]] == [
        "LSPC-O, eps 0.25",
        "LSPC-O, eps 0.5",
    ]


def test_runs_that_differ_in_eps_alone_are_a_sweep_and_others_are_told_apart(tmp_path: Path, data_file: Path) -> None:
    narrow = make_run(tmp_path / "narrow", data_file, episodes("LSPC-O", [1, 1]), restriction=0.3)
    wide = make_run(tmp_path / "wide", data_file, episodes("LSPC-O", [9, 9]))
    seen = view(narrow, wide)
    assert [row["name"] for row in seen["rows"]] == ["LSPC-O, eps 0.3", "LSPC-O, eps 1"]
    assert [point["cost"]["mean"] for point in seen["sweeps"][0]["points"]] == [1, 9]

    other = [replace(each, run="other") for each in episodes("LSPC-O", [5])]
    seen = view(wide, make_run(tmp_path / "other", data_file, other, expectile=0.5))
    assert [row["name"] for row in seen["rows"]] == ["LSPC-O, r", "LSPC-O, other"]
    assert seen["sweeps"] == []


def test_an_old_record_without_eps_is_the_runs_own(tmp_path: Path, data_file: Path) -> None:
    folder = make_run(tmp_path / "run", data_file)
    new = ("restriction", "guard", "trained_on", "budget")
    lines = [record.as_json(each) for each in episodes("LSPC-O", [2])]
    old = [{name: value for name, value in line.items() if name not in new} for line in lines]
    files.write_jsonl(folder / layout.EVALUATIONS, old)
    (row,) = view(folder)["rows"]
    assert (row["name"], row["restriction"]) == ("LSPC-O", 1)


def test_two_results_for_one_episode_are_named_and_not_averaged(tmp_path: Path, data_file: Path) -> None:
    first = make_run(tmp_path / "first", data_file, episodes("LSPC-O", [2, 2]))
    seen = view(first, make_run(tmp_path / "second", data_file, episodes("LSPC-O", [90, 90])))
    assert [row["cost"]["mean"] for row in seen["rows"]] == [2]
    assert len(seen["conflicts"]) == 1
    assert "those of second are left out" in seen["conflicts"][0]


def test_every_task_that_was_measured_has_its_view(tmp_path: Path, data_file: Path) -> None:
    records = episodes("LSPC-O", [1]) + episodes("LSPC-O", [30], task="CarRun")
    found = page.collect([make_run(tmp_path / "run", data_file, records)], film=False)
    assert [each["task"] for each in found["views"]] == ["BallRun", "CarRun"]
    assert found["views"][0]["data"] is not None
    assert found["views"][1]["data"] is None  # what the data earned says nothing about another task
    assert found["views"][1]["rows"][0]["cost"]["mean"] == 30


def one_step_episodes(costs: list[float], rewards: list[float]) -> Dataset:
    """Episodes of one step each."""
    count, base = len(costs), small_dataset(episodes=1, steps=len(costs))
    return replace(base, costs=np.array(costs), rewards=np.array(rewards), terminated=np.ones(count, bool))


def test_the_best_of_the_data_for_every_budget() -> None:
    dataset = one_step_episodes([5, 0, 5, 2, 9], [30, 10, 20, 8, 31])
    found = page.to_plain(views.describe_data(dataset, BALL, BALL.thresholds, largest=100.0))
    assert found["best"] == [[0, 10], [5, 30], [9, 31]]
    assert found["points"] == [[5, 30], [0, 10], [5, 20], [2, 8], [9, 31]]
    assert found["costs"] == {"width": 1, "counts": [1, 0, 1, 0, 0, 2, 0, 0, 0, 1]}
    assert found["row"]["cost"]["mean"] == pytest.approx(21 / 5)


def test_without_a_task_the_data_are_judged_in_their_own_units(tmp_path: Path, data_file: Path) -> None:
    folder = make_run(tmp_path / "run", data_file, task=None)
    Run.open(folder).remember_budgets([3.0])
    collected = page.collect([folder], film=False)
    assert collected["title"] == f"LSPC on {data_file.name}"
    (seen,) = collected["views"]
    assert (seen["task"], seen["raw"], seen["thresholds"], seen["averaged"]) == (None, True, [3], False)
    dataset = load(data_file)
    assert seen["data"]["row"]["reward"]["mean"] == pytest.approx(dataset.returns.mean(), rel=1e-5)
    assert seen["data"]["row"]["cost"]["mean"] == pytest.approx(dataset.cost_returns.mean(), rel=1e-5)


def test_the_benchmark_s_average_is_offered_for_its_own_budgets_alone(tmp_path: Path, data_file: Path) -> None:
    folder = make_run(tmp_path / "run", data_file)
    assert view(folder)["averaged"]
    Run.open(folder).remember_budgets([3.0, 30.0])
    seen = view(folder)
    assert (seen["thresholds"], seen["averaged"]) == ([3, 30], False)


def test_what_was_measured_on_the_way_stands_beside_the_metrics(tmp_path: Path, data_file: Path) -> None:
    metrics = [{"step": step, "seed": seed, "loss": 1.0} for step in (250, 500, 750) for seed in (0, 1)]
    folder = make_run(tmp_path / "run", data_file, metrics=metrics)
    plain = gather.describe_run(Run.open(folder))["curves"]
    assert "measured" not in plain
    rows = [
        make_record(n + seed, cost, updates=n, training_seed=seed)
        for n in (250, 750) for seed in (0, 1) for cost in (2.0, 4.0)
    ]  # fmt: skip
    record.write(folder / layout.CURVE, rows)
    curves = gather.describe_run(Run.open(folder))["curves"]
    assert (curves["steps"], curves["measured"]) == ([250, 500, 750], [250, 750])
    assert curves["metrics"]["measured/reward of LSPC-O"] == [[250, 750], [251, 751]]
    assert curves["metrics"]["measured/cost of LSPC-O"] == [[3, 3], [3, 3]]
    assert curves["metrics"]["loss"] == plain["metrics"]["loss"]


def test_long_curves_are_means_over_stretches() -> None:
    lines = [{"step": step, "seed": seed, "loss": float(step + seed)} for step in range(1, 1001) for seed in (0, 1)]
    found = curves.shorten_curves(lines[:-1])  # killed between two seeds: the last step is not whole
    assert found is not None
    assert len(found["steps"]) == curves.CURVE_POINTS
    assert found["steps"][0] == 5
    assert found["steps"][-1] == 999
    assert found["metrics"]["loss"][0][0] == pytest.approx(np.mean([1, 2, 3, 4, 5]))
    assert found["metrics"]["loss"][1][0] == pytest.approx(np.mean([2, 3, 4, 5, 6]))


def test_calibration_is_sorted_and_may_choose_nothing(tmp_path: Path, data_file: Path) -> None:
    folder = make_run(tmp_path / "run", data_file)
    assert gather.read_calibrations(Run.open(folder)) == []
    ends = {"mean": 1.0, "low": 0.5, "high": 2.0}
    curve = [{"restriction": eps, "cost": ends, "reward": ends, "extra": 1} for eps in (1.0, 0.2)]
    budgets = [{"budget": 10, "restriction": 1.0, "why": "x"}, {"budget": 1, "restriction": None}]
    files.write_json(folder / "calibration.json", {"confidence": 0.9, "curve": curve, "budgets": budgets})
    (found,) = gather.read_calibrations(Run.open(folder))
    assert [point["restriction"] for point in found["points"]] == [0.2, 1.0]
    assert found["budgets"] == [{"budget": 10, "restriction": 1.0}, {"budget": 1, "restriction": None}]


def test_a_calibration_beside_each_policy_answers_for_the_tasks_budgets(tmp_path: Path, data_file: Path) -> None:
    folder = make_run(tmp_path / "run", data_file)
    for seed in (0, 1, 2):
        curve = tuple(
            Point(eps, Interval(cost, 0.0, cost + min(seed, 1)), Interval(eps, 0.0, 2.0), cost, 1.0)
            for eps, cost in ((0.5, 9.5), (1.0, 30.0))
        )
        made = Calibration(
            training_seed=seed, dataset="f", confidence=0.9, horizon=100, seed=0, settings={}, curve=curve,
            replays=(), cost_margin=Margin(0.0, 1.0), reward_margin=Margin(0.0, 1.0), episode_costs=(0.0,) * 50,
            familiar_within=1.0, doubt="the models know nothing" if seed == 2 else "",
        )  # fmt: skip
        files.write_json(
            folder / "policy" / f"seed-{seed}" / "calibration.json", files.seal(files.as_json(asdict(made)))
        )
    found = gather.read_calibrations(Run.open(folder))
    chosen = [[each["restriction"] for each in one["budgets"]] for one in found]
    assert [one["seed"] for one in found] == [0, 1, 2]
    # Budgets 10, 20 and 40; bounds 9.5 and 30, or one more; the last is in doubt.
    assert chosen == [[0.5, 0.5, 1.0], [None, 0.5, 1.0], [None] * 3]
    assert [one["speaks_from"] for one in found] == [0.0, 0.0, np.inf]
    assert not any("calibrate" in note for note in gather.list_missing([source(folder)]))


def test_a_certificate_is_read_with_its_words(tmp_path: Path, data_file: Path) -> None:
    folder = make_run(tmp_path / "run", data_file)
    claim = Claim(10.0, 100.0, "stated with --bound", 0.9, "betting")
    stage = Stage(0.5, (0.0,) * 40, (1.0,) * 40, True, 0.01, 6.0, False, None)
    place = layout.policy_folder(folder, 0)
    place.mkdir(parents=True, exist_ok=True)
    (place / layout.WEIGHTS).write_bytes(b"weights")
    weights = certificate.hash_weights(place)
    made = Certificate(claim, 0.5, (stage,), (), "simulator", (), 0, "f", weights, "0.3.0", "lspc pilot")
    certificate.save(place, made)
    (found,) = gather.read_certificates(Run.open(folder))
    assert (found["budget"], found["restriction"], found["episodes"]) == (10.0, 0.5, 40)
    assert found["words"][-1].startswith("certificate from 40 real episodes at 90%")


@pytest.mark.parametrize("unit", [1.0, 30.0])
@pytest.mark.parametrize("costs", [(4.0,) * 20, (0.0,) * 9 + (6.0, 50.0), (1.0,) * 5])
def test_the_least_budget_that_the_data_can_speak_of(unit: float, costs: tuple[float, ...]) -> None:
    least = gather.least_budget(costs, unit)
    made = Calibration(
        training_seed=0, dataset="f", confidence=0.9, horizon=100, seed=0, settings={}, replays=(),
        curve=(Point(0.5, Interval(0.0, 0.0, 0.0), Interval(1.0, 0.0, 2.0), 0.0, 1.0),),
        cost_margin=Margin(0.0, unit), reward_margin=Margin(0.0, 1.0), episode_costs=costs, familiar_within=1.0,
    )  # fmt: skip
    for budget in (0.0, 0.5, 1.9, 2.0, 3.0, 5.0, 50.0):
        assert (made.choose(budget).restriction is None) == (budget < least)


def test_a_guarded_policy_is_another_row_and_no_part_of_the_sweep(tmp_path: Path, data_file: Path) -> None:
    guarded = [replace(r, guard=10.0) for eps in (None, 0.5) for r in episodes("LSPC-O", [3, 3], eps=eps)]
    records = [*episodes("LSPC-O", [9, 9]), *episodes("LSPC-O", [5, 5], eps=0.5), *guarded]
    seen = view(make_run(tmp_path / "run", data_file, records))
    assert [(row["name"], row["cost"]["mean"]) for row in seen["rows"]] == [("LSPC-O", 9), ("LSPC-O, guard 10", 3)]
    assert [[point["cost"]["mean"] for point in sweep["points"]] for sweep in seen["sweeps"]] == [[5, 9]]
    assert seen["conflicts"] == []


def test_settings_say_where_they_came_from_and_no_folder_is_told(tmp_path: Path, data_file: Path) -> None:
    part = gather.describe_run(Run.open(make_run(tmp_path / "run", data_file, expectile=0.9)))
    sources = {setting["name"]: (setting["value"], setting["source"]) for setting in part["settings"]}
    assert sources["steps"] == ("500", "preset cpu")
    assert sources["expectile"] == ("0.9", "user")
    assert sources["hidden"] == ("[8, 8]", "default")
    assert part["dataset"]["source"] == "small.hdf5"


def test_an_empty_run_makes_a_page_that_says_what_to_run(tmp_path: Path, data_file: Path) -> None:
    folder, out = make_run(tmp_path / "run", data_file), tmp_path / "report.html"
    notes = "\n".join(page.write([folder], out))
    for command in (f"`lspc evaluate {folder}` first", f"`lspc calibrate {folder}` first", "no metrics.jsonl"):
        assert command in notes
    assert "a picture of run's actions" in notes
    assert "a filmed episode of run" in notes
    assert out.stat().st_size > 10_000


def test_a_sweep_is_proposed_where_the_run_was_trained_for_it(tmp_path: Path, data_file: Path) -> None:
    ranged = make_run(tmp_path / "ranged", data_file, episodes("LSPC-O", [1]), restriction_range=[0.02, 2.0])
    fixed = make_run(tmp_path / "fixed", data_file, episodes("LSPC-O", [1]), restriction_range=None)
    swept = make_run(tmp_path / "swept", data_file, episodes("LSPC-O", [1], eps=0.5))
    assert any("--restrictions 0.5 1 2`" in note for note in gather.list_missing([source(ranged)]))
    assert not any("--restrictions" in note for note in gather.list_missing([source(fixed), source(swept)]))


def test_data_that_moved_or_changed_are_asked_for(tmp_path: Path, data_file: Path) -> None:
    folder = make_run(tmp_path / "run", data_file)
    dataset = {**vars(Run.open(folder).dataset), "source": "gone.hdf5"}
    change_description(folder, dataset=dataset)
    assert any("not found at gone.hdf5" in note for note in gather.list_missing([source(folder)]))
    assert not any("not found" in note for note in gather.list_missing([source(folder, data_file)]))
    change_description(folder, dataset={**dataset, "fingerprint": "another"})
    assert source(folder, data_file).dataset is None


def test_a_name_in_the_data_cannot_break_out(tmp_path: Path, data_file: Path) -> None:
    evil = "</script><script>alert(1)</script><!-- {{style}}"
    found = page.collect([make_run(tmp_path / "run", data_file, episodes("LSPC-O", [1]))], film=False)
    found["runs"][0]["dataset"]["source"] = evil
    found["title"] = evil
    text = page.render(found)
    assert "<script>alert" not in text
    assert text.count("</script>") == 2
    assert text.count(":root {") == 2  # the style, with its dark half, is there once
    embedded = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert embedded
    assert json.loads(embedded[1]) == found


def test_nothing_comes_from_elsewhere(tmp_path: Path, data_file: Path) -> None:
    text = page.render(page.collect([make_run(tmp_path / "run", data_file)], film=False))
    addresses = set(re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, not an address
    assert not re.search(r"<link|@import|url\(|src=\"(?!data:)", text)
    assert "default-src 'none'" in text


def test_numbers_for_json() -> None:
    mixed = {1: (np.float32(0.5), np.array([1.0, math.nan])), "b": [math.inf, 123456.789, 2.0, True, None, "x"]}
    assert page.to_plain(mixed) == {"1": [0.5, [1, None]], "b": [None, 123457, 2, True, None, "x"]}


def test_what_is_no_run_is_refused(tmp_path: Path, data_file: Path) -> None:
    with pytest.raises(UserError, match="name a run folder"):
        page.collect([])
    with pytest.raises(UserError, match="is not a run folder"):
        page.collect([tmp_path])
    (tmp_path / "bench").mkdir()
    (tmp_path / "bench" / "bench.json").write_text("{}")
    with pytest.raises(UserError, match="is a bench: report it by itself"):
        page.collect([make_run(tmp_path / "run", data_file), tmp_path / "bench"])


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, data_file: Path) -> Path:
    """A run whose networks are as they begin, which is enough to act."""
    dataset, config = load(data_file), lspc.Config(hidden=(8, 8), latent_dim=4)
    spec = Spec.of(dataset)
    folder = make_run(tmp_path_factory.mktemp("run"), dataset)
    description = change_description(folder, config=asdict(config), spec=asdict(spec))
    net = lspc.policy(lspc.init(jax.random.key(0), spec, config))
    policy.save(folder / "policy" / "seed-0", net, {**description, "training_seed": 0})
    return folder


def test_actions_of_every_policy_in_the_state_where_the_first_two_differ_most(trained: Path) -> None:
    found = gather.draw_actions(source(trained))
    assert found is not None
    assert [each["name"] for each in found["policies"]] == ["LSPC-O", "LSPC-S", "CVAE"]
    assert all(each["drawn"].shape == (gather.ACTIONS, 2) for each in found["policies"])
    dataset = source(trained).dataset
    assert dataset is not None
    states = dataset.observations[np.linspace(0, 999, gather.STATES).astype(int)]
    objective, safe = (policy.load_policy(trained, variant=name).act(states) for name in ("LSPC-O", "LSPC-S"))
    gap = np.linalg.norm(objective - safe, axis=1).max()
    shown = np.linalg.norm(found["policies"][0]["usual"] - found["policies"][1]["usual"])
    assert shown == pytest.approx(gap, rel=1e-5)
    spread = [each["drawn"].std(axis=0).max() for each in found["policies"]]
    assert spread[2] > spread[1] > 0  # the whole prior is wider than LSPC-S's part of it


@pytest.mark.simulator
def test_a_filmed_episode_and_its_still(trained: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(clips, "FRAMES_PER_EPISODE", 5)
    run = Run.open(Path(shutil.copytree(trained, tmp_path / "run")))
    run.remember_budgets((7.0, 3.0))
    found = gather.film_episode(run)
    assert (found["policy"], found["budget"]) == ("LSPC-O", 3.0)  # the user's, not the task's
    for name, kind in (("moving", "gif"), ("still", "jpeg")):
        start, _, content = found[name].partition(",")
        assert start == f"data:image/{kind};base64"
        (tmp_path / name).write_bytes(base64.b64decode(content))
        with Image.open(tmp_path / name) as picture:
            assert picture.size == tuple(found["size"])


def bench(folder: Path, data_file: Path) -> Path:
    """Two policies on BallRun: one is safe at 20 and 40 alone, the other always and nearly as good."""
    dataset = load(data_file)
    plan = {"tasks": {"BallRun": dataset.fingerprint}, "methods": ["lspc"], "episodes": 2, "seeds": 1, "together": 1}
    files.write_json(
        folder / "bench" / "bench.json",
        {"lspc_version": "0.1.0", **plan, "preset": "cpu", "settings": {}, "modes": ["deterministic"]},
    )
    records = [
        record
        for mode, shift in (("deterministic", 0), ("sampled", 1))
        for policy, cost, reward in (("LSPC-O", 15 + shift, 800.0), ("LSPC-S", 0, 780.0))
        for record in episodes(policy, [cost, cost], mode=mode, reward=reward, dataset=dataset.fingerprint)
    ]
    make_run(folder / "bench" / "runs" / "BallRun" / "lspc-seeds-0-0", data_file, records)
    return folder / "bench"


def test_a_bench_shows_the_table_for_each_budget_and_kind_of_action(tmp_path: Path, data_file: Path) -> None:
    found = page.collect([bench(tmp_path, data_file)])
    assert found["kind"] == "bench"
    assert list(found["tables"]) == ["deterministic", "sampled"]
    assert all(list(each) == ["average", "10", "20", "40"] for each in found["tables"].values())

    def marks(mode: str, threshold: str) -> dict[str, str]:
        (sheet,) = found["tables"][mode][threshold]
        first = sheet["body"][0]
        return {name: entry["mark"] for name, entry in zip(sheet["header"][1:], first[1:], strict=True)}

    assert marks("deterministic", "10") == {"LSPC-S": "blue", "LSPC-O": ""}
    assert marks("deterministic", "20") == {"LSPC-S": "blue", "LSPC-O": "blue"}
    assert [entry["parts"] for entry in found["tables"]["sampled"]["40"][0]["body"][0]][2][1] == "0.40"
    assert [row["policy"] for row in found["views"][0]["rows"]] == ["LSPC-O", "LSPC-S"] * 2
    assert any("not finished" in note for note in found["notes"])


# Colours: told apart with every common kind of colour vision, and text that can be read.

VISIONS = {
    "all": np.eye(3),
    # Machado, Oliveira and Fernandes (2009), in linear RGB.
    "no red": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "no green": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
}
SERIES = [f"s{place}" for place in range(6)]


def palettes() -> dict[str, dict[str, np.ndarray]]:
    """The style's colours by name, light and dark, in linear RGB."""
    style = (resources.files("lspc.report") / "web" / "page.css").read_text(encoding="utf-8")
    found = {}
    for name, block in zip(("light", "dark"), re.findall(r":root \{(.*?)\}", style, re.DOTALL), strict=True):
        codes = re.findall(r"--(\w+): #([0-9a-f]{6})", block)
        rgb = {key: np.array([int(code[i : i + 2], 16) for i in (0, 2, 4)]) / 255 for key, code in codes}
        found[name] = {k: np.where(v <= 0.04045, v / 12.92, ((v + 0.055) / 1.055) ** 2.4) for k, v in rgb.items()}
    return found


def lab(colour: np.ndarray) -> np.ndarray:
    to_xyz = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
    x, y, z = np.cbrt(to_xyz @ np.clip(colour, 0, 1) / [0.9505, 1.0, 1.089])
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("vision", VISIONS)
def test_series_are_told_apart(scheme: str, vision: str) -> None:
    colours = palettes()[scheme]
    for a, b in itertools.combinations([*SERIES, "budget"], 2):
        first, second = (lab(np.asarray(VISIONS[vision]) @ colours[name]) for name in (a, b))
        apart = np.linalg.norm(first - second)
        assert apart > 10, (a, b, apart)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_and_marks_be_seen(scheme: str) -> None:
    colours = palettes()[scheme]
    luminance = {name: float(np.dot([0.2126, 0.7152, 0.0722], rgb)) for name, rgb in colours.items()}

    def contrast(name: str, ground: str) -> float:
        dark, light = sorted((luminance[name], luminance[ground]))
        return (light + 0.05) / (dark + 0.05)

    for name in ("ink", "quiet", "accent", "safe", "likely", "unlikely", "unsafe"):
        assert contrast(name, "card") > 4.5, (name, contrast(name, "card"))  # the usual bound for text
    for name in (*SERIES, "budget"):
        assert contrast(name, "card") > 2.5, (name, contrast(name, "card"))
