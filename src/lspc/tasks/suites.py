"""What a suite of tasks is: the simulator it runs on, how to get that, and the suite's usual numbers.

Adding a suite: write its adapter (a `Simulator` of lspc.sims), add an entry below, and its tasks to the table.
"""

from dataclasses import dataclass

NEWEST_PYTHON = (3, 11)
"""The last Python that the simulators' packages have wheels for."""
DEFAULT_BUDGETS = (10, 20, 40)
"""The cost budgets of an episode where no task is known that names its own."""


@dataclass(frozen=True)
class Suite:
    """Tasks that share a simulator."""

    name: str
    title: str
    """The simulator's own name, for headings."""
    families: tuple[str, ...]
    """DSRL's groups of tasks that belong to it."""
    thresholds: tuple[int, int, int]
    """The cost budgets its tasks are evaluated at."""
    adapter: str
    """Where the simulator's adapter is, `module:Class`; imported only when a world is made."""
    packages: tuple[str, ...]
    """What it needs, by import name."""
    distributions: tuple[str, ...]
    """What it needs, by the names that pip knows, where the version matters."""
    extra: str
    """The extra of lspc that installs what it needs."""
    alone: tuple[str, ...]
    """What must be installed without its own requirements, which contradict each other and Python 3.11."""
    trial_task: str
    """The task that `lspc doctor` tries."""
    collect_steps: int
    """Steps per agent of `lspc collect`: more where episodes are long, fewer where the simulator is slow."""
    one_world_per_process: bool = False
    """Whether its engine holds a single world at a time."""


_ALL = (
    Suite(
        name="bullet",
        title="Bullet Safety Gym",
        families=("bullet_safety_gym",),
        thresholds=(10, 20, 40),
        adapter="lspc.sims.bullet:BulletSimulator",
        packages=("bullet_safety_gym", "pybullet"),
        distributions=("bullet-safety-gym", "pybullet"),
        extra="bullet",
        alone=(),
        trial_task="BallRun",
        collect_steps=150_000,
    ),
    Suite(
        name="safety_gymnasium",
        title="Safety Gymnasium",
        families=("safety_gymnasium_car", "safety_gymnasium_point", "safety_gymnasium_velocity"),
        thresholds=(20, 40, 80),
        adapter="lspc.sims.safety_gymnasium:SafetyGymnasiumSimulator",
        packages=("safety_gymnasium", "mujoco"),
        distributions=("safety-gymnasium", "mujoco"),
        extra="safety-gymnasium",
        alone=("safety-gymnasium==0.4.1",),
        trial_task="PointCircle1",
        collect_steps=300_000,
    ),
    Suite(
        name="metadrive",
        title="MetaDrive",
        families=("metadrive",),
        thresholds=(10, 20, 40),
        adapter="lspc.sims.metadrive:MetaDriveSimulator",
        packages=("metadrive", "panda3d", "pygame"),
        distributions=("metadrive-simulator", "panda3d"),
        extra="metadrive",
        alone=("metadrive-simulator==0.2.6.0",),
        trial_task="easysparse",
        collect_steps=30_000,
        one_world_per_process=True,
    ),
)

SUITES = {suite.name: suite for suite in _ALL}
"""Every suite by its name, which is a task's `suite`."""
