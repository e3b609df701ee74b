"""Rows become transitions: order, ends, next observations, what is missing; expected numbers are worked by hand."""

from typing import Any

import numpy as np
import pytest
from helpers.tables import BATCHES, COLUMNS, COST, STEPS, plant_log

import lspc
from lspc.data import Dataset, load
from lspc.errors import UserError


def opened(log: Any, **changes: Any) -> Dataset:
    arguments: dict[str, Any] = {"columns": COLUMNS, "cost": COST, **changes}
    return load(log, **arguments)


def refused(log: Any, **changes: Any) -> str:
    with pytest.raises(UserError) as error:
        opened(log, **changes)
    return str(error.value)


def test_next_observations_are_the_next_rows() -> None:
    log, dataset = plant_log(), opened(plant_log())
    temperatures = np.stack([log["temp_a"], log["temp_b"]], 1).reshape(BATCHES, STEPS, 2).astype(np.float32)
    assert dataset.observations.tolist() == temperatures[:, :-1].reshape(-1, 2).tolist()
    assert dataset.next_observations.tolist() == temperatures[:, 1:].reshape(-1, 2).tolist()
    assert dataset.lengths.tolist() == [STEPS - 1] * BATCHES
    assert dataset.truncated.sum() == BATCHES
    assert not dataset.terminated.any()
    assert dataset.costs.tolist() == (temperatures[:, :-1, 0].ravel() > 80).tolist()
    assert any("the last row of each episode has none, so 4 row(s) were dropped" in line for line in dataset.warnings)


def test_actions_stay_as_they_are() -> None:
    dataset = opened(plant_log())
    assert dataset.actions.max() > 90
    assert not any("clipped" in line for line in dataset.warnings)


def test_an_episode_that_is_done_keeps_its_last_row() -> None:
    log = plant_log()
    log["end"] = np.arange(len(log["t"])) == STEPS - 1
    dataset = opened(log, columns={**COLUMNS, "done": "end"})
    assert dataset.lengths.tolist() == [STEPS, *[STEPS - 1] * (BATCHES - 1)]
    assert np.flatnonzero(dataset.terminated).tolist() == [STEPS - 1]
    assert dataset.next_observations[STEPS - 1].tolist() == dataset.observations[STEPS - 1].tolist()
    log["end"] = log["t"] == 2
    assert "end is set at row 2, where batch goes on (4 such row(s) in all)" in refused(
        log, columns={**COLUMNS, "done": "end"}
    )


def test_flags_alone_cut_episodes() -> None:
    log = plant_log()
    log["late"] = log["t"] == STEPS - 1
    columns = {"observations": "temp_*", "actions": "valve", "reward": "yield", "timeout": "late"}
    assert opened(log, columns=columns).fingerprint == opened(plant_log()).fingerprint
    log["late"][-1] = False
    assert len(opened(log, columns=columns).episodes) == BATCHES - 1
    log["late"][:] = False
    assert "no episode ends" in refused(log, columns=columns)


@pytest.mark.parametrize("seed", range(3))
def test_shuffled_rows_are_sorted(seed: int) -> None:
    order = np.random.default_rng(seed).permutation(BATCHES * STEPS)
    dataset = opened({name: column[order] for name, column in plant_log().items()})
    assert dataset.fingerprint == opened(plant_log()).fingerprint
    assert any("rows were sorted by batch and t" in line for line in dataset.warnings)


def test_times_order_steps() -> None:
    log = plant_log()
    log["t"] = np.datetime64("2024-01-01T08:00") + log["t"] * np.timedelta64(5, "m")
    assert opened(log).fingerprint == opened(plant_log()).fingerprint
    assert "t is a time (datetime64[m]): use it as step=t" in refused(
        log, columns={**COLUMNS, "observations": "temp_*,t"}
    )


def test_without_a_step_an_episode_must_stand_in_one_piece() -> None:
    log = plant_log()
    columns = {role: name for role, name in COLUMNS.items() if role != "step"}
    assert opened(log, columns=columns).fingerprint == opened(log).fingerprint
    swapped = {name: np.roll(column, 1) for name, column in log.items()}
    assert "episode B3 begins again at row 19; add --columns step=COLUMN" in refused(swapped, columns=columns)


def test_the_same_step_twice_is_refused() -> None:
    log = plant_log()
    log["t"][3] = 2
    assert "row 2 and row 3 are the same t of one episode (1 such pair(s) in all)" in refused(log)


def test_gaps_are_told_and_cut_when_asked() -> None:
    log = {name: np.delete(column, 3) for name, column in plant_log().items()}
    dataset = opened(log)
    assert any(
        "t jumps from 2 to 4 at row 3 (1 such gap(s) in all); --drop-missing" in line for line in dataset.warnings
    )
    assert len(dataset.episodes) == BATCHES
    cut = opened(log, drop_missing=True)
    assert cut.lengths.tolist() == [2, 1, *[STEPS - 1] * (BATCHES - 1)]
    assert any("episodes were cut there" in line for line in cut.warnings)


