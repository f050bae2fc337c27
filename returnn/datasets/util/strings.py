"""Text as numpy arrays."""

from __future__ import annotations

from typing import Any

import numpy
import numpy.typing


def str_to_numpy_array(s: str) -> numpy.typing.NDArray[Any]:
    """:return: [], of numpy's string type. Data sets give text so under keys such as "raw" """
    return numpy.array(s)
