"""Feature dims of modules, which configs can also give as numbers: the sizes of new dims."""

from __future__ import annotations

from returnn.tensor import Dim
from returnn.util.errors import DimError


def feature_dim(value: Dim | int, name: str) -> Dim:
    """
    :param value: what a module got as an option; a number is the size of a new dim
    :param name: of the option, and of a new dim
    :return: the dim
    :raises DimError: if it is neither
    """
    if isinstance(value, Dim):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and value > 0:
        return Dim(value, name=name, kind=Dim.Types.Feature)
    raise DimError(f"{name}: expected a Dim, or a number, the size of a new one, got {value!r}.")
