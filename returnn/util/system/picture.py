"""Pictures in files, drawn with matplotlib, which is optional. No screen is needed, and no state is shared."""

from __future__ import annotations

import contextlib
import os
from typing import Any

from returnn.util.files.atomic_file import open_atomic
from returnn.util.python.optional_import import import_optional


def new_figure(width: float, height: float, *, needed_for: str) -> Any:
    """
    :param width: in inches
    :param height: in inches
    :param needed_for: ends the sentence "... is needed for ..."
    :return: `matplotlib.figure.Figure`
    :raises MissingPackageError: without matplotlib
    """
    figure_module = import_optional("matplotlib.figure", needed_for=needed_for)
    return figure_module.Figure(figsize=(width, height), layout="constrained")


def save_figure(figure: Any, filename: str) -> None:
    """
    :param figure: `matplotlib.figure.Figure`
    :param filename: its suffix is the format; the file is complete or as it was
    :raises UserError: if it cannot be written
    """
    with contextlib.suppress(OSError):  # the next line says it better
        os.makedirs(os.path.dirname(filename) or ".", exist_ok=True)
    with open_atomic(filename, "wb") as file:
        figure.savefig(file, format=os.path.splitext(filename)[1][1:] or "png", dpi=110)
