"""A picture of rectangles, texts and curves, which is written as SVG, or as PNG by the package matplotlib."""

from __future__ import annotations

import itertools
import os
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from returnn.util.errors import ConfigError
from returnn.util.files.atomic_file import open_atomic, write_atomic
from returnn.util.python.optional_import import import_optional

CHAR_WIDTH = 0.6  # of the size of the font, which is one with letters of equal width
_FONT = "DejaVu Sans Mono, Menlo, Consolas, monospace"
_MAX_PIXELS = 20_000
_POINTS_PER_INCH = 72


@dataclass(frozen=True)
class Rectangle:
    """Its upper left corner, its size."""

    x: float
    y: float
    width: float
    height: float
    fill: str
    stroke: str = "#888888"
    tooltip: str = ""


@dataclass(frozen=True)
class Text:
    """The middle of its base line, or its beginning."""

    x: float
    y: float
    text: str
    size: float = 11.0
    color: str = "#222222"
    is_bold: bool = False
    is_centered: bool = True
    has_halo: bool = False  # so that lines below do not touch it


@dataclass(frozen=True)
class Curve:
    """An arrow through some points. It leaves and arrives from above, or has corners."""

    points: Sequence[tuple[float, float]]
    color: str = "#777777"
    is_dashed: bool = False
    has_corners: bool = False
    tooltip: str = ""

    @property
    def segments(self) -> list[tuple[tuple[float, float], ...]]:
        """Cubic Bezier curves: start, two control points, end."""
        found = []
        for (x0, y0), (x1, y1) in itertools.pairwise(self.points):
            bend = 0.0 if self.has_corners else abs(y1 - y0) / 2
            found.append(((x0, y0), (x0, y0 + bend), (x1, y1 - bend), (x1, y1)))
        return found


@dataclass(frozen=True)
class Picture:
    """All that is drawn, in its order."""

    width: float
    height: float
    shapes: Sequence[Rectangle | Text | Curve]


def write_picture(picture: Picture, filename: str) -> None:
    """
    :param picture: what to draw
    :param filename: the suffix is ".svg" or ".png"
    :raises ConfigError: if it is another one
    """
    suffix = os.path.splitext(filename)[1].lower()
    if suffix == ".svg":
        write_atomic(filename, as_svg(picture))
    elif suffix == ".png":
        _write_png(picture, filename)
    else:
        raise ConfigError(f"picture {filename!r}: unknown kind of file {suffix!r}.\n  Possible: '.svg', '.png'.")


def as_svg(picture: Picture) -> str:
    """:return: the picture as SVG"""
    size = f'width="{picture.width:.0f}" height="{picture.height:.0f}"'
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} viewBox="0 0 {picture.width:.0f} {picture.height:.0f}"'
        f' font-family="{_FONT}">',
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0,0 L8,4 L0,8 z" fill="#555555"/></marker></defs>',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *map(_shape_as_svg, picture.shapes),
        "</svg>\n",
    ]
    return "\n".join(lines)


def _shape_as_svg(shape: Rectangle | Text | Curve) -> str:
    if isinstance(shape, Text):
        anchor = ' text-anchor="middle"' if shape.is_centered else ""
        weight = ' font-weight="bold"' if shape.is_bold else ""
        position = f'x="{shape.x:.1f}" y="{shape.y:.1f}" font-size="{shape.size:g}" fill="{shape.color}"'
        halo = ' paint-order="stroke" stroke="#ffffff" stroke-width="3"' if shape.has_halo else ""
        return f"<text {position}{anchor}{weight}{halo}>{escape(shape.text)}</text>"
    title = f"<title>{escape(shape.tooltip)}</title>" if shape.tooltip else ""
    if isinstance(shape, Rectangle):
        place = f'x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" height="{shape.height:.1f}"'
        return f'<rect {place} rx="5" fill="{shape.fill}" stroke="{shape.stroke}">{title}</rect>'
    start = shape.points[0]
    path = f"M{start[0]:.1f},{start[1]:.1f}" + "".join(
        " C" + " ".join(f"{x:.1f},{y:.1f}" for x, y in segment[1:]) for segment in shape.segments
    )
    dash = ' stroke-dasharray="5,3"' if shape.is_dashed else ""
    return f'<path d="{path}" fill="none" stroke="{shape.color}"{dash} marker-end="url(#arrow)">{title}</path>'


def _write_png(picture: Picture, filename: str) -> None:
    figure_module = import_optional("matplotlib.figure", needed_for="drawing as PNG; SVG needs no package")
    dots_per_inch = min(100.0, _MAX_PIXELS * _POINTS_PER_INCH / max(picture.width, picture.height))
    size = (picture.width / _POINTS_PER_INCH, picture.height / _POINTS_PER_INCH)
    figure = figure_module.Figure(figsize=size, dpi=dots_per_inch)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, picture.width)
    axes.set_ylim(picture.height, 0)
    axes.axis("off")
    for shape in picture.shapes:
        if isinstance(shape, Text):
            _draw_text(axes, shape)
        else:
            axes.add_patch(_patch_of(shape))
    with open_atomic(filename, "wb") as file:
        figure.savefig(file, format="png")


def _draw_text(axes: Any, shape: Text) -> None:
    effects = import_optional("matplotlib.patheffects", needed_for="drawing as PNG")
    axes.text(
        shape.x,
        shape.y,
        shape.text,
        fontsize=shape.size,
        color=shape.color,
        family="monospace",
        ha="center" if shape.is_centered else "left",
        weight="bold" if shape.is_bold else "normal",
        parse_math=False,
        path_effects=[effects.withStroke(linewidth=3, foreground="#ffffff")] if shape.has_halo else [],
    )


def _patch_of(shape: Rectangle | Curve) -> Any:
    patches = import_optional("matplotlib.patches", needed_for="drawing as PNG")
    paths = import_optional("matplotlib.path", needed_for="drawing as PNG")
    if isinstance(shape, Rectangle):
        return patches.FancyBboxPatch(
            (shape.x + 4, shape.y + 4),
            shape.width - 8,
            shape.height - 8,
            boxstyle="round,pad=4",
            facecolor=shape.fill,
            edgecolor=shape.stroke,
        )
    points = [shape.points[0], *(point for segment in shape.segments for point in segment[1:])]
    codes = [paths.Path.MOVETO, *[paths.Path.CURVE4] * (len(points) - 1)]
    return patches.FancyArrowPatch(
        path=paths.Path(points, codes),
        arrowstyle="-|>",
        mutation_scale=9,
        color=shape.color,
        linestyle="--" if shape.is_dashed else "-",
        shrinkA=0,
        shrinkB=0,
    )
