"""Which column is what: names that say it are taken, what could be meant in two ways never is."""

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.tables import COLUMNS, COST, plant_log

from lspc.data import load, propose_columns, read_table
from lspc.data.tables import parse_columns
from lspc.data.tables.reading import make_table
from lspc.errors import UserError


def conventional(**renamed: str) -> dict[str, Any]:
    """The plant's log under names that are understood; `renamed` is old -> new."""
    log = plant_log()
    log["cost"] = (log["temp_a"] > 80).astype(float)
    names = {
        "batch": "episode",
        "t": "step",
        "temp_a": "obs_0",
        "temp_b": "obs_1",
        "valve": "action",
        "yield": "reward",
    }
    return {{**names, **renamed}.get(name, name): column for name, column in log.items()}


@pytest.mark.parametrize(
    "renamed",
    [
        {},
        {"temp_a": "observations_0", "temp_b": "observations_1", "valve": "actions_0"},
        {"temp_a": "observation_x", "temp_b": "observation_y", "valve": "action_valve", "batch": "episode_id"},
        {"yield": "rewards", "cost": "costs"},
    ],
)
def test_names_that_say_it_need_no_mapping(renamed: dict[str, str]) -> None:
    expected = load(plant_log(), columns=COLUMNS, cost=COST)
    assert load(conventional(**renamed)).fingerprint == expected.fingerprint


def test_numbered_columns_come_in_the_order_of_their_numbers() -> None:
    log = conventional(temp_a="obs_10", temp_b="obs_2")
    assert load(log).opened["columns"]["observations"] == ["obs_2", "obs_10"]


@pytest.mark.parametrize(
    ("second", "of", "told"),
    [
        ("safety_cost", "cost", "cost or safety_cost; say which: --columns cost=cost or --columns cost=safety_cost"),
        ("SafetyCost", "cost", "--columns cost=SafetyCost"),
        ("costs", "cost", "cost could be cost or costs"),
        ("shaped_reward", "reward", "reward could be reward or shaped_reward"),
        ("episode_id", "episode", "episode could be episode or episode_id"),
        ("observations_0", "obs_0", "observations could be observations_* or obs_*"),
        ("actions_0", "action", "actions could be actions_* or action"),
    ],
)  # fmt: skip
def test_two_candidates_are_never_chosen_between(second: str, of: str, told: str) -> None:
    log = conventional()
    log[second] = log[of]
    with pytest.raises(UserError) as refused:
        load(log)
    assert told in str(refused.value).replace("action_*", "action")
    assert len(str(refused.value).splitlines()) == 1


def test_a_mapping_settles_it() -> None:
    log = conventional()
    log["safety_cost"] = log["cost"] * 2
    assert load(log, columns={"cost": "safety_cost"}).costs.max() == 2
    assert load(log, columns={"cost": "cost"}).costs.max() == 1
    assert load(log, cost="safety_cost").costs.max() == 2


def test_a_name_that_is_merely_alike_is_proposed_and_not_taken() -> None:
    with pytest.raises(UserError, match=r"no column is called cost; add --columns cost=safety_cost, or --cost"):
        load(conventional(cost="safety_cost"))


@pytest.mark.parametrize(
    ("columns", "told"),
    [
        ({"observations": "pressure_*"}, "observations: there is no column 'pressure_*'; there are batch, t, temp_a"),
        ({"reward": "profit"}, "reward: there is no column 'profit'"),
        ({"reward": "temp_*"}, "reward takes one column, found temp_a, temp_b"),
        ({"observations": ["temp_*", "!temp_?"]}, "leaves no column"),
        ({"actions": "temp_a"}, "temp_a is among both observations and actions; leave it out of one: '!temp_a'"),
        ({"next_observations": "valve"}, "valve is among both"),
        ({"cost": "temp_c > 3"}, "there is no column 'temp_c'"),
        (
            {"rewards": "yield"},
            "'rewards' is not a role; the roles are observations, actions, next_observations, reward",
        ),
        ({"reward": 3}, "reward must be the name of a column or a list of names, found 3"),
    ],
)
def test_a_wrong_mapping_is_told_in_one_line(columns: dict[str, Any], told: str) -> None:
    with pytest.raises(UserError) as refused:
        load(plant_log(), columns={**COLUMNS, "cost": COST, **columns})
    assert told in str(refused.value)
    assert len(str(refused.value).splitlines()) == 1


def test_nothing_tells_where_an_episode_ends() -> None:
    columns = {role: name for role, name in COLUMNS.items() if role != "episode"}
    with pytest.raises(UserError, match="nothing tells where an episode ends; add --columns episode=COLUMN"):
        load(plant_log(), columns=columns, cost=COST)


