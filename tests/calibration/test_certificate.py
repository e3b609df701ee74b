"""A run's certificate: from logs and from the simulator, what it carries, and what is refused."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.calibrated import add_calibration, finished_run, with_tails
from helpers.data import small_dataset

from lspc import algos, files, training
from lspc.calibration import certificate
from lspc.calibration.certificate import hash_weights, load, run_pilot
from lspc.calibration.choosing import Choice
from lspc.data import Dataset
from lspc.deploy.export import export
from lspc.errors import UserError
from lspc.fitting import Fitted
from lspc.policy import load_policy
from lspc.report import gather
from lspc.runs import Run
from lspc.runs.layout import certificate_path
from lspc.version import __version__

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Episodes of the data have 50 steps, each of which costs 1 at most."""
    return finished_run(dataset, tmp_path_factory.mktemp("runs") / "tiny")


def recorded(
    run: Path, dataset: Dataset, eps: float, cost: float, reward: float = 1.0, episodes: int = 20
) -> Dataset:
    """Whole episodes with the policy's own actions, of which each costs as much."""
    log = dataset.select(range(episodes))
    costs = np.full(log.transitions, cost / 50, np.float32)
    actions = load_policy(run, restriction=eps).act(log.observations)
    return replace(log, actions=actions, costs=costs, rewards=np.full(log.transitions, reward / 50, np.float32))


@pytest.fixture(scope="module")
def logs(run: Path, dataset: Dataset) -> dict[float, Dataset]:
    """Four eps, of which the third costs too much; the first earns most."""
    made = {0.2: (1.0, 30.0), 0.5: (2.0, 20.0), 1.0: (30.0, 90.0), 1.5: (0.0, 99.0)}
    return {eps: recorded(run, dataset, eps, cost, reward) for eps, (cost, reward) in made.items()}


def test_logs_become_a_certificate_beside_the_policy(run: Path, dataset: Dataset, logs: dict[float, Dataset]) -> None:
    found, path = run_pilot(run, 10.0, logs=logs, command="lspc pilot somewhere")
    assert [(stage.restriction, stage.passed) for stage in found.stages] == [(0.2, True), (0.5, True), (1.0, False)]
    assert found.restriction == 0.2  # both passed, and it earned more
    assert found.untested == (1.5,)
    assert (found.claim.bound, found.claim.confidence) == (50.0, 0.9)
    assert found.claim.bound_from == "50 steps times 1, the largest cost of a step in the data"
    assert found.episodes == 20
    assert found.notes == ()
    folder = run / "policy" / "seed-0"
    assert path == folder / "certificate-10.json"
    written = files.read_json(path)
    assert written["dataset"] == dataset.fingerprint
    assert written["weights"] == hash_weights(folder)
    assert (written["lspc_version"], written["command"]) == (__version__, "lspc pilot somewhere")
    assert written["stages"][1]["costs"] == pytest.approx([2.0] * 20)
    assert written["claim"] == {
        "budget": 10.0, "bound": 50.0, "bound_from": found.claim.bound_from, "confidence": 0.9, "test": "betting",
    }  # fmt: skip
    assert "certificate from 20 real episodes at 90%: LSPC-O at eps 0.2 costs at most 10" in written["words"][-1]
    assert "not tried, because a smaller eps failed: 1.5" in written["words"]
    assert load(folder, 10) == found
    [shown] = gather.read_certificates(Run.open(run))
    assert shown["words"] == written["words"]


def test_a_budget_takes_the_certified_eps_before_the_calibrations(
    run: Path, dataset: Dataset, tmp_path: Path
) -> None:
    """The calibration made by hand would take eps 0.5 for a budget of 12."""
    own = Path(shutil.copytree(run, tmp_path / "own"))
    add_calibration(own, dataset)
    seen = dataset.observations[:5]
    at = {eps: load_policy(own, restriction=eps).act(seen) for eps in (0.2, 0.5)}
    run_pilot(own, 12.0, logs={0.2: recorded(own, dataset, 0.2, 1.0)})
    policy = load_policy(own)
    assert (policy.certified(12.0), policy.certified(13.0)) == (0.2, None)
    np.testing.assert_array_equal(policy.act(seen, budget=12.0), at[0.2])
    card = export(own, tmp_path / "policy.onnx", budget=12.0)[1].read_text()
    assert "a mean cost of at most 12 per episode, certified by a pilot with real episodes (eps 0.2, fixed in" in card
    assert "Certificate from real episodes" in card


