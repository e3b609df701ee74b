"""Opens thousands of inputs that nobody expects: each must give a correct dataset or our own error, in seconds.

    python scripts/fuzz_data.py --cases 10000 --json results/fuzz.json

Tables come from hypothesis, files have changed bytes (tests/helpers/fuzz.py). Each part runs in a process of its own
with a limit of memory, so that a crash, a hang or a blow-up counts as what it is. A fault is printed with its place.
"""

import argparse
import json
import resource
import signal
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from helpers import fuzz  # noqa: E402

PARTS = ("tables", *fuzz.MUTATED)
SECONDS = 60
"""For one input; it takes milliseconds."""
MEMORY = 8 * 2**30
"""Bytes of address space, libraries included."""


def run_part(part: str, cases: int, seed: int) -> dict[str, Any]:
    """What came of the cases of one part."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis import seed as start_from

    warnings.simplefilter("error")  # a warning of numpy's is no way to tell a user
    outcomes: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as made:
        good = fuzz.make_good_files(Path(made))

        def count(case: Any) -> None:
            signal.alarm(SECONDS)
            try:
                with tempfile.TemporaryDirectory() as folder:
                    if part == "tables":
                        outcome = fuzz.open_log(case, Path(folder))
                    else:
                        outcome = fuzz.open_mutated(good[part], case, Path(folder))
                outcomes[outcome] += 1
            except Exception as error:
                trace = traceback.extract_tb(error.__traceback__)
                ours = [frame for frame in trace if "/lspc/" in frame.filename] or list(trace)
                told = f"{type(error).__name__} from {Path(ours[-1].filename).name}:{ours[-1].lineno}"
                if told not in faults:
                    print(f"{part}: {told}: {error}\n{str(case)[:1500]}", file=sys.stderr, flush=True)
                faults[told] += 1
            finally:
                signal.alarm(0)

        options: Any = {
            "max_examples": cases, "deadline": None, "database": None, "phases": [Phase.generate],
            "suppress_health_check": list(HealthCheck),
        }  # fmt: skip
        strategy = fuzz.logs() if part == "tables" else fuzz.mutations
        start_from(seed)(settings(**options)(given(strategy)(count)))()
    return {"outcomes": dict(outcomes), "faults": dict(faults)}


def _hang(number: int, frame: Any) -> None:
    raise TimeoutError(f"took more than {SECONDS} seconds")


def run_in_process(part: str, cases: int, seed: int) -> dict[str, Any]:
    command = [sys.executable, __file__, "--part", part, "--cases", str(cases), "--seed", str(seed)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {"outcomes": {}, "faults": {f"the process ended with {done.returncode}": 1}}
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000, help="of all parts together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="where the counts go")
    parser.add_argument("--part", choices=PARTS, help="only this one, in this process")
    chosen = parser.parse_args()
    if chosen.part:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        signal.signal(signal.SIGALRM, _hang)
        print(json.dumps(run_part(chosen.part, chosen.cases, chosen.seed)))
        return
    from lspc import __version__, files

    command = f"python scripts/fuzz_data.py --cases {chosen.cases} --seed {chosen.seed}"
    found = {}
    for part in PARTS:
        found[part] = run_in_process(part, -(-chosen.cases // len(PARTS)), chosen.seed)
        print(part, found[part]["outcomes"], f"{sum(found[part]['faults'].values())} fault(s)", flush=True)
        if chosen.json:
            files.write_json(chosen.json, {"lspc_version": __version__, "command": command, "parts": found})
    sys.exit(any(part["faults"] for part in found.values()))


if __name__ == "__main__":
    main()
