"""The kinds of dims."""

from __future__ import annotations

from enum import Enum


class DimKind(Enum):
    """What an axis stands for. Only `Batch`, `Spatial` and `Feature` are documented; a beam is made by search alone."""

    Batch = "batch"
    Spatial = "spatial"
    Feature = "feature"
    Beam = "beam"

    def __repr__(self) -> str:
        return self.value


class DimTypes:
    """The kinds by their documented names, as in `Dim.Types.Spatial`."""

    Unspecified: DimKind | None = None
    Batch = DimKind.Batch
    Spatial = DimKind.Spatial
    Time = DimKind.Spatial
    Feature = DimKind.Feature
    Beam = DimKind.Beam
    Types = (Batch, Spatial, Feature)
    DynamicSizeTypes = (Batch, Spatial)
