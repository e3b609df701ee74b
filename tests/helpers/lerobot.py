"""A LeRobot folder, written as LeRobot lays it out."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

STEPS = 5
FEATURES = {
    "observation.state": "float32", "observation.images.top": "video", "action": "float32", "next.reward": "float32",
    "next.done": "bool", "episode_index": "int64", "frame_index": "int64", "timestamp": "float32", "index": "int64",
}  # fmt: skip


def write_lerobot(folder: Path, version: str) -> None:
    """As LeRobot lays it out: v2 has a file for each episode, v3 several in one, and more tables beside them."""
    rng = np.random.default_rng(0)
    episodes = []
    for episode in range(2):
        floats = {name: rng.normal(size=(STEPS, 2)).astype(np.float32) for name in ("observation.state", "action")}
        episodes.append(pa.table({
            **{name: pa.array(list(values), pa.list_(pa.float32(), 2)) for name, values in floats.items()},
            "next.reward": pa.array(rng.normal(size=STEPS).astype(np.float32)),
            "next.done": pa.array(np.arange(STEPS) == STEPS - 1),
            "episode_index": pa.array(np.full(STEPS, episode)), "frame_index": pa.array(np.arange(STEPS)),
            "timestamp": pa.array(np.arange(STEPS, dtype=np.float32) / 30),
            "index": pa.array(np.arange(STEPS) + episode * STEPS),
        }))  # fmt: skip
    chunk = folder / "data" / "chunk-000"
    chunk.mkdir(parents=True)
    (folder / "meta" / "episodes" / "chunk-000").mkdir(parents=True)
    if version == "v2.1":
        for number, table in enumerate(episodes):
            parquet.write_table(table, chunk / f"episode_{number:06}.parquet")
    else:
        parquet.write_table(pa.concat_tables(episodes), chunk / "file-000.parquet")
        about = pa.table({"episode_index": [0, 1], "length": [STEPS, STEPS]})
        parquet.write_table(about, folder / "meta" / "episodes" / "chunk-000" / "file-000.parquet")
    told = {"codebase_version": version, "features": {name: {"dtype": kind} for name, kind in FEATURES.items()}}
    (folder / "meta" / "info.json").write_text(json.dumps(told), encoding="utf-8")