def test_the_card_of_a_certified_eps_tells_no_estimate_that_is_doubted(
    run: Path, dataset: Dataset, tmp_path: Path
) -> None:
    """Real episodes prove what the models could not tell: the calibration knows this eps, and doubts itself."""
    own = Path(shutil.copytree(run, tmp_path / "own"))
    run_pilot(own, 12.0, logs={0.02: recorded(own, dataset, 0.02, 1.0)})
    for doubt in ("", "the models know nothing"):
        add_calibration(own, dataset, doubt=doubt)
        card = export(own, tmp_path / "policy.onnx", budget=12.0)[1].read_text()
        assert ("| cost | 3 | at most 6 |" in card) == (not doubt)
        assert ("Not estimated: the models know nothing." in card) == bool(doubt)
        assert "Certificate from real episodes" in card


def test_a_certificate_of_the_mean_does_not_speak_of_a_risk(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    """But an eps whose mean was proved too costly is refused with a risk too."""
    own = Path(shutil.copytree(run, tmp_path / "own"))
    add_calibration(own, dataset, curve=with_tails())
    run_pilot(own, 12.0, logs={0.2: recorded(own, dataset, 0.2, 1.0)})
    assert [load_policy(own).choose(12.0, risk).restriction for risk in (None, 0.05)] == [0.2, 0.02]
    run_pilot(own, 12.0, logs={0.02: recorded(own, dataset, 0.02, 30.0)})
    with pytest.raises(UserError, match=r"budget 12: the logs suggest eps 0\.02, but a pilot found eps 0\.02"):
        load_policy(own).for_budget(12.0, 0.05)


@pytest.mark.parametrize("eps", [0.2, 0.5])
def test_an_eps_that_a_pilot_refuted_is_used_for_its_budget_by_nobody(
    run: Path, dataset: Dataset, tmp_path: Path, eps: float
) -> None:
    """Nor is a larger one: the calibration's 0.5 falls with 0.2."""
    own = Path(shutil.copytree(run, tmp_path / "own"))
    add_calibration(own, dataset)
    run_pilot(own, 12.0, logs={eps: recorded(own, dataset, eps, 30.0)})
    policy = load_policy(own)
    assert policy.certified(12.0) is None
    told = rf"^budget 12: the logs suggest eps 0\.5, but a pilot found eps {eps:g}: mean cost 30 in \d+ real episodes"
    asked: list[Callable[[], Any]] = [
        lambda: policy.for_budget(12.0),
        lambda: policy.act(dataset.observations[0], budget=12.0),
        lambda: policy.act(dataset.observations[0], budget=12.0, budget_left=5.0, steps_left=5),
        lambda: export(own, tmp_path / "policy.onnx", budget=12.0),
        lambda: Fitted(own, policy, policy.choose(12.0)).predict(dataset.observations[0]),
    ]
    for ask in asked:
        with pytest.raises(UserError, match=told) as refused:
            ask()
        assert "\n" not in str(refused.value)
    assert not list(tmp_path.glob("policy*"))
    assert policy.choose(20.0).restriction == 1.0  # of other budgets it says nothing


@pytest.mark.parametrize(("eps", "cost"), [(1.0, 30.0), (0.2, 10.0)])
def test_a_smaller_eps_than_the_refuted_stands_and_what_is_not_proved_refutes_nothing(
    run: Path, dataset: Dataset, tmp_path: Path, eps: float, cost: float
) -> None:
    own = Path(shutil.copytree(run, tmp_path / "own"))
    add_calibration(own, dataset)
    found, _ = run_pilot(own, 12.0, logs={eps: recorded(own, dataset, eps, cost)})
    assert (found.restriction, found.too_costly is not None) == (None, eps == 1.0)
    seen = dataset.observations[:5]
    expected = load_policy(own, restriction=0.5).act(seen)
    np.testing.assert_array_equal(load_policy(own).act(seen, budget=12.0), expected)
    card = export(own, tmp_path / "policy.onnx", budget=12.0)[1].read_text()
    assert f"No certificate for this eps: a pilot with real episodes (eps {eps:g}: " in card
    assert f"found eps {eps:g}: mean cost {cost:g} in" in card


def test_when_nothing_passes_it_says_so(run: Path, dataset: Dataset) -> None:
    found, path = run_pilot(run, 12.5, logs={0.5: recorded(run, dataset, 0.5, 30.0)})
    assert (found.restriction, found.episodes) == (None, 0)
    assert found.explain().splitlines()[-1].startswith("no certificate: no eps was proved to cost at most 12.5")
    assert path.name == "certificate-12.5.json"


def test_a_certificate_is_of_these_weights_alone(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    folder = run / "policy" / "seed-0"
    with pytest.raises(UserError, match="has no certificate for budget 7: run `lspc pilot`"):
        load(folder, 7)
    _, path = run_pilot(run, 11.0, logs={0.5: recorded(run, dataset, 0.5, 1.0)})
    other = tmp_path / "other"
    other.mkdir()
    (other / "weights.safetensors").write_bytes(b"others")
    (other / path.name).write_bytes(path.read_bytes())
    with pytest.raises(UserError, match="is for other weights"):
        load(other, 11)
    values = files.read_json(path)
    wrong = {**values, "stages": [{**values["stages"][0], "passed": "yes"}]}
    files.write_json(other / path.name, files.seal(wrong))
    with pytest.raises(UserError, match=r"stages\[0\].passed must be true or false"):
        load(other, 11)


def test_a_certificate_is_of_its_budget_alone(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    own = Path(shutil.copytree(run, tmp_path / "own"))
    _, path = run_pilot(own, 12.0, logs={0.5: recorded(own, dataset, 0.5, 1.0)})
    copied = path.with_name("certificate-3.json")
    shutil.copy(path, copied)
    told = r"certificate-3\.json is for budget 12, not 3: delete it, or run `lspc pilot` for 3"
    policy = load_policy(own)
    asked: list[Callable[[], Any]] = [
        lambda: load(path.parent, 3),
        lambda: policy.for_budget(3.0),
        lambda: policy.act(dataset.observations[0], budget=3.0),
        lambda: export(own, tmp_path / "policy.onnx", budget=3.0),
        lambda: Fitted(own, policy, Choice(3.0, 0.5, None, None, "")).certificate,
    ]
    for ask in asked:
        with pytest.raises(UserError, match=told):
            ask()
    assert policy.certified(12.0) == 0.5
    shown = [each["budget"] for each in gather.read_certificates(Run.open(own))]
    assert shown.count(12.0) == 1


def test_the_report_leaves_out_certificates_of_other_weights(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    own = Path(shutil.copytree(run, tmp_path / "own"))
    found, path = run_pilot(own, 14.0, logs={0.5: recorded(own, dataset, 0.5, 1.0)})
    shown = [each["budget"] for each in gather.read_certificates(Run.open(own))]
    assert 14.0 in shown
    certificate.save(path.parent, replace(found, weights="f" * 64))
    assert [each["budget"] for each in gather.read_certificates(Run.open(own))] == [
        budget for budget in shown if budget != 14.0
    ]


def test_a_stated_bound_counts_and_an_episode_beyond_it_is_an_error(run: Path, dataset: Dataset) -> None:
    cheap = {0.5: recorded(run, dataset, 0.5, 2.0)}
    assert run_pilot(run, 4.0, logs=cheap)[0].restriction is None
    stated, _ = run_pilot(run, 4.0, logs=cheap, bound=8.0)
    assert (stated.restriction, stated.claim.bound_from) == (0.5, "stated with --bound")
    with pytest.raises(UserError, match=r"cost 2, but the largest cost of an episode is said to be 1.5"):
        run_pilot(run, 1.0, logs=cheap, bound=1.5)


def test_actions_that_are_not_the_policys_are_mentioned(run: Path, dataset: Dataset) -> None:
    log = recorded(run, dataset, 0.5, 1.0)
    found, _ = run_pilot(run, 10.0, logs={0.5: replace(log, actions=log.actions[::-1] * 0 + 1)})
    assert "its actions differ from the policy's at eps 0.5 by" in found.notes[0]
    assert found.notes[0] in found.explain().splitlines()
    with pytest.raises(UserError, match="of sizes 3 and 2; the policy's are 7 and 2"):
        run_pilot(run, 10.0, logs={0.5: replace(
            log, observations=log.observations[:, :3], next_observations=log.next_observations[:, :3]
        )})  # fmt: skip


def test_episodes_that_were_all_cut_alike_prove_nothing(run: Path, dataset: Dataset) -> None:
    """Each would go on to cost more: the policy's episodes have 50 steps."""
    log = recorded(run, dataset, 0.5, 1.0)
    first = np.arange(log.transitions) % 50 < 5
    last = np.arange(log.transitions) % 50 == 4
    short = {
        name: getattr(log, name)[first]
        for name in ("observations", "actions", "rewards", "costs", "next_observations")
    }
    ends = {"terminated": np.zeros(first.sum(), bool), "truncated": last[first]}
    with pytest.raises(UserError, match=r"20 of 20 episodes were cut before the 50 steps of a whole one"):
        run_pilot(run, 13.0, logs={0.5: replace(log, **short, **ends)})
    assert not certificate_path(run / "policy" / "seed-0", 13.0).exists()
    whole = replace(log, **short, terminated=last[first], truncated=np.zeros(first.sum(), bool))
    assert run_pilot(run, 13.0, logs={0.5: whole})[0].restriction == 0.5


def test_which_eps_are_proposed(run: Path, dataset: Dataset) -> None:
    """With a calibration: the least, the chosen one and one between; without: some of all.

    Its episodes cost 0 to 49, with a 95 % quantile of 46.55: for a budget of 3 it chooses none, and the eps for 1.5
    is 0.02 + 1.98 cbrt(1.5 / 46.55).
    """
    policy = load_policy(run)
    assert certificate._propose(policy, 12.0) == [0.02, 0.515, 1.01, 1.505, 2.0]
    add_calibration(run, dataset)
    assert certificate._propose(policy, 12.0) == [0.02, 0.26, 0.5]
    assert certificate._propose(policy, 3.0) == pytest.approx([0.02, 0.335, 0.65], abs=1e-3)


def test_what_cannot_be_piloted_is_refused(run: Path, dataset: Dataset, tmp_path: Path) -> None:
    log = recorded(run, dataset, 0.5, 1.0)
    bc = algos.get("bc").Config(steps=2, batch_size=32, hidden=(8, 8))
    cloned = training.train(dataset, tmp_path / "bc", bc, method="bc")
    nowhere = training.train(small_dataset(seed=1), tmp_path / "own", algos.get("lspc").Config(
        steps=2, batch_size=32, hidden=(8, 8), latent_dim=4
    ))  # fmt: skip
    refused: list[tuple[Path, float, dict[str, Any], str]] = [
        (cloned, 10.0, {"logs": {0.5: log}}, "a pilot tries LSPC-O"),
        (nowhere, 10.0, {}, "was not trained for a task: add --on TASK, or --log EPS=FILE"),
        (run, 10.0, {"logs": {0.5: log}, "task": "BallRun"}, "give one of the two"),
        (run, 10.0, {"logs": {7.0: log}}, "trained for every eps from 0.02 to 2, not for 7"),
        (run, 5.0, {"episodes": 20}, "--episodes 20 cannot prove a mean of at most 5 where an episode may cost 100: "
                                     "even 47 episodes without any cost would not; add --episodes 48"),
        (run, 0.0, {"logs": {0.5: log}}, "no number of episodes proves a mean of 0"),
    ]  # fmt: skip
    for place, budget, options, told in refused:
        with pytest.raises(UserError, match=told):
            run_pilot(place, budget, **options)


@pytest.mark.simulator
def test_the_simulators_episodes_are_the_same_again(run: Path) -> None:
    """A bound just above the budget needs few episodes; more of them begin with the same."""
    options: dict[str, Any] = {"restrictions": [0.5, 0.02], "workers": 0, "bound": 120.0}
    found, _ = run_pilot(run, 90.0, episodes=10, **options)
    again, _ = run_pilot(run, 90.0, episodes=20, **options)
    assert found.source == "simulator: BallRun, episode seeds from 2000000"
    assert found.stages[0].restriction == 0.02
    assert len(found.stages[0].costs) == 10
    assert again.stages[0].costs[:10] == found.stages[0].costs
