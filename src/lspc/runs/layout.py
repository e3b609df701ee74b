"""Where everything of a run lies: the names of its files and folders, spelled here and nowhere else."""

import shutil
from pathlib import Path

from lspc.errors import UserError

CONFIG = "config.json"
"""The description; a folder that has one is a run."""
METRICS = "metrics.jsonl"
"""What the networks told while they learned, a line for each chunk of updates and seed."""
CURVE = "curve.jsonl"
"""Episodes measured on the way, if that was asked for."""
EVALUATIONS = "evaluations.jsonl"
"""Episodes of the trained policies."""
VERIFICATION = "verification.jsonl"
"""Episodes that a calibration was checked with."""
THREADS = "threads.json"
"""With how many threads the run began."""
CHECKPOINT = "checkpoint-"
"""How the name of a checkpoint begins; the number of updates follows."""
WEIGHTS, CARD = "weights.safetensors", "card.json"
"""Of a policy's folder; the card is written last, so that a folder with a card is complete."""
BUDGETS = "budgets.json"
"""The cost budgets that the user asked for last, for every table and picture that follows."""
CALIBRATION, FITTED_Q = "calibration.json", "fitted_q.safetensors"
"""Of a policy's folder, after `lspc calibrate`."""
CERTIFICATE = "certificate-"
"""How the name of a certificate in a policy's folder begins, after `lspc pilot`; the budget follows."""


def set_aside(run: Path, updates: int) -> None:
    """Put what speaks of the policy after so many updates beside it, under names that nothing reads."""
    policies = policy_folder(run, 0).parent
    for path in (run / EVALUATIONS, run / VERIFICATION, policies):
        aside = path.with_name(f"{path.stem}-at-{updates}{path.suffix}")
        if path.is_dir():
            shutil.rmtree(aside, ignore_errors=True)  # the same policy, if a kill came in between
            path.rename(aside)
        elif path.exists():
            path.replace(aside)


def config_path(run: Path) -> Path:
    return run / CONFIG


def is_run(folder: Path) -> bool:
    return config_path(folder).exists()


def find_runs(folder: Path) -> list[Path]:
    """Every run below `folder`, by name."""
    return [path.parent for path in sorted(folder.rglob(CONFIG))]


def checkpoint_path(run: Path, updates: int) -> Path:
    return run / f"{CHECKPOINT}{updates:09d}.safetensors"


def updates_of(checkpoint: Path) -> int:
    """How many updates a checkpoint is of, by its name; 0 if that says nothing."""
    digits = checkpoint.stem.removeprefix(CHECKPOINT)
    return int(digits) if digits.isdecimal() else 0


def checkpoint_paths(run: Path) -> list[Path]:
    """The checkpoints there are, oldest first."""
    return sorted(run.glob(f"{CHECKPOINT}*.safetensors"))


def policy_folder(run: Path, seed: int) -> Path:
    """Where the policy of this training seed is, or will be."""
    return run / "policy" / f"seed-{seed}"


def find_policy(path: Path, seed: int | None = None) -> Path:
    """The folder of a policy: `path` itself, or that of a seed (the first unless told) of the run in `path`."""
    if (path / CARD).exists():
        return path
    cards = policy_folder(path, 0).parent.glob(f"seed-*/{CARD}")
    folders = {int(card.parent.name.removeprefix("seed-")): card.parent for card in cards}
    if not folders:
        if is_run(path):
            raise UserError(f"{path} holds no policy yet: its training has not finished; run it again to continue")
        raise UserError(f"{path} holds no policy: is it the folder of a run?")
    if seed is not None and seed not in folders:
        raise UserError(f"{path} has no seed {seed}: it has {', '.join(map(str, sorted(folders)))}")
    return folders[min(folders) if seed is None else seed]


def calibration_paths(run: Path) -> list[Path]:
    """What `lspc calibrate` left for each training seed."""
    beside_policies = sorted(policy_folder(run, 0).parent.glob(f"seed-*/{CALIBRATION}"))
    return [path for path in (run / CALIBRATION, *beside_policies) if path.exists()]


def certificate_path(policy: Path, budget: float) -> Path:
    """What `lspc pilot` leaves for a budget in a policy's folder; no two budgets share one."""
    return policy / f"{CERTIFICATE}{spell_budget(budget)}.json"


def spell_budget(budget: float) -> str:
    """In as few digits as tell it from every other."""
    short = f"{budget:g}"
    return short if float(short) == budget else repr(float(budget))


def certificate_paths(run: Path) -> list[Path]:
    """What `lspc pilot` left for each training seed and budget."""
    return sorted(policy_folder(run, 0).parent.glob(f"seed-*/{CERTIFICATE}*.json"))