def test_words_dicts_and_toml_say_the_same(tmp_path: Path) -> None:
    file = tmp_path / "log.toml"
    file.write_text(
        'observations = ["temp_a", "temp_b"]\nactions = "valve"\nreward = "yield"\nepisode = "batch"\nstep = "t"\n'
    )
    words = ["observations=temp_a,temp_b", "actions=valve", "reward=yield", "episode=batch", "step=t"]
    expected = load(plant_log(), columns=COLUMNS, cost=COST)
    for columns in (words, file, str(file), [str(file)], {**COLUMNS, "observations": ["temp_*"]}):
        assert load(plant_log(), columns=columns, cost=COST).fingerprint == expected.fingerprint
    again = load(plant_log(), **expected.opened)
    assert (again.fingerprint, again.opened) == (expected.fingerprint, expected.opened)
    assert load(plant_log(), columns=[str(file), "observations=temp_b"], cost=COST).observation_dim == 1


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("nowhere.toml", "there is no such file, and it is not of the form ROLE=COLUMN"),
        ("speed=v", "'speed' is not a role"),
        (["cost=a"], "the cost is 'b' and columns say 'a'"),
    ],
)
def test_columns_that_cannot_be_read(given: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        parse_columns(given, "b")


def test_a_damaged_toml_file(tmp_path: Path) -> None:
    (tmp_path / "log.toml").write_text("reward yield")
    with pytest.raises(UserError, match=r"log.toml: not TOML"):
        parse_columns(tmp_path / "log.toml")


def test_a_proposal_opens_the_log(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    log = plant_log()
    log |= {"mode": log["batch"], "shift": log["t"] * 0 + 3, "lab": [None, *[1.5] * (len(log["t"]) - 1)]}
    pyarrow.parquet.write_table(pa.table(dict(log)), tmp_path / "log.parquet")
    text = propose_columns(read_table(tmp_path / "log.parquet"))
    assert '    "temp_a",  # number, 60' in text
    assert '"shift",  # number, constant 3' in text
    assert '"lab",  # number, constant 1.5, 1 missing' in text
    assert "#     \"mode\"  # text, 4 different: 'B0', 'B1', 'B2', ..." in text
    assert '# cost = ""' in text
    (tmp_path / "log.toml").write_text(text)
    columns = [str(tmp_path / "log.toml"), "observations=temp_*"]
    dataset = load(tmp_path / "log.parquet", columns=columns, cost=COST)
    assert dataset.fingerprint == load(plant_log(), columns=COLUMNS, cost=COST).fingerprint


def plc_log(shifts: int = 12, minutes: int = 20) -> dict[str, Any]:
    """As a controller writes it: which shift, which minute of it, rows counted through, seconds since midnight."""
    rows, rng = shifts * minutes, np.random.default_rng(0)
    return {
        "shift": np.repeat(np.arange(1, shifts + 1), minutes), "minute": np.tile(np.arange(minutes), shifts),
        "row": np.arange(rows, dtype=np.uint32), "second": 0.5 * np.arange(rows) % 60,
        "tank": np.cumsum(rng.normal(size=rows)), "level": np.round(rng.normal(50, 2, rows)),
        "stage": np.tile(np.repeat(np.arange(4), minutes // 4), shifts), "fault": np.repeat([0, 1], rows // 2),
        "valve": rng.uniform(0, 100, rows), "yield": rng.normal(size=rows),
    }  # fmt: skip


def test_what_counts_rows_is_not_proposed_as_an_observation() -> None:
    text = propose_columns(make_table(plc_log(), "log"))
    proposed = tomllib.loads(text)
    assert proposed["observations"] == ["tank", "level", "stage", "fault"]
    assert (proposed["episode"], proposed["step"]) == ("shift", "minute")
    assert '#     "row"  # whole number, 0 to 239, 240 different; counts rows or time: a policy that sees' in text
    assert '"second"  # number, 0 to 59.5; counts rows' in text


def test_a_clock_that_begins_again_within_an_episode_orders_nothing() -> None:
    log = {name: column for name, column in plc_log().items() if name not in ("shift", "row", "second")}
    assert "step" not in tomllib.loads(propose_columns(make_table(log, "log")))
    log |= {"batch": plc_log()["shift"], "shift": plc_log()["shift"]}
    text = propose_columns(make_table(log, "log"))
    assert (tomllib.loads(text)["episode"], tomllib.loads(text)["step"]) == ("batch", "minute")
    assert (
        '#     "shift"  # whole number, 1 to 12, 12 different; numbers groups of rows: it is new in every log' in text
    )
