"""Reward and cost while runs were trained, as `lspc train --evaluate-every` measured them."""

from collections.abc import Sequence

from lspc.errors import UserError
from lspc.evaluation import usual_mode
from lspc.report.drawing import STYLES, draw_line, finish, new_panels
from lspc.report.figures import Request
from lspc.report.measured import make_point, policy_label, run_name, shared_task
from lspc.runs import Record, Run, layout
from lspc.runs.record import group, training_seeds


def draw(asked: Request) -> None:
    """Reward and cost against updates, a line for each policy and run: colours tell policies, dashes tell runs."""
    curves = {run: _read_curve(run) for run in map(Run.open, asked.runs)}
    task = shared_task(curves)
    figure, panels = new_panels(f"Training on {task.name}", task, "updates")
    policies = list(dict.fromkeys(record.policy for records in curves.values() for record in records))
    for number, (run, records) in enumerate(curves.items()):
        for policy, own in group(records, lambda record: record.policy).items():
            groups = group_by_updates(own)
            if not groups:
                path = run.path / layout.CURVE
                raise UserError(
                    f"{path}: there is no update at which {policy} was measured for every seed; train longer"
                )
            points = {updates: make_point(some, task) for updates, some in groups.items()}
            place = policies.index(policy)
            several = sum(any(r.policy == policy for r in other) for other in curves.values()) > 1
            name = policy_label(policy) + (f", {run_name(run, curves)}" if several else "")
            draw_line(panels, points, name, place, style=STYLES[number % len(STYLES)])
    finish(figure, panels, asked.out)


def _read_curve(run: Run) -> list[Record]:
    path = run.path / layout.CURVE
    if not path.exists():
        raise UserError(
            f"{run.path} has no {path.name}: train with --evaluate-every N to measure the policies on the way"
        )
    found = [record for record in run.records(path.name) if record.mode == usual_mode(record.policy)]
    if not found:
        raise UserError(f"{path} holds nothing to draw")
    return found


def group_by_updates(records: Sequence[Record]) -> dict[int, list[Record]]:
    """Records by updates, where every training seed has some: a mean over fewer seeds would make a false step."""
    # A run that was interrupted may have measured an episode twice: the later one counts.
    episodes = {(record.updates, record.training_seed, record.seed): record for record in records}
    found, seeds = group(episodes.values(), lambda record: record.updates), training_seeds(records)
    return {updates: some for updates, some in sorted(found.items()) if training_seeds(some) == seeds}
