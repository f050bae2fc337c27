"""Documented path: hands on the data sets of RASR, which was called Sprint."""

from __future__ import annotations

import sys

from returnn.datasets.core.show import print_seqs
from returnn.datasets.sprint.sprint_base import SprintDatasetBase
from returnn.datasets.sprint.sprint_cache import SprintCacheDataset
from returnn.datasets.sprint.sprint_extern import ExternSprintDataset

__all__ = ["ExternSprintDataset", "SprintCacheDataset", "SprintDatasetBase", "demo"]


def demo() -> None:
    """
    Prints the first sequences that RASR gives.

        python -m returnn.datasets.sprint NN_TRAINER --config=CONFIG ...
    """
    program, *args = sys.argv[1:]
    dataset = ExternSprintDataset(program, [f"'{arg}'" for arg in args])
    dataset.initialize()
    print_seqs(dataset)
    dataset.finish_epoch(free_resources=True)
