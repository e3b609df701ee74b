"""All that lspc does without a simulator, as a program for whichever Python starts it: record, train, calibrate,
report, an environment of one's own; with the extras `data` and `deploy` also a table and ONNX.

    python core_walk.py FOLDER_OF_EXAMPLES [extras]
"""

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np

warnings.simplefilter("error")
sys.path.insert(0, sys.argv[1])
EXTRAS = "extras" in sys.argv
SMALL = {"hidden": (8, 8), "latent_dim": 4, "batch_size": 32, "steps": 10}


def verb(*arguments: object) -> None:
    from lspc.cli import main

    main([str(word) for word in arguments])


def walk() -> None:
    from heated_tank import HeatedTank, operate

    import lspc

    assert lspc.__file__ is not None
    assert Path(lspc.__file__).is_relative_to(sys.prefix), "not the wheel"
    operate(lspc.record(HeatedTank(), "tank.hdf5"), episodes=24)
    logs = "tank.hdf5"
    if EXTRAS:
        verb("convert", "tank.hdf5", "tank.csv")
        logs = "tank.csv"
    verb("inspect", logs, "--action-bounds", 0, 100)
    dataset = lspc.load_dataset(logs, action_bounds=(0, 100))
    run = lspc.train(dataset, "run", **SMALL)
    verb("calibrate", run, "--budget", 1e6, "--updates", 20)
    policy = lspc.load_policy(run)
    action = policy.act(dataset.observations[0], budget=1e6)
    rows = lspc.evaluate(run, on="heated_tank:HeatedTank", episodes=1, workers=0, variants=["LSPC-O"])
    assert next(row.policy for row in rows) == "data"
    if EXTRAS:
        import onnxruntime

        verb("export", run, "--budget", 1e6, "--out", "policy.onnx")
        session = onnxruntime.InferenceSession("policy.onnx")
        (name,) = [each.name for each in session.get_inputs()]
        told: Any = session.run(None, {name: dataset.observations[:1]})[0]
        np.testing.assert_allclose(told[0], action, rtol=1e-4, atol=1e-3)
    verb("report", run, "--no-film")
    assert Path("run/report.html").stat().st_size > 10_000


if __name__ == "__main__":
    walk()
    print("walked")
