"""A network as a table, for a terminal or as plain text."""

from __future__ import annotations

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from returnn.tf.inspection.report import LayerRow, NetReport
from returnn.util.texts.counted import counted

_HEADER = ("layer", "class", "output", "parameters", "in the loop")
_NUMBERS = 3  # column with numbers
_COLORS = {"before": "green", "inside": "yellow", "after": "cyan"}


def table_text(report: NetReport, rows: Sequence[LayerRow], title: str) -> str:
    """:return: the table as plain text, as wide as it needs to be"""
    cells = [_HEADER, *map(_cells, rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join([title, *(f"  {_line(line, widths)}" for line in cells), f"  {_total(report)}"])


def print_table(report: NetReport, rows: Sequence[LayerRow], title: str, console: Console) -> None:
    """Prints the table with colors, as wide as the terminal."""
    table = Table(
        title=title, box=box.SIMPLE_HEAD, title_justify="left", caption=_total(report), caption_justify="left"
    )
    for i, header in enumerate(_HEADER):
        table.add_column(header, justify="right" if i == _NUMBERS else "left")
    for row in rows:
        *cells, place = map(Text, _cells(row))
        place.stylize(_COLORS.get(row.place, ""))
        table.add_row(*cells, place)
    console.print(table)


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    aligned = [
        text.rjust(width) if i == _NUMBERS else text.ljust(width)
        for i, (text, width) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(aligned).rstrip()


def _cells(row: LayerRow) -> Sequence[str]:
    place = f"{row.place}: {row.reason}" if row.place else ""
    return row.name, row.layer_class, row.output, f"{row.num_params:,}" if row.num_params else "", place


def _total(report: NetReport) -> str:
    fixed = report.num_params - report.num_trainable_params
    fixed_text = f", {fixed:,} of them not trained" if fixed else ""
    own = sorted({found.class_of_user for found in report.layers} - {""})
    own_text = f"; what {', '.join(own)} may have is not known before there is a graph" if own else ""
    return f"{counted(len(report.rows), 'layer')}, {counted(report.num_params, 'parameter', ',')}{fixed_text}{own_text}"
