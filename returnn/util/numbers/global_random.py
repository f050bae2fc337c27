"""
The random state of the process: that of Python's `random`, and that of `numpy.random`. The toolkit itself has random
states of its own; this one belongs to the code of users.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy


@dataclass(frozen=True)
class GlobalRandomState:
    """At one moment. Two of them are equal if nothing was drawn in between."""

    of_python: tuple[Any, ...]
    of_numpy: tuple[Any, ...]

    @classmethod
    def current(cls) -> GlobalRandomState:
        """:return: that of now"""
        name, key, *rest = numpy.random.get_state(legacy=True)
        return cls(random.getstate(), (name, tuple(numpy.asarray(key).tolist()), *rest))

    def restore(self) -> None:
        """Sets it."""
        random.setstate(self.of_python)
        name, key, *rest = self.of_numpy
        numpy.random.set_state((name, numpy.array(key, "uint32"), *rest))

    def as_plain(self) -> dict[str, Any]:
        """:return: of lists, numbers and texts"""
        version, key, gauss = self.of_python
        name, numpy_key, *rest = self.of_numpy
        return {"python": [version, list(key), gauss], "numpy": [name, list(numpy_key), *rest]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> GlobalRandomState:
        """:return: of what `as_plain` gave"""
        version, key, gauss = plain["python"]
        name, numpy_key, *rest = plain["numpy"]
        return cls((version, tuple(key), gauss), (name, tuple(numpy_key), *rest))


def seed_global_random(numbers: Sequence[int]) -> None:
    """:param numbers: not negative. The same ones give the same random numbers from now on"""
    seeds = numpy.random.SeedSequence([int(number) % 2**64 for number in numbers]).generate_state(4)
    random.seed(int(seeds[0]) << 32 | int(seeds[1]))
    numpy.random.seed(seeds)
