"""The mean of checkpoints, of whatever format."""

from __future__ import annotations

from collections.abc import Sequence

import numpy

from returnn.tools.checkpoints.formats import Checkpoint
from returnn.util.errors import UserError


def average(checkpoints: Sequence[Checkpoint], filenames: Sequence[str]) -> Checkpoint:
    """
    :param checkpoints: of the same model
    :param filenames: of them, for messages
    :return: the mean of each value; what counts is taken from the last one. One checkpoint is as it was
    :raises UserError: if they are of different models
    """
    if len(checkpoints) == 1:
        return checkpoints[0]
    first, last = checkpoints[0], checkpoints[-1]
    for other, filename in zip(checkpoints[1:], filenames[1:], strict=True):
        for name in sorted({*first.values, *other.values}):
            shapes = [c.values[name].shape if name in c.values else "missing" for c in (first, other)]
            if shapes[0] != shapes[1]:
                raise UserError(
                    f"checkpoints {filenames[0]!r} and {filename!r} are of different models.\n"
                    f"  {name!r}: {shapes[0]} and {shapes[1]}."
                )
    values = {}
    for name, value in last.values.items():
        if not numpy.issubdtype(value.dtype, numpy.floating) and value.dtype.name != "bfloat16":
            values[name] = value
            continue
        total = sum(checkpoint.values[name].astype("float64") for checkpoint in checkpoints)
        values[name] = (total / len(checkpoints)).astype(value.dtype)
    return Checkpoint(values, last.info)
