"""README and the site: `lspc` takes every command, every block of Python runs, every link leads somewhere."""

import ast
import csv
import inspect
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tyro
from helpers import pages
from helpers.calibrated import SMALL_DYNAMICS, SMALL_FITTED_Q, add_calibration, finished_run
from helpers.cli import call_in_process
from helpers.pages import ROOT, Command

import lspc
from lspc.algos import METHODS
from lspc.calibration import calibrate_policy, certificate
from lspc.calibration.certificate import Certificate
from lspc.calibration.pilot import Claim, Stage
from lspc.cli import VERBS
from lspc.data import Dataset, save
from lspc.policy import load_policy
from lspc.runs import layout

SMALL = 'preset="cpu", steps=10, batch_size=32, hidden=(8, 8), latent_dim=4'
COMMANDS = [command for page in pages.PAGES for command in pages.commands(page)]


def parse(words: list[str]) -> None:
    """Let the verb's own parser read the arguments, and call nothing."""
    function = getattr(import_module(f"lspc.cli.{VERBS[words[0]][0]}"), words[0])
    if list(inspect.signature(function).parameters) == ["arguments"]:  # it has a parser of its own
        sys.modules[function.__module__]._parse(words[1:])
        return

    def values(**given: Any) -> None: ...

    values.__wrapped__ = function  # pyrefly: ignore [missing-attribute]
    values.__annotations__, values.__doc__ = function.__annotations__, function.__doc__
    tyro.cli(values, args=words[1:], prog=f"lspc {words[0]}")


def shown(command: Command) -> str:
    return f"{command.page}: lspc {' '.join(command.words)}"


def test_performance_names_what_make_speed_runs_and_the_commands_of_the_others() -> None:
    page = (ROOT / "docs" / "performance.md").read_text()
    [told] = re.findall(r"make speed +# (.+) of benchmarks/", page)
    recipe = (ROOT / "Makefile").read_text().partition("\nspeed:")[2].partition("\n\n")[0]
    run = re.findall(r"benchmarks/(\w+)\.py", recipe)
    assert told.split(", ") == run
    programs = {path.stem for path in (ROOT / "benchmarks").glob("*.py") if "__main__" in path.read_text()}
    others = programs - {*run, "growth", "torch_lspc"}
    assert [name for name in sorted(others) if f"\n    python benchmarks/{name}.py" not in page] == []


@pytest.mark.parametrize("command", [each for each in COMMANDS if each.whole], ids=shown)
def test_a_command_in_a_block_is_one_that_lspc_takes(command: Command) -> None:
    with nullcontext() if "--help" not in command.words else pytest.raises(SystemExit):
        parse(command.words)


@cache
def flags(verb: str, algo: str) -> set[str]:
    method = ("--algo", algo) if verb == "train" else ()
    return set(re.findall(r"--[a-z][a-z-]*", call_in_process(verb, *method, "--help", columns=200).stdout))


@pytest.mark.parametrize("page", sorted({each.page for each in COMMANDS if not each.whole}))
def test_a_command_in_running_text_names_a_verb_and_flags_that_exist(page: str) -> None:
    for _, words, _ in (each for each in COMMANDS if each.page == page and not each.whole):
        if words[0] in ("VERB", "--help"):
            continue
        assert words[0] in VERBS, words
        algo = words[words.index("--algo") + 1] if "--algo" in words else "lspc"
        algo = algo if algo in METHODS else "bc"  # the one that a page writes is like BC
        named = {word.split("=")[0] for word in words if word.startswith("--")}
        assert named <= flags(words[0], algo) | {"--help", "--quiet", "--config"}, words


def test_the_commands_were_found() -> None:
    assert len([each for each in COMMANDS if each.whole]) > 60
    assert "fit" in {each.words[0] for each in COMMANDS if each.page == "README.md" and each.whole}


# Python.


@cache
def runs_elsewhere(page: Path) -> bool:
    """Whether a test of its own takes the page apart: it then names the page, and runs its Python."""
    others = [path for path in (ROOT / "tests").rglob("test_*.py") if path.name != Path(__file__).name]
    return page.name != "README.md" and any(f'"{page.name}"' in path.read_text() for path in others)


@pytest.mark.parametrize(
    "page",
    [page for page in pages.PAGES if not runs_elsewhere(page) and pages.python_blocks(page.read_text())],
    ids=pages.name,
)
def test_what_python_calls_of_lspc_exists_and_takes_these_arguments(page: Path) -> None:
    for block, _ in pages.python_blocks(page.read_text()):
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and re.fullmatch(r"lspc(\.\w+)+", path := ast.unparse(node.func)):
                called: Any = lspc
                for part in path.split(".")[1:]:
                    called = getattr(called, part)
                if inspect.isclass(called):
                    continue
                taken = inspect.signature(called).parameters
                if any(each.kind is inspect.Parameter.VAR_KEYWORD for each in taken.values()):
                    continue
                named = {keyword.arg for keyword in node.keywords if keyword.arg}
                assert named <= set(taken), f"{path} takes {list(taken)}"


def test_every_block_of_python_is_run_or_marked() -> None:
    for page in pages.PAGES:
        blocks = [block for block, fragment in pages.python_blocks(page.read_text()) if not fragment]
        known = pages.name(page) in PREPARE or runs_elsewhere(page)
        assert not blocks or known, f"{page}: say in this file how its Python is run, or mark fragments"


