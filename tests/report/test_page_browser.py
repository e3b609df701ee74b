"""The report in a real browser: what changes when the reader moves the slider and switches the budget.

The episodes are made up so that every sentence is known: LSPC-O costs 4 or 8 in its episodes, 6 on average.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from helpers.browser import Browser
from helpers.made_runs import episodes, make_record, make_run
from PIL import Image

from lspc import files
from lspc.data import load
from lspc.report import page
from lspc.runs import layout, record

ENDS = ("mean", "low", "high")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    started = Browser(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory, data_file: Path) -> Path:
    """Everything a page can hold; the actions and the clip are made up."""
    folder = tmp_path_factory.mktemp("report")
    records = [
        *episodes("LSPC-O", [4, 8] * 10),
        *episodes("LSPC-S", [0] * 20, reward=200),
        *episodes("CVAE", [45] * 20, reward=600),
        *episodes("LSPC-O", [30] * 20, mode="sampled"),
        *episodes("LSPC-O", [0] * 20, eps=0.2, reward=100),
        *episodes("LSPC-O", [15] * 20, eps=2.0, reward=700),
    ]
    metrics = [
        {
            "step": 250 * n,
            "seed": seed,
            "reward/value_mean": n + seed,
            "cost/value_mean": 9.0 - n,
            "cost/q_loss": 1 / n,
        }
        for n in range(1, 9)
        for seed in (0, 1)
    ]
    run = make_run(folder / "<b>run", data_file, records, metrics=metrics)
    on_the_way = [
        make_record(n / 4 + 2 * k, 6.0, updates=n, training_seed=k)
        for n in (1000, 2000) for k in (0, 1)
    ]  # fmt: skip
    record.write(run / layout.CURVE, on_the_way)
    curve = [
        {
            "restriction": eps,
            "cost": dict(zip(ENDS, cost, strict=True)),
            "reward": dict(zip(ENDS, reward, strict=True)),
        }
        for eps, cost, reward in ((0.2, (1, 0, 2), (90, 80, 95)), (1.0, (7, 5, 12), (480, 450, 510)))
    ]
    budgets = [{"budget": 10, "restriction": 0.2}, {"budget": 1, "restriction": None}]
    files.write_json(run / "calibration.json", {"confidence": 0.9, "curve": curve, "budgets": budgets})
    found = page.collect([run], film=False)
    rng = np.random.default_rng(0)
    found["actions"] = page.to_plain({
        "run": "run", "dims": 2, "states": 256, "logged": [0.1, 0.2],
        "policies": [
            {"name": name, "usual": [0.5, 0.5], "drawn": rng.uniform(-1, 1, (30, 2))}
            for name in ("LSPC-O", "LSPC-S", "CVAE")
        ],
    })  # fmt: skip
    dot = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
    found["clip"] = {"policy": "LSPC-O", "budget": 10, "size": [480, 424], "moving": dot, "still": f"{dot}#still"}
    files.write_text(folder / "report.html", page.render(found))
    return folder / "report.html"


@pytest.fixture(autouse=True)
def _no_complaints(browser: Browser) -> Iterator[None]:
    browser.complaints.clear()
    yield
    assert browser.complaints == []


def lines_of_budget(browser: Browser) -> set[float]:
    return set(
        browser.run("[...document.querySelectorAll('line.budget')].map((node) => Number(node.dataset.budget))")
    )


def bold(browser: Browser) -> list[str]:
    return browser.run("[...document.querySelectorAll('#table tr.within')].map((row) => row.dataset.policy)")


def test_all_sections_are_there_and_drawn(browser: Browser, report: Path) -> None:
    browser.open(report)
    shown = browser.run(
        "[...document.querySelectorAll('section')].filter((each) => !each.hidden).map((each) => each.id)"
    )
    assert shown == [
        "verdict",
        "table",
        "plane",
        "sweep",
        "curves",
        "actions",
        "clip",
        "profile",
        "settings",
        "notes",
    ]
    assert browser.run("[...document.querySelectorAll('svg.chart')].every((each) => each.childElementCount > 5)")
    assert browser.text("h1") == "LSPC on BallRun"
    assert "“<b>run”" in browser.text("header")  # a name from a folder is text, not markup
    assert browser.run("document.querySelectorAll('header b').length") == 0


def test_switching_the_budget_changes_words_table_and_lines(browser: Browser, report: Path) -> None:
    browser.open(report)
    assert browser.text("#verdict h2") == "LSPC-O is safe at a budget of 10."
    assert "An episode costs 6.00 on average, 60 % of the budget" in browser.text("#is-it-safe").replace("\xa0", " ")
    assert "None of 20 episodes went over the budget; the worst cost 8" in browser.text("#is-it-safe")
    assert "Safe at 10, 20 and 40." in browser.text("#at-which-budget")
    assert bold(browser) == ["LSPC-O", "LSPC-S"]
    assert lines_of_budget(browser) == {10}

    browser.click("label:has([name=budget][value='40'])")
    assert browser.text("#verdict h2") == "LSPC-O is safe at a budget of 40."
    assert lines_of_budget(browser) == {40}
    assert "cost / 40" in browser.text("#table thead")
    assert bold(browser) == ["data", "LSPC-O", "LSPC-S"]
    assert "CVAE is not safe" in browser.text("#others")

    browser.click("#own")
    browser.write("5")
    assert browser.text("#verdict h2") == "LSPC-O is not safe at a budget of 5."
    assert "10 of 20 episodes (50 %) went over" in browser.text("#is-it-safe").replace("\xa0", " ")
    assert lines_of_budget(browser) == {5}
    assert bold(browser) == ["LSPC-S"]
    assert browser.run("document.querySelector('#verdict').className") == "verdict unsafe"

    browser.click("label:has([name=budget][value='average'])")
    (average,) = lines_of_budget(browser)
    assert average == pytest.approx(3 / (1 / 10 + 1 / 20 + 1 / 40))
    assert browser.run("document.querySelector('#own').value") == ""


def test_inside_the_interval_nothing_is_certain(browser: Browser, report: Path) -> None:
    low, high = (float(end) for end in re.findall(r"is ([\d.]+) to ([\d.]+)", _sure(browser, report))[0])
    for budget, words in (
        (6.1, "probably safe"),
        (5.9, "probably not safe"),
        (high + 0.1, "safe"),
        (low - 0.1, "not safe"),
    ):
        browser.open(report, link=f"#budget={budget:.2f}")
        assert browser.text("#verdict h2").startswith(f"LSPC-O is {words} at")


def _sure(browser: Browser, report: Path) -> str:
    browser.open(report)
    return browser.text("#how-sure")


def test_moving_the_slider_changes_words_and_marks(browser: Browser, report: Path) -> None:
    browser.open(report)
    place = "document.querySelector('#sweep line.cross').x1.baseVal.value"
    assert browser.text("#sweep output") == "eps 1"  # the run's own
    assert "reward 506" in browser.text("#eps-words")
    assert "Predicted from data alone: reward 480" in browser.text("#eps-words")
    before = browser.run(place)

    browser.click("#eps", along=0.01)
    assert browser.text("#sweep output") == "eps 0.2"
    assert "reward 100 (100 to 100), cost 0.00 (0.00 to 0.00): safe at a budget of 10" in browser.text("#eps-words")
    assert browser.run(place) < before
    assert "restriction=0.2" in browser.run("location.hash")

    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.text("#sweep output") == "eps 2"
    assert "not safe at a budget of 10; 20 of 20 episodes over it" in browser.text("#eps-words")
    assert "Predicted" not in browser.text("#eps-words")  # nothing was predicted for it
    assert browser.run(place) > before

    # The budget decides which eps is the largest that fits: measured 1, predicted 0.2, then 2 and 1.
    assert re.findall(r"measured \(LSPC-O\): ([\d.]+)\..*predicted: ([\d.]+)\.", browser.text("#eps-words")) == [
        ("1", "0.2")
    ]
    browser.click("label:has([name=budget][value='20'])")
    assert re.findall(r"measured \(LSPC-O\): ([\d.]+)\..*predicted: ([\d.]+)\.", browser.text("#eps-words")) == [
        ("2", "1")
    ]
    assert browser.text("#sweep output") == "eps 2"
    assert "eps 0.2 for budget 10 and no eps for budget 1" in browser.text("#calibrated")


def test_sampled_actions_and_a_link_to_them(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.click("label:has([name=actions][value=sampled])")
    assert browser.text("#verdict h2") == "LSPC-O is not safe at a budget of 10."
    link = browser.run("location.hash")
    browser.open(report, link=link)
    assert browser.text("#verdict h2") == "LSPC-O is not safe at a budget of 10."
    assert browser.run("document.querySelector('[name=actions][value=sampled]').checked")


def test_pointing_at_a_curve_reads_all_of_them(browser: Browser, report: Path) -> None:
    browser.open(report)
    browser.hover("#curves svg.chart", along=0.99)
    assert browser.text("#step-words") == "after 2,000 updates"
    values = browser.run("[...document.querySelectorAll('#curves text.name')].map((node) => node.textContent)")
    assert values == ["501", "6", "8.5", "1"]  # means of both seeds: measured, then the metrics (8 and 9; 9 - 8)
    browser.run("document.querySelector('#curves svg.chart').focus()")
    browser.press("ArrowLeft")
    assert browser.text("#step-words") == "after 1,000 updates"  # one back
    browser.click("label:has([name=group][value=cost])")
    names = browser.run("[...document.querySelectorAll('#curves h3')].map((node) => node.textContent)")
    assert names == ["cost/value_mean", "cost/q_loss"]


def test_a_policy_can_be_hidden_and_an_episode_read(browser: Browser, report: Path) -> None:
    browser.open(report)
    shapes = "document.querySelectorAll('#plane svg path').length"
    before = browser.run(shapes)
    browser.click("#plane .legend button")
    assert browser.run(shapes) == before - 3  # its episodes, its mean and the mean's interval
    assert browser.run("document.querySelector('#plane .legend button').getAttribute('aria-pressed')") == "false"
    browser.hover("#plane svg path:last-of-type")
    assert browser.text("#tip") == "CVAE, training seed 0\nreward 645, cost 45.0"
    browser.click("#clip button")
    assert browser.run("document.querySelector('#clip img').src").endswith("#still")


@pytest.mark.parametrize("width", [320, 390, 768, 1200])
def test_nothing_scrolls_sideways(browser: Browser, report: Path, width: int) -> None:
    browser.open(report, width=width)
    assert browser.run("document.documentElement.scrollWidth") <= width
    beyond = f"(node) => node.getBoundingClientRect().right > {width + 1}"
    wide = f"[...document.querySelectorAll('body *')].filter({beyond}).map((node) => node.outerHTML)"
    assert browser.run(wide) == []


def test_a_phone_has_one_column_and_targets_for_thumbs(browser: Browser, report: Path) -> None:
    browser.open(report, width=390, height=844)
    lefts = browser.run(
        "[...new Set([...document.querySelectorAll('section')].map((node) => node.getBoundingClientRect().left))]"
    )
    assert len(lefts) == 1
    heights = browser.run(
        "[...document.querySelectorAll('.choice label, .legend button, #eps')].map((node) => node.offsetHeight)"
    )
    assert min(heights) >= 30


@pytest.mark.parametrize("dark", [False, True])
def test_the_reader_s_scheme_is_followed(browser: Browser, report: Path, tmp_path: Path, dark: bool) -> None:
    browser.open(report, dark=dark)
    browser.picture(tmp_path / "page.png")
    with Image.open(tmp_path / "page.png") as picture:
        pixels = np.asarray(picture.convert("L"))
    assert (np.median(pixels) < 60) == dark
    assert (np.median(pixels) > 200) == (not dark)
    assert len(np.unique(pixels)) > 50


def test_a_run_that_was_not_measured_says_so(browser: Browser, tmp_path: Path, data_file: Path) -> None:
    out = tmp_path / "report.html"
    page.write([make_run(tmp_path / "fresh", data_file)], out, film=False)
    browser.open(out)
    assert browser.text("#verdict h2") == "Is it safe? Not measured yet."
    assert "lspc evaluate" in browser.text("#verdict")
    assert browser.run("document.querySelector('#sweep').hidden")
    assert browser.text("#profile").startswith("The data it learned from")


def test_a_bench_follows_budget_task_and_actions(browser: Browser, tmp_path: Path, data_file: Path) -> None:
    fingerprint = load(data_file).fingerprint
    for task, shift in (("BallRun", 0), ("CarRun", 30)):
        records = [
            record
            for policy, cost in (("LSPC-O", 15 + shift), ("LSPC-S", 0))
            for record in episodes(policy, [cost] * 2, reward=800 - cost, task=task, dataset=fingerprint)
        ]
        make_run(tmp_path / "bench" / "runs" / task / "lspc-seeds-0-0", data_file, records, task=task)
    plan = {"tasks": {"BallRun": fingerprint, "CarRun": fingerprint}, "methods": [], "episodes": 2, "seeds": 1}
    rest = {"together": 1, "preset": "cpu", "settings": {}, "modes": ["deterministic"], "lspc_version": "0.1.0"}
    files.write_json(tmp_path / "bench" / "bench.json", {**plan, **rest})
    out = tmp_path / "report.html"
    page.write([tmp_path / "bench"], out)
    browser.open(out, width=390)
    assert browser.run("document.documentElement.scrollWidth") <= 390
    browser.open(out)
    strong = "[...document.querySelectorAll('#bench tbody tr')].map((row) => row.querySelectorAll('strong').length)"
    assert browser.run("document.querySelector('#bench').dataset.budget") == "average"
    assert browser.run(strong) == [2, 1, 1]  # BallRun, CarRun and their average
    browser.click("label:has([name=budget][value='10'])")
    assert browser.run(strong) == [1, 1, 1]
    assert "BallRun @10" in browser.text("#bench")
    assert "LSPC-S is safe on 2 of 2 tasks" in browser.text(".sheet-words")
    browser.open(out, link="#task=CarRun&budget=40")
    assert browser.text("#verdict h2") == "CarRun: LSPC-S is safe at a budget of 40."
    assert "LSPC-O is not safe" in browser.text("#others")
