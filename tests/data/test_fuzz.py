"""Whatever is opened gives a correct dataset or our own error: a few hundred of scripts/fuzz_data.py's inputs."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from helpers import fuzz
from hypothesis import HealthCheck, given, settings

few = settings(
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    return fuzz.make_good_files(tmp_path_factory.mktemp("good"))


@pytest.mark.parametrize("kind", fuzz.MUTATED)
def test_what_is_changed_was_sound(kind: str, good: dict[str, Path], tmp_path: Path) -> None:
    assert fuzz.open_mutated(good[kind], fuzz.Mutation((("none", 0.0, 1, 0),)), tmp_path) == "opened"


@given(log=fuzz.logs())
@settings(few, max_examples=300)
def test_a_table_gives_a_correct_dataset_or_our_own_error(log: fuzz.Log) -> None:
    with TemporaryDirectory() as folder:
        assert fuzz.open_log(log, Path(folder)) in ("opened", "refused", "not expressible")


@pytest.mark.parametrize("kind", fuzz.MUTATED)
@given(mutation=fuzz.mutations)
@settings(few, max_examples=60)
def test_a_changed_file_gives_a_correct_dataset_or_our_own_error(
    kind: str, good: dict[str, Path], mutation: fuzz.Mutation
) -> None:
    with TemporaryDirectory() as folder:
        assert fuzz.open_mutated(good[kind], mutation, Path(folder)) in ("opened", "refused")
