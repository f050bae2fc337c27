"""Documented path: hands on the data sets of RASR, which was called Sprint."""

from __future__ import annotations

from returnn.datasets.sprint_base import SprintDatasetBase
from returnn.datasets.sprint_cache import SprintCacheDataset
from returnn.datasets.sprint_extern import ExternSprintDataset

__all__ = ["ExternSprintDataset", "SprintCacheDataset", "SprintDatasetBase"]
