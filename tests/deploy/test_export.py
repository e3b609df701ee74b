"""From a run to the files that leave it: what they hold, what they say, and when nothing is written."""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from helpers.calibrated import add_calibration, finished_run, observations, with_tails
from helpers.exported import FEED_FORWARD, leave_run, open_session
from helpers.made_runs import make_record

import lspc.deploy
from lspc import algos, files, training
from lspc.data import Dataset
from lspc.deploy.export import export
from lspc.errors import UserError
from lspc.policy import load_policy
from lspc.runs import Record, Run, layout, record
from lspc.version import __version__


@pytest.fixture(scope="module")
def trained(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_run(dataset, tmp_path_factory.mktemp("runs") / "tiny")


@pytest.fixture
def run(trained: Path, dataset: Dataset, tmp_path: Path) -> Path:
    """The run with a calibration that takes eps 0.5 for a budget of 12; a copy, since tests add to it."""
    copy = Path(shutil.copytree(trained, tmp_path / "run"))
    add_calibration(copy, dataset)
    return copy


def actions(path: Path, seen: np.ndarray, **inputs: Any) -> np.ndarray:
    return np.asarray(open_session(path).run(["action"], {"observation": seen, **inputs})[0])


def facts(path: Path) -> dict[str, str]:
    return {fact.key: fact.value for fact in onnx.load(path).metadata_props}


def episode(cost: float, seed: int = 1_000_000, **more: Any) -> Record:
    return make_record(10 * cost, cost, seed=seed, **{"restriction": 0.5, **more})


def test_without_a_budget_eps_is_an_input(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    model, card = export(run, tmp_path / "new" / "policy.onnx")
    assert (model, card) == (tmp_path / "new" / "policy.onnx", tmp_path / "new" / "policy.md")
    assert sorted(path.name for path in model.parent.iterdir()) == ["policy.md", "policy.onnx"]
    seen, policy = observations(100, dataset), load_policy(run)
    np.testing.assert_allclose(actions(model, seen), policy.act(seen), atol=1e-5)
    for eps in (0.02, 2.0):
        told = actions(model, seen, eps=np.array([eps], np.float32))
        np.testing.assert_allclose(told, policy.at(eps).act(seen), atol=1e-5)
    described = facts(model)
    assert described["lspc_version"] == __version__
    assert described["task"] == "BallRun"
    assert described["dataset"] == dataset.fingerprint
    assert described["training_seed"] == "0"
    assert described["config"] == files.content_hash(Run.open(run).config)
    assert (described["eps"], described["eps_range"]) == ("1", "[0.02, 2.0]")
    assert (described["method"], described["policy"]) == ("lspc", "LSPC-O")
    assert "budget" not in described


def test_with_a_budget_its_eps_is_inside(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    model, _ = export(run, tmp_path / "policy.onnx", budget=12)
    seen = observations(100, dataset)
    np.testing.assert_allclose(actions(model, seen), load_policy(run).act(seen, budget=12), atol=1e-5)
    np.testing.assert_allclose(actions(model, seen), load_policy(run, restriction=0.5).act(seen), atol=1e-5)
    assert (facts(model)["eps"], facts(model)["budget"]) == ("0.5", "12")
    with pytest.raises(Exception, match="Invalid input name: eps"):
        actions(model, seen, eps=np.array([2.0], np.float32))


@pytest.mark.slow
def test_the_seed_that_was_asked_for(dataset: Dataset, tmp_path: Path) -> None:
    config = algos.get("lspc").Config(steps=2, batch_size=32, hidden=(8, 8), latent_dim=4)
    run = training.train(dataset, tmp_path / "run", config, seeds=(3, 12))
    seen = observations(20, dataset)
    for seed in (3, 12):
        model, card = export(run, tmp_path / "policy.onnx", seed=seed)  # the second replaces the first
        np.testing.assert_allclose(actions(model, seen), load_policy(run, seed=seed).act(seen), atol=1e-5)
        assert facts(model)["training_seed"] == str(seed)
        assert f"seed {seed}" in card.read_text()
        assert facts(model)["task"] == ""
    assert "# LSPC policy for logged data" in card.read_text()


def test_the_card_of_a_budget(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    card = export(run, tmp_path / "mine.onnx", budget=12)[1].read_text()
    head, _, body = card.removeprefix("---\n").partition("\n---\n")
    assert "library_name: lspc" in head
    assert "pipeline_tag: reinforcement-learning" in head
    assert "- BallRun" in head
    assert "# LSPC policy for BallRun" in body
    assert "for a mean cost of at most 12 per episode, estimated from logs (eps 0.5, fixed in the file)" in body
    assert "| cost | 6 | at most 12 | not measured |" in body
    assert "| reward | 50 | 45 to 55 | not measured |" in body
    assert "20 logged episodes, 1,000 steps" in body
    assert dataset.fingerprint[:16] in body
    assert "It has not been tried in a simulator" in body
    assert '"mine.onnx"' in body
    assert "eps" not in body.partition("```python")[2].partition("```")[0]


def test_a_risk_fixes_another_eps_and_the_card_says_so(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    add_calibration(run, dataset, curve=with_tails())
    model, card = export(run, tmp_path / "policy.onnx", budget=12, risk=0.05)
    assert (facts(model)["eps"], facts(model)["budget"], facts(model)["risk"]) == ("0.02", "12", "0.05")
    told = card.read_text()
    assert "for at most 5% of episodes that cost more than 12, estimated from logs (eps 0.02, fixed" in told
    assert "| cost that 5% of episodes exceed | | at most 9 | |" in told
    assert "in all but 5% of episodes" in told
    assert "on average over episodes" not in told
    assert "risk" not in facts(export(run, tmp_path / "mean.onnx", budget=12)[0])
    with pytest.raises(UserError, match="--risk is the chance of exceeding a budget: add --budget"):
        export(run, tmp_path / "none.onnx", risk=0.05)
    assert not (tmp_path / "none.onnx").exists()


def test_the_card_knows_what_was_measured_at_its_eps(run: Path, tmp_path: Path) -> None:
    other = [
        episode(99, restriction=1.0), episode(99, mode="sampled"), episode(99, policy="LSPC-S"),
        episode(99, task="CarRun"), episode(99, training_seed=1), episode(99, guard=12.0),
    ]  # fmt: skip
    own = [episode(5, 1_000_000, guard=None), episode(14, 1_000_001)]
    record.write(run / layout.VERIFICATION, [*other, *own])
    record.write(run / layout.EVALUATIONS, [episode(5, 1_000_000), episode(8, 1_000_002)])
    card = export(run, tmp_path / "policy.onnx", budget=12)[1].read_text()
    assert "| cost | 6 | at most 12 | 9 |" in card
    assert "| reward | 50 | 45 to 55 | 90 |" in card
    assert "over 3 episodes, 33% of them over budget" in card  # the episode that both files hold counts once
    assert "not been tried" not in card


def test_the_card_without_a_budget_shows_the_curve_and_the_range(run: Path, tmp_path: Path) -> None:
    record.write(run / layout.EVALUATIONS, [episode(3, restriction=None), episode(99, restriction=0.5)])
    card = export(run, tmp_path / "policy.onnx")[1].read_text()
    assert "with eps, the restriction, as an input" in card
    assert "| 0.02 | 3 | 6 |" in card
    assert "| 2 | 30 | 60 |" in card
    assert "over 1 episodes at eps 1: cost 3, reward 30" in card
    assert "trained for eps from 0.02 to 2" in card
    assert '"eps": np.array([1], np.float32)' in card


def test_the_card_says_that_the_models_know_nothing_in_place_of_what_they_predict(
    run: Path, dataset: Dataset, tmp_path: Path
) -> None:
    add_calibration(run, dataset, doubt="the models know nothing")
    card = export(run, tmp_path / "policy.onnx")[1].read_text()
    assert "Not estimated: the models know nothing." in card
    assert "| 0.02 | 3 |" not in card


def test_the_card_of_a_run_nobody_calibrated_or_measured(trained: Path, tmp_path: Path) -> None:
    card = export(trained, tmp_path / "policy.onnx")[1].read_text()
    assert "Neither predicted (`lspc calibrate`) nor measured" in card
    assert "No calibration was made" in card
    assert "\n\n\n" not in card


def test_the_example_of_the_card_runs(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for budget in (None, 12.0):
        card = export(run, Path("policy.onnx"), budget=budget)[1].read_text()
        found: dict[str, Any] = {}
        exec(card.partition("```python\n")[2].partition("```")[0], found)
        silent = load_policy(run) if budget is None else load_policy(run, restriction=0.5)
        np.testing.assert_allclose(found["action"][0], silent.act(np.zeros(7)), atol=1e-5)


@pytest.mark.parametrize(
    ("budget", "told"),
    [(5.0, "no eps fits"), (2.0, "the data cannot tell"), (-1.0, "0 or more"), (float("nan"), "0 or more")],
)
def test_a_budget_without_an_eps_is_refused(run: Path, tmp_path: Path, budget: float, told: str) -> None:
    with pytest.raises(UserError, match=told):
        export(run, tmp_path / "policy.onnx", budget=budget)
    assert not list(tmp_path.glob("policy*"))


def test_a_budget_needs_a_calibration(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="has no calibration: run `lspc calibrate`"):
        export(trained, tmp_path / "policy.onnx", budget=12)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", FEED_FORWARD)
def test_every_feed_forward_method_is_exported(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    monkeypatch.chdir(tmp_path)
    run = leave_run(tmp_path / "run", method, dataset, "BallRun")
    model, card = export(run, Path("policy.onnx"))
    seen, policy = observations(50, dataset), load_policy(run)
    np.testing.assert_allclose(actions(model, seen), policy.act(seen), atol=1e-5)
    assert facts(model)["method"] == method
    found: dict[str, Any] = {}
    exec(card.read_text().partition("```python\n")[2].partition("```")[0], found)
    np.testing.assert_allclose(found["action"][0], policy.act(np.zeros(7)), atol=1e-5)


def test_the_card_says_the_method_and_its_budget(dataset: Dataset, tmp_path: Path) -> None:
    run = leave_run(tmp_path / "cpq", "cpq", dataset, "BallRun", budget=12.5)
    model, path = export(run, tmp_path / "policy.onnx")
    card = path.read_text()
    assert "# CPQ policy for BallRun" in card
    assert "by `cpq` (CPQ: unknown actions count as costly" in card
    assert "with a budget of 12.5, the cost that an episode may have." in card
    assert "Not measured (`lspc evaluate`) yet." in card
    assert "kept on average over episodes" in card
    assert not {"eps", "safe_action", "judge", "calibrate"} & set(re.findall(r"\w+", card))  # LSPC's own
    assert (facts(model)["policy"], facts(model)["budget"]) == ("CPQ", "12.5")
    assert "eps" not in facts(model)


def test_the_card_of_bc_with_and_without_a_budget(dataset: Dataset, tmp_path: Path) -> None:
    known = {"policy": "BC-Safe (20)", "restriction": None}
    run = leave_run(tmp_path / "safe", "bc", dataset, "BallRun", budget=20.0)
    record.write(run / layout.EVALUATIONS, [episode(10, 1, **known), episode(30, 2, **known), episode(99, 3)])
    card = export(run, tmp_path / "policy.onnx")[1].read_text()
    assert "# BC-Safe (20) policy for BallRun" in card
    assert "over 2 episodes: cost 20, reward 200, 50% of them over budget." in card
    assert "not been tried" not in card
    plain = leave_run(tmp_path / "plain", "bc", dataset, budget=None)
    model, path = export(plain, tmp_path / "policy.onnx")
    card = path.read_text()
    assert "# BC policy for logged data" in card
    assert "with no budget in mind." in card
    assert "- It was trained for no budget" in card
    assert "budget" not in facts(model)


def test_the_converse_is_exported_without_a_safe_action(dataset: Dataset, tmp_path: Path) -> None:
    run = leave_run(tmp_path / "run", "lspc", dataset, "BallRun", roles="converse")
    model, path = export(run, tmp_path / "policy.onnx")
    seen = observations(50, dataset)
    told = actions(model, seen, eps=np.array([0.5], np.float32))
    np.testing.assert_allclose(told, load_policy(run, restriction=0.5).act(seen), atol=1e-5)
    card = path.read_text()
    assert "# converse LSPC-O policy for BallRun" in card
    assert "with eps, the restriction, as an input" in card
    assert "`cost` and `reward`" in card
    assert "safe_action" not in card


def test_what_cannot_be_exported_is_refused(dataset: Dataset, tmp_path: Path) -> None:
    sequence = leave_run(tmp_path / "cdt", "cdt", dataset)
    with pytest.raises(UserError, match="a policy of cdt remembers its episode; only those that act on the obs"):
        export(sequence, tmp_path / "policy.onnx")
    for method, settings in (("bc", {}), ("cpq", {}), ("fisor", {}), ("lspc", {"roles": "converse"})):
        other = leave_run(tmp_path / method, method, dataset, **settings)
        with pytest.raises(UserError, match=f"a policy of {method} has none to fix; export it without one"):
            export(other, tmp_path / "policy.onnx", budget=10)
    with pytest.raises(UserError, match="is it the folder of a run"):
        export(tmp_path / "nowhere", tmp_path / "policy.onnx")
    assert not list(tmp_path.glob("policy*"))


def test_another_file_name_is_refused(trained: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"policy\.pt: name a file that ends in \.onnx"):
        export(trained, tmp_path / "policy.pt")
    assert not list(tmp_path.iterdir())


def test_a_failed_export_leaves_the_old_file_alone(
    trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export(trained, tmp_path / "policy.onnx")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}

    def full(path: Path, data: bytes) -> None:
        with path.open("wb") as file:
            file.write(data[: len(data) // 2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OSError, match="no space left"):
        export(trained, tmp_path / "policy.onnx")
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_without_onnx_the_extra_is_named(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(lspc.deploy, "onnx_policies", raising=False)
    monkeypatch.setitem(sys.modules, "lspc.deploy.onnx_policies", None)
    with pytest.raises(UserError, match=r"onnx is not installed: pip install 'lspc\[deploy\]'"):
        export(trained, tmp_path / "policy.onnx")
