"""The report in a real browser: what changes when the reader moves the slider and switches the budget.

The episodes are made up so that every sentence is known: LSPC-O costs 4 or 8 in its episodes, 6 on average, and was
measured often enough to be sure of it; the others were not.
"""

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest
from helpers.browser import Browser
from helpers.made_runs import episodes, make_record, make_run
from PIL import Image
from scipy.stats import beta

from lspc import files
from lspc.calibration.choosing import Calibration, Margin, Point
from lspc.data import load
from lspc.report import page
from lspc.runs import Run, layout, record
from lspc.runs.statistics import Interval

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
        *episodes("LSPC-O", [4, 8] * 200),
        *episodes("LSPC-S", [0] * 20, reward=200),
        *episodes("CVAE", [45] * 20, reward=600),
        *episodes("LSPC-O", [30] * 20, mode="sampled"),
        *episodes("LSPC-O", [0] * 20, eps=0.2, reward=100),
        *episodes("LSPC-O", [15] * 400, eps=2.0, reward=700),
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
    assert (
        "None of 400 episodes went over the budget (with 95 % confidence, at most 1 % do); the worst cost 8"
        in browser.text("#is-it-safe").replace("\xa0", " ")
    )
    assert "Safe at 10, 20 and 40." in browser.text("#at-which-budget")
    assert bold(browser) == ["LSPC-O", "LSPC-S"]
    assert lines_of_budget(browser) == {10}

    browser.click("label:has([name=budget][value='40'])")
    assert browser.text("#verdict h2") == "LSPC-O is safe at a budget of 40."
    assert lines_of_budget(browser) == {40}
    assert "cost / 40" in browser.text("#table thead")
    assert bold(browser) == ["data", "LSPC-O", "LSPC-S"]
    assert "CVAE is probably not safe" in browser.text("#others")
    assert "LSPC-S is probably safe" not in browser.text("#others")  # 20 zeros do show it here, but not at 10:
    browser.open(report)
    assert "LSPC-S is probably safe" in browser.text("#others")

    browser.click("#own")
    browser.write("5")
    assert browser.text("#verdict h2") == "LSPC-O is probably not safe at a budget of 5."
    assert "200 of 400 episodes (50 %) went over" in browser.text("#is-it-safe").replace("\xa0", " ")
    assert lines_of_budget(browser) == {5}
    assert bold(browser) == ["LSPC-S"]
    assert browser.run("document.querySelector('#verdict').className") == "verdict unlikely"

    browser.click("label:has([name=budget][value='average'])")
    (average,) = lines_of_budget(browser)
    assert average == pytest.approx(3 / (1 / 10 + 1 / 20 + 1 / 40))
    assert browser.run("document.querySelector('#own').value") == ""


def test_inside_the_interval_nothing_is_certain(browser: Browser, report: Path) -> None:
    low, high = (float(end) for end in re.findall(r"is ([\d.]+) to ([\d.]+)", _sure(browser, report))[0])
    for budget, words in (
        (6.1, "not known to be safe"),  # one more episode of cost 100 would raise the mean to 6.23
        (6.3, "probably safe"),
        (5.9, "probably not safe"),
        (high + 0.1, "safe"),
        (low - 0.1, "not safe"),
    ):
        browser.open(report, link=f"#budget={budget:.2f}")
        assert browser.text("#verdict h2").startswith(f"LSPC-O is {words} at")


@pytest.mark.parametrize(
    ("costs", "budget", "words"),
    [
        ([39], 40, "not known to be safe"),
        ([41], 40, "not known to be safe"),
        ([0], 60, "not known to be safe"),  # though one of 100 beside it would make 50
        ([0] * 20, 4, "not known to be safe"),  # 20 zeros and 100 are 4.8 on average
        ([0] * 20, 5, "probably safe"),
        ([0] * 20, 14, "safe"),
        ([45] * 20, 40, "probably not safe"),
    ],
)
def test_one_episode_or_twenty_zeros_are_no_certainty(
    browser: Browser, tmp_path: Path, data_file: Path, costs: list[float], budget: float, words: str
) -> None:
    page.write([make_run(tmp_path / "run", data_file, episodes("LSPC-O", costs))], tmp_path / "r.html", film=False)
    browser.open(tmp_path / "r.html", link=f"#budget={budget}")
    assert browser.text("#verdict h2") == f"LSPC-O is {words} at a budget of {budget}."
    assert words in browser.text("#table tr[data-policy=LSPC-O]")
    assert ("too few to tell" in browser.text("#how-sure").lower()) == (words == "not known to be safe")


