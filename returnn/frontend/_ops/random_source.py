"""Where random values come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy

Seed = int | Sequence[int] | numpy.ndarray


@dataclass(frozen=True)
class RandomSource:
    """A seed, an explicit state, or (nothing given) the generator of the backend."""

    seed: Seed | None = None
    is_static: bool = False  # the seed alone decides
    state: Any = None  # raw tensor, (n,)
    algorithm: str | None = None

    def number(self, raw_state_to_numpy: Any = None) -> int | None:
        """
        :param raw_state_to_numpy: raw state -> array
        :return: a number that the values follow from; None: they come from the generator of the backend
        """
        if self.state is not None:
            return seed_number(raw_state_to_numpy(self.state))
        return None if self.seed is None else seed_number(self.seed)


def seed_number(*parts: Seed) -> int:
    """:return: from several seeds one number below 2**63, which differs if any of them does"""
    entropy = [int(x) & 0xFFFFFFFFFFFFFFFF for part in parts for x in numpy.atleast_1d(numpy.asarray(part))]
    return int(numpy.random.SeedSequence(entropy).generate_state(1, "uint64")[0] >> numpy.uint64(1))
