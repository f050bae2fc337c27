"""Short access to HDF5 files, as old tools use it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import h5py


def hdf5_dimension(filename: str, dimension: str) -> Any:
    """:return: attribute of the file, or of one of its groups: "inputs/attribute" """
    group, _, name = dimension.rpartition("/")
    with h5py.File(filename, "r") as file:
        return (file[group] if group else file).attrs[name]


def hdf5_group(filename: str, dimension: str) -> dict[str, Any]:
    """:return: all attributes of a group"""
    with h5py.File(filename, "r") as file:
        return dict(file[dimension].attrs)


def hdf5_shape(filename: str, dimension: str) -> tuple[int, ...]:
    """:return: shape of a data set"""
    with h5py.File(filename, "r") as file:
        return tuple(file[dimension].shape)


def hdf5_strings(handle: Any, name: str, data: Sequence[str | bytes]) -> None:
    """
    Writes a data set of strings.

    :param handle: open file, or group
    :param name: of the data set; it is replaced
    :param data: strings
    """
    if name in handle:
        del handle[name]
    handle.create_dataset(name, data=list(data), dtype=h5py.string_dtype())