def _sure(browser: Browser, report: Path) -> str:
    browser.open(report)
    return browser.text("#how-sure")


def test_moving_the_slider_changes_words_and_marks(browser: Browser, report: Path) -> None:
    browser.open(report)
    place = "document.querySelector('#sweep line.cross').x1.baseVal.value"
    assert browser.text("#sweep output") == "eps 1"  # the run's own
    assert "reward 506" in browser.text("#eps-words")
    assert "Predicted from the logs alone: reward 480" in browser.text("#eps-words")
    before = browser.run(place)

    browser.click("#eps", along=0.01)
    assert browser.text("#sweep output") == "eps 0.2"
    assert "reward 100 (100 to 100), cost 0.00 (0.00 to 13.9): probably safe at a budget of 10" in browser.text(
        "#eps-words"
    )
    assert browser.run(place) < before
    assert "restriction=0.2" in browser.run("location.hash")

    browser.press("ArrowRight")
    browser.press("ArrowRight")
    assert browser.text("#sweep output") == "eps 2"
    assert "not safe at a budget of 10; 400 of 400 episodes over it" in browser.text("#eps-words")
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
    browser.hover("#plane svg.chart path:nth-last-child(1)")
    assert browser.text("#tip") == "LSPC-O, eps 0.2, predicted\nreward 90.0 (80.0 to 95.0)\ncost 1.00 (0.00 to 2.00)"
    browser.hover("#plane svg.chart path:nth-last-child(3)")
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
    assert browser.text("#verdict h2") == "Is it safe? Not known yet."
    assert "lspc evaluate" in browser.text("#verdict")
    assert "lspc calibrate" in browser.text("#verdict")
    assert browser.run("document.querySelector('#verdict svg.chart').getClientRects().length") == 0  # no empty axis
    assert browser.run("document.querySelector('#sweep').hidden")
    assert browser.text("#profile").startswith("The data it learned from")


@pytest.fixture(scope="module")
def plant(tmp_path_factory: pytest.TempPathFactory, data_file: Path) -> Path:
    """A run on one's own data, calibrated and never tried, whose critics still learn; a pilot proved 9."""
    folder = tmp_path_factory.mktemp("plant")
    metrics = [{"step": n, "seed": 0, "reward/value_mean": n, "cost/value_mean": 1 / n} for n in range(1, 40)]
    run = make_run(folder / "plant", data_file, task=None, metrics=metrics, steps=39)
    Run.open(run).remember_budgets([1, 3, 9, 30])
    files.write_json(
        layout.policy_folder(run, 0) / layout.CALIBRATION, files.seal(files.as_json(asdict(calibrated())))
    )
    found = page.collect([run], film=False)
    words = ["certificate from 50 real episodes at 90%: LSPC-O at eps 0.5 costs at most 9 per episode on average"]
    proved = {"run": "plant", "task": None, "seed": 0, "budget": 9, "restriction": 0.5, "confidence": 0.9}
    found["certificates"] = [{**proved, "episodes": 50, "words": words}]
    files.write_text(folder / "report.html", page.render(found))
    return folder / "report.html"


def calibrated() -> Calibration:
    """Beyond eps 1 the bound dips again, which must not count; half of the episodes cost 10 or more."""
    highs = {0.1: 2.0, 0.5: 4.0, 1.0: 12.0, 2.0: 8.0}
    curve = tuple(
        Point(eps, Interval(high / 2, 0.0, high), Interval(10 * eps, 0.0, 30.0), 1.0, 1.0)
        for eps, high in highs.items()
    )
    return Calibration(
        training_seed=0, dataset="f", confidence=0.9, horizon=50, seed=0, settings={}, curve=curve, replays=(),
        cost_margin=Margin(0.0, 1.0), reward_margin=Margin(0.0, 1.0), episode_costs=(4.0,) * 20 + (10.0,) * 20,
        familiar_within=1.0,
    )  # fmt: skip


