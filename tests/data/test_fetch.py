"""DSRL's files from a server on this machine that breaks off, lies and comes back."""

from pathlib import Path

import pytest
from helpers.cli import TINY, Cli
from helpers.mirror import Mirror, serve

from lspc import data
from lspc.data import Dataset, fetch, load, read_metadata, save
from lspc.errors import UserError
from lspc.runs import Run
from lspc.tasks import get_task

TASK = get_task("BallRun")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of its own: no cache of the user is seen or touched."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("DSRL_DATASET_DIR", str(tmp_path / "dsrl"))
    monkeypatch.delenv("LSPC_MIRROR", raising=False)
    return tmp_path / "cache" / "lspc" / "datasets"


@pytest.fixture(scope="module")
def content(dataset: Dataset, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("original") / "data.hdf5"
    save(dataset, path)
    return path.read_bytes()


def get(*mirrors: Mirror) -> Path:
    return fetch.fetch(TASK, mirrors=[mirror.url for mirror in mirrors], pause=0)


def leftovers(cache: Path) -> set[str]:
    return {path.name for path in cache.iterdir()} - {".lock"}


@pytest.mark.parametrize(
    "faults",
    [
        [],
        ["redirect"],
        ["503", "500"],
        ["breaks", "breaks", "breaks"],
        ["breaks", "503", "503", "breaks"],
        ["long"],  # promises more than it has
        ["short"],  # promises less: the file is cut off, and only HDF5 can tell
        ["breaks", "wrong place"],
        ["other file"],
        ["redirect", "breaks", "redirect"],
        ["wrong hash", "", "wrong hash"],
    ],
)
def test_the_file_arrives_whole_in_spite_of(faults: list[str], content: bytes, cache: Path) -> None:
    with serve(content, faults) as mirror:
        path = get(mirror)
    assert path == cache / TASK.dataset_file
    assert path.read_bytes() == content
    assert leftovers(cache) == {TASK.dataset_file}
    assert mirror.faults == []


def test_what_is_there_is_not_asked_for_again(content: bytes) -> None:
    with serve(content, ["breaks", "breaks"]) as mirror:
        get(mirror)
        half = len(content) // 2
        assert mirror.asked == ["", f"bytes={half}-", f"bytes={half + (len(content) - half) // 2}-"]
        get(mirror)
    assert len(mirror.asked) == 3  # it is in the cache


def test_a_later_call_goes_on_where_the_line_broke(content: bytes, cache: Path) -> None:
    with serve(content, ["breaks", *["503"] * fetch.ATTEMPTS]) as mirror:
        with pytest.raises(UserError, match="503"):
            get(mirror)
        assert leftovers(cache) == {f"{TASK.dataset_file}.part", f"{TASK.dataset_file}.part.mark"}
        assert get(mirror).read_bytes() == content
        assert mirror.asked[-1] == f"bytes={len(content) // 2}-"


@pytest.mark.parametrize("ranges", [True, False])
def test_a_part_of_another_version_is_thrown_away(content: bytes, ranges: bool) -> None:
    with serve(b"x" * len(content), ["breaks", *["503"] * fetch.ATTEMPTS]) as mirror:
        with pytest.raises(UserError):
            get(mirror)
        mirror.content, mirror.version, mirror.ranges = content, "2", ranges
        assert get(mirror).read_bytes() == content


@pytest.mark.parametrize("fault", ["404", "503", "short", "other file", "wrong hash"])
def test_the_next_mirror_is_asked(content: bytes, fault: str) -> None:
    with serve(content, [fault, "" if fault == "wrong hash" else fault] * 9) as bad, serve(content) as good:
        assert get(bad, good).read_bytes() == content
    assert len(bad.asked) <= 2 * fetch.ATTEMPTS


def test_no_mirror_gives_one_line_with_the_file_and_what_to_do(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(b"", ["404"]) as first, serve(b"", ["503"] * 9) as second, pytest.raises(UserError) as refused:
        get(first, second)
    told = str(refused.value)
    assert len(told.splitlines()) == 1
    assert "SafetyBallRun-v0-80-940.hdf5, the data of BallRun, could not be downloaded" in told
    assert "404" in told
    assert "503" in told
    assert f"put it into {cache}, or make data of your own: lspc collect --task BallRun" in told


def test_a_host_that_is_not_there_is_told_at_once() -> None:
    with pytest.raises(UserError, match=r"could not be downloaded \(no-such-host.invalid: .*\); put it into"):
        fetch.fetch(TASK, mirrors=["http://no-such-host.invalid/"], pause=60)


@pytest.mark.parametrize("mirror", ["nowhere", "file:///etc"])
def test_a_mirror_that_is_no_web_address_is_told(mirror: str) -> None:
    with pytest.raises(UserError, match="no web address"):
        fetch.fetch(TASK, mirrors=[mirror], pause=60)


def test_offline_asks_nobody(content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(content) as mirror:
        monkeypatch.setenv("LSPC_MIRROR", mirror.url)
        with pytest.raises(UserError, match="--offline forbids a download"):
            load("OfflineBallRun-v0", offline=True)
    assert mirror.asked == []


def test_a_file_that_dsrl_has_fetched_is_taken(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "dsrl").mkdir()
    (tmp_path / "dsrl" / TASK.dataset_file).write_bytes(content)
    assert data.locate("BallRun", offline=True) == tmp_path / "dsrl" / TASK.dataset_file


@pytest.mark.parametrize("name", ["OfflineBallRun-v0", "ballrun"])
def test_a_task_is_data(
    name: str, content: bytes, dataset: Dataset, monkeypatch: pytest.MonkeyPatch, cache: Path
) -> None:
    with serve(content) as mirror:
        monkeypatch.setenv("LSPC_MIRROR", mirror.url)
        assert read_metadata(name) == {"task": "BallRun"}
        assert mirror.asked == []  # a look at the options downloads nothing
        opened = load(name)
    assert opened.fingerprint == dataset.fingerprint
    assert opened.metadata["task"] == "BallRun"
    assert opened.source == str(cache / TASK.dataset_file)


def test_a_file_of_that_name_goes_before_the_task(
    dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("BallRun").mkdir()
    save(dataset, "BallRun/data.parquet")
    assert data.locate("BallRun") == Path("BallRun")
    assert load("BallRun").fingerprint == dataset.fingerprint


def test_the_command_line_fetches(cli: Cli, content: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    with serve(content) as mirror:
        monkeypatch.setenv("LSPC_MIRROR", mirror.url)
        refused = cli("inspect", "OfflineBallRun-v0", "--offline")
        assert refused.returncode == 1
        assert len(refused.stderr.splitlines()) == 1
        done = cli("inspect", "OfflineBallRun-v0")
    assert done.returncode == 0, done.stderr
    assert "taken as data of BallRun, from its name" in " ".join(done.stdout.replace("│", " ").split())


def test_a_minari_id_is_found_where_minari_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = Path(__file__).parent / "samples" / "minari"
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(samples))
    assert load("plant/tank-arrow-v0").source == str(samples / "plant" / "tank-arrow-v0")
    with pytest.raises(UserError, match="no such file, DSRL task or Minari dataset"):
        load("plant/nothing-v0")


@pytest.mark.slow
def test_a_run_is_trained_by_the_name_of_a_task_and_needs_no_mirror_again(
    cli: Cli, content: bytes, dataset: Dataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serve(content, ["breaks"]) as mirror:
        monkeypatch.setenv("LSPC_MIRROR", mirror.url)
        done = cli("train", "--data", "OfflineBallRun-v0", "--out", tmp_path / "run", *TINY)
    assert done.returncode == 0, done.stderr
    run = Run.open(tmp_path / "run")
    assert run.task == "BallRun"
    assert run.require_dataset().fingerprint == dataset.fingerprint
    again = cli("train", "--data", "OfflineBallRun-v0", "--offline", "--out", tmp_path / "run", *TINY)
    assert again.returncode == 0, again.stderr
