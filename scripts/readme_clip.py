"""The moving picture of README: two policies of one run, the same episode, the cost of each against the budget.

    lspc train --preset cpu --steps 4000 --out runs/ball
    python scripts/readme_clip.py runs/ball --eps 1 2 --out docs/figures/two-policies.webp

Episodes are run in BallCircle's own physics; only the view from above is drawn here, because the simulator's camera
shows neither where the budget stands nor where the ball has been.
"""

import argparse
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from lspc import files, sims
from lspc.acting import Act, Seen
from lspc.policy import load_policy
from lspc.tasks import Task, get_task

TASK = "BallCircle"
SIZE_OF_WORLD = 10.0
"""Observations hold positions as shares of it."""
RADIUS, LIMIT = 7.0, 6.0
"""Of the ring that reward is paid on, and how far to either side is free of cost."""
VIEW = (9.4, 11.5)
"""Half of the width and of the height that is drawn."""
PANEL, STRIP, GAP = 300, 78, 16
HEIGHT = round(PANEL * VIEW[1] / VIEW[0])
EVERY = 2
"""Steps between two frames."""
PAUSE = 50
INK, QUIET, RING, WALL, OVER = "#1b1f24", "#5b6470", "#c9d3de", "#d55e00", "#fdeee3"
COLOURS = ("#0072b2", "#b84f00")


class Steps(NamedTuple):
    """One episode: where the ball was, and reward and cost so far."""

    places: np.ndarray
    rewards: np.ndarray
    costs: np.ndarray


def run_episode(task: Task, act: Act, seed: int) -> Steps:
    simulator = sims.make(task, pictures=False)
    observation, earned, paid = simulator.reset(seed), 0.0, 0.0
    places, rewards, costs = [observation[:2]], [0.0], [0.0]
    try:
        for step in range(task.episode_length):
            seen = Seen(
                observation[None], seeds=np.array([seed]), steps=np.array([step]), lanes=np.zeros(1, np.int64),
                rewards=np.array([earned], np.float32), costs=np.array([paid], np.float32),
            )  # fmt: skip
            observation, earned, paid, terminated, _ = simulator.step(act(seen)[0])
            places.append(observation[:2])
            rewards.append(earned)
            costs.append(paid)
            if terminated:
                break
    finally:
        simulator.close()
    return Steps(SIZE_OF_WORLD * np.array(places), np.cumsum(rewards), np.cumsum(costs))


def draw_frame(names: list[str], episodes: list[Steps], at: int, budget: float, most: float) -> Image.Image:
    scale = 2  # drawn twice as large and shrunk: smooth edges
    width = len(names) * PANEL + (len(names) - 1) * GAP
    frame = Image.new("RGB", (scale * width, scale * (HEIGHT + STRIP)), "white")
    pen = ImageDraw.Draw(frame)
    for number, (name, steps) in enumerate(zip(names, episodes, strict=True)):
        left = number * (PANEL + GAP)
        draw_scene(pen, scale, left, steps, at, COLOURS[number])
        draw_counter(pen, scale, left, name, steps, at, budget, most, COLOURS[number])
    return frame.resize((width, HEIGHT + STRIP), Image.Resampling.LANCZOS)


def draw_scene(pen: ImageDraw.ImageDraw, scale: int, left: float, steps: Steps, at: int, colour: str) -> None:
    wide, tall = VIEW

    def place(x: float, y: float) -> tuple[float, float]:
        return scale * (left + PANEL * (x + wide) / (2 * wide)), scale * HEIGHT * (tall - y) / (2 * tall)

    for low, high in ((-wide, -LIMIT), (LIMIT, wide)):
        pen.rectangle((*place(low, tall), *place(high, -tall)), fill=OVER)
    for side in (-LIMIT, LIMIT):
        pen.line((*place(side, tall), *place(side, -tall)), fill=WALL, width=scale * 2)
    pen.ellipse((*place(-RADIUS, RADIUS), *place(RADIUS, -RADIUS)), outline=RING, width=scale * 5)
    words = ImageFont.load_default(scale * 11)
    pen.text(place(LIMIT + 0.3, tall - 0.3), "cost 1\nper step", fill=WALL, font=words)
    trail = [place(x, y) for x, y in steps.places[max(0, at - 60) : at + 1]]
    if len(trail) > 1:
        pen.line(trail, fill=colour, width=scale * 3, joint="curve")
    x, y = trail[-1]
    size = 8 * scale
    pen.ellipse((x - size, y - size, x + size, y + size), fill=colour, outline="white", width=scale * 2)


def draw_counter(
    pen: ImageDraw.ImageDraw, scale: int, left: float, name: str, steps: Steps, at: int, budget: float, most: float,
    colour: str,
) -> None:  # fmt: skip
    def font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
        return ImageFont.load_default(scale * size)

    cost, reward = steps.costs[min(at, len(steps.costs) - 1)], steps.rewards[min(at, len(steps.rewards) - 1)]
    x, y, end = scale * (left + 4), scale * (HEIGHT + 6), scale * (left + PANEL - 4)
    pen.text((x, y), name, fill=colour, font=font(15))
    numbers = f"reward {reward:.0f}   cost {cost:.0f}"
    pen.text((end - pen.textlength(numbers, font=font(14)), y), numbers, fill=INK, font=font(14))
    top, bottom = y + scale * 26, y + scale * 40
    pen.rectangle((x, top, end, bottom), fill="#eef1f5")
    pen.rectangle((x, top, x + (end - x) * min(1.0, cost / most), bottom), fill=colour)
    mark = x + (end - x) * budget / most
    pen.line((mark, top - 4 * scale, mark, bottom + 4 * scale), fill=WALL, width=scale * 2)
    pen.text((mark + 4 * scale, bottom + 2 * scale), f"budget {budget:g}", fill=WALL, font=font(12))


def write(frames: list[Image.Image], out: Path) -> None:
    with files.atomic_path(out) as temporary:
        # The last frame stays for a moment: that is where the numbers are read.
        pauses = [PAUSE] * (len(frames) - 1) + [2500]
        frames[0].save(
            temporary, format="WEBP", save_all=True, append_images=frames[1:], duration=pauses, loop=0, quality=70,
            method=4,
        )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--eps", type=float, nargs=2, default=(1.0, 2.0))
    parser.add_argument("--seed", type=int, default=1_000_000, help="of the episode")
    parser.add_argument("--budget", type=float, default=10.0)
    parser.add_argument("--out", type=Path, default=Path("docs/figures/two-policies.webp"))
    asked = parser.parse_args()
    policy, task = load_policy(asked.run), get_task(TASK)
    episodes = [run_episode(task, policy.at(eps).for_episodes(sampled=False), asked.seed) for eps in asked.eps]
    names = [f"{word}: eps {eps:g}" for word, eps in zip(("careful", "greedy"), asked.eps, strict=True)]
    most = max(2.0 * asked.budget, 1.05 * max(steps.costs[-1] for steps in episodes))
    last = max(len(steps.costs) for steps in episodes) - 1
    frames = [draw_frame(names, episodes, at, asked.budget, most) for at in [*range(0, last, EVERY), last]]
    write(frames, asked.out)
    for name, steps in zip(names, episodes, strict=True):
        print(f"{name}: reward {steps.rewards[-1]:.0f}, cost {steps.costs[-1]:.0f}")
    print(f"{asked.out}: {len(frames)} frames, {asked.out.stat().st_size / 1e6:.2f} MB")


if __name__ == "__main__":
    main()