def test_own_data_are_judged_by_what_the_logs_predict(browser: Browser, plant: Path) -> None:
    browser.open(plant)
    assert browser.text("#verdict h2") == "No eps is predicted to keep a budget of 1."
    assert browser.text("#pick-budget").split() == [
        "cost",
        "budget",
        "1",
        "3",
        "9",
        "30",
    ]  # the user's, and no average
    browser.open(plant, link="#budget=3")
    assert browser.text("#verdict h2") == "LSPC-O at eps 0.1 is predicted to keep a budget of 3."
    assert "expected to cost 1.00 (0.00 to 2.00)" in browser.text("#is-it-safe")
    assert "cost 1.00 (0.00 to 2.00): predicted to keep a budget of 3." in browser.text("#eps-words")
    browser.click("#eps", along=0.99)
    assert "cost 4.00 (0.00 to 8.00): not predicted to keep a budget of 3." in browser.text("#eps-words")
    assert "nothing has been tried" in browser.text("#how-sure")
    assert browser.text("#verdict .legend").split("\n") == ["predicted from the logs, dashed", "the logged episodes"]
    assert "reward/value_mean was still rising" in browser.text("#warnings")
    assert "Only 39 updates" in browser.text("#warnings")
    assert "cost/value_mean" not in browser.text("#warnings")
    assert browser.run("document.querySelector('#table').hidden")  # nothing was measured


def test_the_page_chooses_as_calibrate_does(browser: Browser, plant: Path) -> None:
    browser.open(plant)
    budgets = [0.5, 1, 1.9, 2, 2.1, 3, 4, 6, 8, 11, 12, 40]
    chosen = browser.run(f"{budgets}.map((limit) => choose(calibrations()[0], limit)?.restriction ?? null)")
    assert chosen == [calibrated().choose(budget).restriction for budget in budgets]


def test_a_certificate_is_the_verdict_where_nothing_was_measured(browser: Browser, plant: Path) -> None:
    browser.open(plant, link="#budget=9")
    assert browser.text("#verdict h2") == ("LSPC-O at eps 0.5 keeps a budget of 9: a pilot of 50 episodes proved it.")
    assert "certificate from 50 real episodes" in browser.text("#verdict .certificate")
    assert "the logs alone suggest eps 0.5" in browser.text("#predicted")


def test_the_share_of_episodes_over_the_budget_is_clopper_and_pearson_s(browser: Browser, plant: Path) -> None:
    browser.open(plant)
    for over, of in ((0, 1), (0, 20), (3, 20), (200, 400), (20, 20)):
        exact = 1.0 if over == of else beta.ppf(0.95, over + 1, of - over)
        assert browser.run(f"shareAtMost({over}, {of})") == pytest.approx(exact, abs=1e-6)


@pytest.mark.parametrize(
    ("values", "labels"),
    [("[0, 50, 100]", ["0", "50", "100"]), ("[177.8, 178, 178.2]", ["177.8", "178.0", "178.2"]),
     ("[12345, 12346]", ["12345", "12346"])],
)  # fmt: skip
def test_no_two_ticks_of_an_axis_read_alike(browser: Browser, plant: Path, values: str, labels: list[str]) -> None:
    browser.open(plant)
    assert browser.run(f"tickLabels({values})") == labels


def test_print_is_on_white_without_controls(browser: Browser, plant: Path) -> None:
    browser.open(plant, dark=True)
    browser.call("Emulation.setEmulatedMedia", media="print")
    try:
        assert browser.run("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert browser.run("document.querySelector('.slider').getClientRects().length") == 0
        assert browser.run("parseFloat(getComputedStyle(document.querySelector('.verdict')).paddingLeft)") >= 10
    finally:
        browser.call("Emulation.setEmulatedMedia", media="")


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
    assert browser.text("#verdict h2") == "CarRun: LSPC-S is not known to be safe at a budget of 40."
    assert "LSPC-O is not known to be safe" in browser.text("#others")
