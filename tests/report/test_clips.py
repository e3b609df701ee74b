"""Clips: real episodes filmed in the simulator, with what is written in them readable by a program."""

from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from lspc.acting import Seen
from lspc.errors import UserError
from lspc.report import clips
from lspc.tasks import get_task

BALL = get_task("BallRun")
BLUE, ORANGE = (0, 114, 178), (213, 94, 0)


def still(seen: Seen) -> np.ndarray:
    return np.zeros((len(seen.seeds), BALL.action_dim), np.float32)


@pytest.mark.simulator
def test_a_gif_of_two_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "FRAMES_PER_EPISODE", 5)
    out = tmp_path / "new" / "clip.gif"
    heard: list[tuple[int, int]] = []
    count = clips.render_episodes(
        BALL, still, [1, 2], out, title="still", budget=10, on_frame=lambda place, step: heard.append((place, step))
    )
    each = list(range(0, BALL.episode_length + 1, 20))
    assert heard == [(place, step) for place in (0, 1) for step in each]
    with Image.open(out) as clip:
        assert clip.format == "GIF"
        assert clip.size == (clips.WIDTH, 360 + clips.STRIP)
        frames = np.array([np.asarray(frame.convert("RGB")) for frame in _frames(clip)])
    assert count == len(heard)
    assert len(frames) <= count  # frames that are alike may be stored as one
    assert all(len(np.unique(frame.reshape(-1, 3), axis=0)) > 10 for frame in frames)
    assert list(tmp_path.glob("**/.unfinished-*")) == []


def _frames(clip: Image.Image) -> list[Image.Image]:
    found = []
    for number in range(getattr(clip, "n_frames", 1)):
        clip.seek(number)
        found.append(clip.copy())
    return found


@pytest.mark.simulator
def test_a_video(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clips, "FRAMES_PER_EPISODE", 5)
    out = tmp_path / "clip.mp4"
    clips.render_episodes(BALL, still, [1], out, title="still", budget=10)
    video = cv2.VideoCapture(str(out))
    assert video.get(cv2.CAP_PROP_FRAME_COUNT) == 6
    assert (video.get(cv2.CAP_PROP_FRAME_WIDTH), video.get(cv2.CAP_PROP_FRAME_HEIGHT)) == (480, 360 + clips.STRIP)
    video.release()


@pytest.mark.parametrize(
    ("cost", "budget", "blue", "orange"),
    [(0, 10, 0, 0), (5, 10, 0.25, 0), (10, 10, 0.5, 0), (15, 10, 0.5, 0.25), (99, 10, 0.5, 0.5), (1, 0, 0.5, 0.5)],
)
def test_the_bar_shows_cost_against_budget(cost: float, budget: float, blue: float, orange: float) -> None:
    frame = clips.draw(np.full((36, 48, 3), 255, np.uint8), "title", 3, 1.0, cost, budget)
    bar = np.asarray(frame)[-13, 10:-9]
    for colour, share in ((BLUE, blue), (ORANGE, orange)):
        assert (bar == colour).all(1).mean() == pytest.approx(share, abs=0.01)


def test_a_wrong_name_is_refused_before_any_work(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"clip.avi: give it a name that ends in .gif or .mp4"):
        clips.render_episodes(BALL, still, [1], tmp_path / "clip.avi", title="still", budget=10)
