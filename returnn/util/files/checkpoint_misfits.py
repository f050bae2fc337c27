"""Values of a checkpoint whose shapes are not those of the parameters, for messages that name all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from returnn.util.texts.counted import counted

_MOST_SHAPES = 10  # that a message shows


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit."""

    name: str  # in the checkpoint
    parameter: str  # of the model
    in_file: tuple[int, ...]
    in_model: tuple[int, ...]

    def __str__(self) -> str:
        name = "" if self.name == self.parameter else f" (there {self.name!r})"
        shapes = f"{list(self.in_model)} in the model, but {list(self.in_file)} in the file"
        return f"{self.parameter!r} has the shape {shapes}{name}"


def misfit_of(name: str, in_file: Sequence[int], parameter: str, in_model: Sequence[int]) -> Misfit | None:
    """:return: None if the shapes are the same"""
    misfit = Misfit(name, parameter, tuple(map(int, in_file)), tuple(map(int, in_model)))
    return misfit if misfit.in_file != misfit.in_model else None


def misfits_text(misfits: Sequence[Misfit], *, advice: str = "") -> str:
    """
    :param misfits: at least one
    :param advice: a sentence for all of them, behind their shapes
    :return: for people, with all names in a form that the option `ignore_params` takes
    """
    more = len(misfits) - _MOST_SHAPES
    return "\n".join(
        [
            f"{counted(len(misfits), 'parameter')} of the model with another shape than in the file:",
            *(f"  {misfit}" for misfit in misfits[:_MOST_SHAPES]),
            *([f"  ... and {more} more"] if more > 0 else []),
            *([f"  {advice}"] if advice else []),
            "  In 'preload_from_files', this takes the other parameters of a file:",
            f"  'ignore_params': {[misfit.name for misfit in misfits]}",
        ]
    )