def test_missing_values_are_refused_or_dropped() -> None:
    log = plant_log()
    log["temp_a"][2] = np.nan
    log["yield"][8] = np.nan
    told = refused(log)
    assert "values are missing: temp_a in 1 row(s), first row 2; yield in 1 row(s), first row 8; fill them in" in told
    dataset = opened(log, drop_missing=True)
    # Row 1 goes too, since what came after it is not known; row 7 stays, since row 8 shows it.
    assert dataset.lengths.tolist() == [1, 2, 2, 2, *[STEPS - 1] * (BATCHES - 2)]
    assert dataset.opened["drop_missing"] is True
    assert any("2 row(s) with missing values left out" in line for line in dataset.warnings)


def test_the_last_row_is_there_for_its_observation_alone() -> None:
    log = plant_log()
    log["valve"][STEPS - 1] = np.nan
    assert opened(log).fingerprint == opened(plant_log()).fingerprint


@pytest.mark.parametrize("column", ["batch", "t"])
def test_a_row_without_its_place_is_refused(column: str) -> None:
    log = plant_log()
    log[column] = log[column].astype(object if column == "batch" else float)
    log[column][4] = None if column == "batch" else np.nan
    assert f"{column} is missing in 1 row(s), first row 4" in refused(log, drop_missing=True)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("temp_b", np.inf, "temp_b is inf at row 7 (1 such value(s) in all)"),
        ("yield", 1e300, "yield is 1e+300, too large for float32, at row 7"),
        ("hurt", -1.0, "hurt is -1 at row 7 (1 negative value(s) in all)"),
    ],
)
def test_bad_values_are_named_by_column_and_row(column: str, value: float, told: str) -> None:
    log = plant_log()
    log["hurt"] = np.ones(len(log["t"]))
    log[column][7] = value
    order = np.random.default_rng(0).permutation(len(log["t"]))
    shuffled = {name: values[order] for name, values in log.items()}
    place = int(np.flatnonzero(order == 7)[0])
    assert told.replace("row 7", f"row {place}") in refused(shuffled, cost="hurt")


@pytest.mark.parametrize(
    ("cost", "told"),
    [
        ("temp_a - 200", "temp_a - 200 is -1"),
        ("1 / (t - t)", "1 / (t - t) is inf at row 0"),
        ("batch > 3", "a cost needs numbers"),
    ],
)
def test_a_bad_cost_expression_is_refused(cost: str, told: str) -> None:
    assert told in refused(plant_log(), cost=cost)


def test_texts_and_other_types_are_named() -> None:
    log: dict[str, Any] = {**plant_log(), "temp_mode": plant_log()["batch"], "temp_list": [{}] * (BATCHES * STEPS)}
    told = refused(log).splitlines()
    assert len(told) == 2
    assert (
        "temp_mode is text, 4 different: 'B0', 'B1', 'B2', ...: observations must be numbers; encode it or" in told[0]
    )
    assert "temp_list has type object, not numbers" in told[1]
    kept = opened(log, columns={**COLUMNS, "observations": "temp_*,!temp_mode,!temp_list"})
    assert kept.fingerprint == opened(plant_log()).fingerprint


def test_booleans_count_and_constants_are_kept() -> None:
    log = plant_log()
    log |= {"temp_c": np.full(len(log["t"]), 7.0), "temp_high": log["temp_a"] > 80}
    dataset = opened(log)
    assert dataset.observations[:, 2].tolist() == [7] * dataset.transitions
    assert set(dataset.observations[:, 3].tolist()) == {0, 1}
    assert any("observations: temp_c never changes; kept" in line for line in dataset.warnings)


def test_a_cost_that_is_never_paid_is_told() -> None:
    assert any(
        "NONE of the" in line and "has a cost above 0" in line
        for line in opened(plant_log(), cost="temp_a > 800").warnings
    )


@pytest.mark.parametrize("values", [[0, 1], [0.0, 1.0], [-1, 0, 1], [True, False], [0, 37.5]])
def test_discrete_actions_are_refused_unless_said_to_be_continuous(values: list[Any]) -> None:
    log = plant_log()
    log["valve"] = np.resize(values, len(log["t"]))
    assert f"actions look discrete: {len(values)} values (" in refused(log)
    assert "in valve, and lspc learns continuous ones" in refused(log)
    assert opened(log, continuous=True).opened["continuous"] is True


def test_whole_numbers_of_many_values_are_no_choices() -> None:
    log = plant_log()
    log["valve"] = np.arange(len(log["t"]))
    assert opened(log).actions.max() > 20


def test_the_repr_tells_what_it_is() -> None:
    assert repr(opened(plant_log())).startswith(
        "Dataset(dict of arrays: 4 episodes, 20 transitions, 2 observations, 1 actions, return "
    )
    assert lspc.Dataset is Dataset
