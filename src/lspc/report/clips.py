"""Moving pictures of episodes: the scene, with reward and cost so far and the budget drawn beneath."""

import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lspc import files, sims
from lspc.acting import Act, Seen
from lspc.errors import UserError
from lspc.evaluation import FIRST_EPISODE_SEED, check_fits
from lspc.policy import load_policy
from lspc.report.drawing import BUDGET_COLOUR, EPISODE_COLOUR, TEXT_COLOUR
from lspc.runs import Run
from lspc.tasks import Task
from lspc.tasks.own import is_own

SUFFIXES = (".gif", ".mp4")
WIDTH = 480
STRIP = 64
FRAMES_PER_SECOND = 20
FRAMES_PER_EPISODE = 120
"""Longer episodes skip steps, so that a clip stays about six seconds an episode whatever the task."""


def check(out: Path) -> None:
    """Refuse a name that cannot be written, before any episode runs."""
    if out.suffix.lower() not in SUFFIXES:
        raise UserError(f"{out}: give it a name that ends in {' or '.join(SUFFIXES)}")
    if out.suffix.lower() == ".mp4":
        try:
            import cv2  # noqa: F401
        except ImportError as error:
            told = f"{out}: .mp4 needs OpenCV: pip install 'lspc[video]', or choose a .gif"
            raise UserError(told) from error


def film(
    run: Path,
    out: Path | None = None,
    *,
    episodes: int = 3,
    policy: str | None = None,
    seed: int | None = None,
    on: str | None = None,
    cost_key: str = "cost",
    horizon: int | None = None,
    budget: float | None = None,
    sampled: bool = False,
    on_frame: Callable[[int, int], None] | None = None,
) -> Path:
    """Film the episodes that `lspc evaluate` begins with; returns the clip, RUN/episodes.gif unless given.

    `on_frame` hears the steps filmed so far and the most there can be.
    """
    opened = Run.open(run)
    if episodes < 1:
        raise UserError(f"a clip needs 1 episode or more, not {episodes}")
    own: dict[str, Any] = {"cost_key": cost_key, "horizon": horizon} if on and is_own(on) else {}
    task, clip = opened.find_task(on, **own), out or run / "episodes.gif"
    check_fits(opened, task)
    check(clip)
    trained = load_policy(run, seed=seed, variant=policy)
    total = episodes * task.episode_length
    render_episodes(
        task, trained.for_episodes(sampled=sampled), [FIRST_EPISODE_SEED + i for i in range(episodes)], clip,
        title=f"{trained.variant} on {task.name}", budget=task.thresholds[0] if budget is None else budget,
        on_frame=lambda place, step: on_frame(place * task.episode_length + step, total) if on_frame else None,
    )  # fmt: skip
    return clip


def render_episodes(
    task: Task,
    act: Act,
    seeds: Sequence[int],
    out: str | Path,
    *,
    title: str,
    budget: float,
    on_frame: Callable[[int, int], None] | None = None,
) -> int:
    """Run one episode for each seed in this process, write them as one clip, and return the number of frames.

    `on_frame` hears the episode's place and its step after each picture.
    """
    out = Path(out)
    check(out)
    simulator = sims.make(task, pictures=True)
    frames: list[Image.Image] = []
    try:
        for place, seed in enumerate(seeds):
            name = f"{title}, episode {place + 1} of {len(seeds)}"
            for frame, step in _episode(simulator, task, act, seed, name, budget):
                frames.append(frame)
                if on_frame:
                    on_frame(place, step)
    finally:
        simulator.close()
    _write(frames, out)
    return len(frames)


def _episode(
    simulator: sims.Simulator, task: Task, act: Act, seed: int, title: str, budget: float
) -> Iterator[tuple[Image.Image, int]]:
    every = math.ceil(task.episode_length / FRAMES_PER_EPISODE)
    observation = simulator.reset(seed)
    reward = cost = earned = paid = 0.0
    yield draw(simulator.render(), title, 0, reward, cost, budget), 0
    for step in range(1, task.episode_length + 1):
        seen = Seen(
            observation[None],
            seeds=np.array([seed]),
            steps=np.array([step - 1]),
            rewards=np.array([earned], np.float32),
            costs=np.array([paid], np.float32),
            lanes=np.zeros(1, np.int64),
        )
        action = act(seen)[0]
        observation, earned, paid, terminated, truncated = simulator.step(action)
        reward, cost = reward + earned, cost + paid
        ended = terminated or truncated
        if ended or step % every == 0:
            yield draw(simulator.render(), title, step, reward, cost, budget), step
        if ended:
            return


def draw(scene: np.ndarray, title: str, step: int, reward: float, cost: float, budget: float) -> Image.Image:
    """The scene above a strip: what is shown, step and reward, and the cost as a bar that the budget divides."""
    picture = Image.fromarray(scene)
    height = round(picture.height * WIDTH / picture.width / 2) * 2  # video codecs want even sizes
    frame = Image.new("RGB", (WIDTH, height + STRIP), "white")
    frame.paste(picture.resize((WIDTH, height), Image.Resampling.LANCZOS), (0, 0))
    pen, font = ImageDraw.Draw(frame), ImageFont.load_default(13)
    pen.text((10, height + 6), title, fill=TEXT_COLOUR, font=font)
    pen.text((10, height + 23), f"step {step}   reward {reward:.1f}   cost {cost:.1f}", fill=TEXT_COLOUR, font=font)
    # The bar ends at twice the budget; its second half is beyond it.
    left, right, top, bottom = 10, WIDTH - 10, height + 46, height + 56
    middle = (left + right) // 2
    pen.rectangle((left, top, right, bottom), fill="#EEEEEE")
    share = min(1.0, cost / (2 * budget)) if budget > 0 else float(cost > 0)
    end = left + round(share * (right - left))
    if end > left:
        pen.rectangle((left, top, min(end, middle), bottom), fill=EPISODE_COLOUR)
    if end > middle:
        pen.rectangle((middle, top, end, bottom), fill=BUDGET_COLOUR)
    pen.line((middle, top - 3, middle, bottom + 3), fill=TEXT_COLOUR, width=2)
    label = f"budget {budget:g}: the middle of the bar"
    pen.text((right - pen.textlength(label, font=font), height + 23), label, fill=TEXT_COLOUR, font=font)
    return frame


def _write(frames: list[Image.Image], out: Path) -> None:
    with files.atomic_path(out) as temporary:
        if out.suffix.lower() == ".gif":
            # One palette for all frames: otherwise colours flicker and every pixel counts as changed.
            palette = frames[len(frames) // 2].quantize(128)
            still = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
            pause = 1000 // FRAMES_PER_SECOND
            still[0].save(
                temporary, format="GIF", save_all=True, append_images=still[1:], duration=pause, loop=0, optimize=True
            )
        else:
            _write_video(frames, temporary)


def _write_video(frames: list[Image.Image], path: Path) -> None:
    import cv2

    code = cv2.VideoWriter.fourcc(*"mp4v")
    writer = cv2.VideoWriter(str(path), code, FRAMES_PER_SECOND, frames[0].size)
    try:
        for frame in frames:
            writer.write(np.asarray(frame)[:, :, ::-1])
    finally:
        writer.release()
