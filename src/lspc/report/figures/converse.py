"""The paper's converse: LSPC-O beside the method with reward and safety in each other's place, over eps."""

from lspc.errors import UserError
from lspc.report.drawing import draw_line, finish, new_panels
from lspc.report.figures import Request
from lspc.report.measured import (
    check_alike,
    group_by_eps,
    group_unguarded,
    list_seeds,
    make_point,
    name_seeds,
    read_measured,
    shared_task,
)


def draw(asked: Request) -> None:
    """LSPC-O and the converse one, whose CVAE is fitted to reward and whose encoder looks for safety, over eps."""
    measured = read_measured(asked.runs)
    runs = list(measured)
    for run, roles in zip(runs, ("safety-first", "converse"), strict=True):
        if run.config.get("roles", "safety-first") != roles:
            raise UserError(f"{run.path} is not a run with roles {roles}: lspc figure converse RUN CONVERSE_RUN")
    check_alike(runs, ("roles", "restriction"))
    task = shared_task(measured)
    figure, panels = new_panels(f"Safety first and the converse on {task.name}", task, "eps")
    for place, (run, policy) in enumerate(zip(runs, ("LSPC-O", "converse LSPC-O"), strict=True)):
        swept = group_by_eps(group_unguarded({run: measured[run]}, task), run, policy)
        points = {eps: make_point(records, task) for eps, records in swept.items()}
        draw_line(panels, points, f"{policy}, {name_seeds(list_seeds(swept))}", place)
    finish(figure, panels, asked.out)
