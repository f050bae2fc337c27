"""Parameters that a checkpoint has with another shape, or perhaps by another name: messages that name all of them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from returnn.util.system.warn_once import warn_once
from returnn.util.texts.counted import counted

_SIMILAR = 0.85  # of 1
_TRANSPOSED = (
    "{name!r} is transposed: torch.nn.Linear has [out, in] where rf.Linear has [in, out]. If the file is from there, "
    "transpose all such weights in it, also square ones."
)
_MOST_SHAPES = 10  # that a message shows


@dataclass(frozen=True)
class Misfit:
    """A value that does not fit."""

    name: str  # in the checkpoint
    parameter: str  # of the model
    in_file: tuple[int, ...]
    in_model: tuple[int, ...]

    @property
    def is_transposed(self) -> bool:
        """Whether it is a matrix, and the other way round."""
        return len(self.in_file) == 2 and self.in_file == self.in_model[::-1]

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
    transposed = next((x.name for x in misfits if x.is_transposed and x.name.endswith("weight")), None)
    if transposed is not None:
        advice = f"{advice} {_TRANSPOSED.format(name=transposed)}".strip()
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


def warn_of_misspelt(where: str, *, missing: Mapping[str, Sequence[int]], spare: Mapping[str, Sequence[int]]) -> None:
    """
    For the option `ignore_missing`: a parameter that is misspelt is one that the file does not have.

    :param where: the option that names the file
    :param missing: shapes of the parameters that the file does not have, by the names that they would have there
    :param spare: shapes of those that are only in the file, by their names
    """
    pairs = [(near, name) for name in spare for near in _similar_names(name, missing, shape=spare[name])]
    if pairs:
        near, name = pairs[0]
        more = f" (and {counted(len(pairs) - 1, 'other')} like that)" if len(pairs) > 1 else ""
        warn_once(
            f"{where}: 'ignore_missing': the file has no parameter {near!r}, which gets no value from it, but "
            f"{name!r}{more}. Is it misspelt? 'var_name_mapping' renames."
        )


def _similar_names(name: str, known: Mapping[str, Sequence[int]], *, shape: Sequence[int]) -> list[str]:
    """:return: at most one, which differs in a few letters. By numbers, one tells layers apart"""
    same_shape = [other for other, of_other in known.items() if list(of_other) == list(shape)]
    nearest = difflib.get_close_matches(name, same_shape, n=1, cutoff=_SIMILAR)
    return [other for other in nearest if re.sub(r"\d", "", other) != re.sub(r"\d", "", name)]
