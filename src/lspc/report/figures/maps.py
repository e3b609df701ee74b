"""The roads of MetaDrive's easy, medium and hard tasks, side by side."""

from lspc.report.drawing import TEXT_COLOUR, new_figure, save
from lspc.report.figures import Request


def draw(asked: Request) -> None:
    from lspc.sims.metadrive import ROADS, map_picture

    figure = new_figure(12, 4.4)
    for axes, (name, road) in zip(figure.subplots(1, len(ROADS)), ROADS.items(), strict=True):
        axes.imshow(map_picture(road.blocks))
        axes.set_title(f"{name}: {road.blocks}", color=TEXT_COLOUR, fontweight="bold")
        axes.set_axis_off()
    save(figure, asked.out)
