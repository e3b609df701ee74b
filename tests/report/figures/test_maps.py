"""The roads side by side, each under its name; the pictures of the roads themselves are the simulator's."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure

from lspc.report.figures import draw, maps
from lspc.sims import metadrive


def test_every_road_has_its_panel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn: list[Figure] = []
    monkeypatch.setattr(maps, "save", lambda figure, path: drawn.append(figure))
    monkeypatch.setattr(
        metadrive, "map_picture", lambda blocks: np.full((4, 4 + len(blocks), 3), len(blocks), np.uint8)
    )
    assert draw("maps", tmp_path / "maps.png") == tmp_path / "maps.png"
    titles = [axes.get_title() for axes in drawn[0].axes]
    assert titles == [f"{name}: {road.blocks}" for name, road in metadrive.ROADS.items()]
    shown = [np.asarray(axes.images[0].get_array()) for axes in drawn[0].axes]
    assert [int(picture.max()) for picture in shown] == [len(road.blocks) for road in metadrive.ROADS.values()]