def log_of_a_tank(folder: Path) -> None:
    """logs.csv, with columns that need no mapping but for the cost."""
    sys.path.insert(0, str(ROOT / "examples"))
    try:
        from heated_tank import HeatedTank
    finally:
        sys.path.remove(str(ROOT / "examples"))
        sys.modules.pop("heated_tank", None)
    rng, tank = np.random.default_rng(0), HeatedTank()
    with (folder / "logs.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["episode", "step", "obs_temperature", "obs_inflow", "action_valve", "reward"])
        for episode in range(24):
            observation, _ = tank.reset(seed=episode)
            for step in range(60):
                valve = float(rng.uniform(0, 100) if episode % 2 else 40)
                writer.writerow([episode, step, *observation.tolist(), valve, float(observation[0]) / 100])
                observation, *_ = tank.step(np.array([valve], np.float32))


def small_calibration(run: Path, dataset: Dataset) -> Any:
    return calibrate_policy(load_policy(run), dataset, dynamics_config=SMALL_DYNAMICS, fitted_q_config=SMALL_FITTED_Q)


def prepare_readme(folder: Path, _: Dataset) -> tuple[dict[str, str], dict[str, Any]]:
    log_of_a_tank(folder)
    # The budget of 60 is all that an episode of 60 steps can cost, so that networks which know nothing fit it too.
    changes = {'preset="cpu"': SMALL, "lspc.calibrate": "calibrate", "(10)": "(60)"}
    names = {"calibrate": small_calibration, "observation": np.array([50.0, 15.0]), "spent": 2.0, "step": 20}
    return changes, names


def prepare_run(folder: Path, dataset: Dataset) -> tuple[dict[str, str], dict[str, Any]]:
    """A calibrated run with a certificate, and a plant that costs something now and then."""
    save(dataset, folder / "plant.hdf5")
    run = finished_run(dataset, folder / "run")
    add_calibration(run, dataset)
    lspc.export(run, folder / "policy.onnx")
    policy = layout.find_policy(run)
    claim = Claim(10.0, 50.0, "stated with --bound", 0.9, "betting")
    stage = Stage(0.02, (0.0,) * 40, (1.0,) * 40, True, 0.01, 6.0, False, None)
    proof = Certificate(claim, 0.02, (stage,), (), "simulator", (), 0, "f", certificate.hash_weights(policy), "0", "")
    certificate.save(policy, proof)
    seen = dataset.observations[0]
    changes = {"lspc.calibrate(": "calibrate(", "for_budget(10)": "for_budget(12)", "budget=10)": "budget=12)"}
    names = {
        "observation": seen, "episode_length": 5, "plant": lambda action: (seen, 1.0),
        "calibrate": lambda run, dataset: lspc.api.calibration.load(policy),
    }  # fmt: skip
    return changes, names


def prepare_arrays(folder: Path, dataset: Dataset) -> tuple[dict[str, str], dict[str, Any]]:
    parts = {"o": "observations", "a": "actions", "r": "rewards", "c": "costs", "o2": "next_observations",
             "end": "terminated", "late": "truncated"}  # fmt: skip
    # A task of the data's own sizes, and networks that take no time.
    changes = {"CarGoal1": "BallRun", 'algo="cpq"': 'algo="bc", steps=10, batch_size=32, hidden=(8,)'}
    return changes, {short: getattr(dataset, name) for short, name in parts.items()}


Prepare = Callable[[Path, Dataset], tuple[dict[str, str], dict[str, Any]]]


def prepare_world(_: Path, __: Dataset) -> tuple[dict[str, str], dict[str, Any]]:
    return {"CarGoal1": "BallCircle"}, {"action": np.zeros(2)}


PREPARE: dict[str, Prepare] = {
    "README.md": prepare_readme,
    "docs/calibration.md": prepare_run,
    "docs/data.md": prepare_arrays,
    "docs/deploy.md": prepare_run,
    "docs/simulators.md": prepare_world,
}
"""Page -> what to change in its blocks so that they take no time, and the names they find."""
LAST = {"docs/data.md": "dataset", "docs/deploy.md": "alarm", "docs/simulators.md": "picture"}
"""What a page's Python has made in the end, unless it is an action."""


@pytest.mark.slow
@pytest.mark.usefixtures("unlimited_reach")
@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.simulator] * (page == "docs/simulators.md")) for page in PREPARE]
)
def test_the_python_of_a_page_runs(
    page: str, tmp_path: Path, dataset: Dataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes, names = PREPARE[page](tmp_path, dataset)
    monkeypatch.chdir(tmp_path)
    for block, fragment in pages.python_blocks((ROOT / page).read_text()):
        if not fragment:
            for old, new in changes.items():
                block = block.replace(old, new)
            exec(compile(block, page, "exec"), names)
    assert names[LAST.get(page, "action")] is not None


# The site.


def test_every_link_of_readme_leads_to_a_file_and_a_heading() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", (ROOT / "README.md").read_text()):
        path, _, heading = target.partition("#")
        text = (ROOT / path).read_bytes()
        if heading:
            titles = re.findall(r"^#+ (.+)$", text.decode(), re.MULTILINE)
            assert heading in {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}, target


@pytest.mark.process  # it looks for git
def test_the_site_builds_strictly_with_fonts_of_the_reader_s_own(tmp_path: Path) -> None:
    from mkdocs.commands.build import build
    from mkdocs.config import load_config

    config = load_config(str(ROOT / "mkdocs.yml"), site_dir=str(tmp_path), strict=True)
    config.plugins.on_startup(command="build", dirty=False)
    build(config)
    start = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert "fonts.googleapis" not in start
    assert "lspc.api.train" in (tmp_path / "api.html").read_text(encoding="utf-8")
    assert (tmp_path / "figures" / "two-policies.webp").exists()
