"""What an update of LSPC spends its time on, by kind of operation, as JAX's profiler sees the compiled program.

    python benchmarks/shares.py --json results/shares.json

Shares of the time of all operations of some updates on one thread: they say what there is to gain elsewhere than in
the matrix products.
"""

import argparse
import gzip
import json
import re
import tempfile
from collections import Counter
from pathlib import Path

from updates import CASES, Ours  # first: it sets the number of threads before JAX starts

import jax  # isort: skip

from lspc import files
from lspc.version import __version__

PRODUCTS = ("dot", "ynn_fusion")
"""XLA's names for matrix products, alone and with what is fused into them."""


def measure(case: str) -> dict[str, float]:
    preset, batch, updates = CASES[case]
    ours = Ours(preset, batch)
    ours.run(2)
    options = jax.profiler.ProfileOptions()
    options.host_tracer_level, options.python_tracer_level = 3, 0
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder, profiler_options=options):
            ours.run(updates)
        [path] = Path(folder).rglob("*.trace.json.gz")
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    times = Counter[str]()
    for event in events:
        # Operations are named as in the compiled program: lower case, with a number.
        if event.get("ph") == "X" and re.fullmatch(r"[a-z][a-z_\-]*(\.\d+)?", event["name"]):
            times[re.sub(r"\.\d+$", "", event["name"])] += event["dur"]
    total = sum(times.values())
    shares = {name: round(time / total, 3) for name, time in times.most_common(8)}
    return {"matrix products": round(sum(times[name] for name in PRODUCTS) / total, 3), **shares}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    found = {case: measure(case) for case in CASES}
    record = {"lspc_version": __version__, "command": "python benchmarks/shares.py --json results/shares.json",
              "shares": found}  # fmt: skip
    print(json.dumps(record, indent=2))
    if chosen.json:
        files.write_json(chosen.json, record)


if __name__ == "__main__":
    main()
