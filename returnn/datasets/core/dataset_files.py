"""`FilesOfDataset`: which files a data set reads, and whether they are as they were. The base class of `Dataset`."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any

from returnn.datasets.core.changed_files import WatchedFile, WatchedFiles
from returnn.util.files.paths_in_options import find_paths


class FilesOfDataset:
    """Keeps the options, the files that are open, and the data sets that are a part of this one."""

    name: str
    _init_args: tuple[tuple[Any, ...], dict[str, Any]]
    _watched_files: WatchedFiles
    _part_refs: list[weakref.ref[FilesOfDataset]]

    def __new__(cls, *args: Any, **kwargs: Any) -> FilesOfDataset:
        """Keeps the arguments, so that another process can make the same data set from them."""
        self = super().__new__(cls)
        self._init_args = (args, kwargs)
        self._watched_files = WatchedFiles()
        self._part_refs = []
        return self

    @property
    def description(self) -> str:
        """For messages, e.g. "HDFDataset 'train'"."""
        class_name = type(self).__name__
        return class_name if self.name == class_name else f"{class_name} {self.name!r}"

    def _watch_file(self, filename: str, *, has_same_content: Callable[[], bool] = lambda: False) -> None:
        """
        To be called for each file that stays open: it is an error if it changes.

        :param filename: of the file
        :param has_same_content: whether a file of the same size is known to have the content from before
        """
        self._watched_files.add(WatchedFile(filename, where=self.description, has_same_content=has_same_content))

    def add_part(self, part: FilesOfDataset) -> None:
        """:param part: another data set that this one reads from"""
        self._part_refs.append(weakref.ref(part))

    def check_files(self) -> None:
        """:raises DataError: if a file has changed since it was opened, here or in a data set that is a part of this"""
        self._watched_files.check()
        for part in parts_of_dataset(self):
            part.check_files()

    def find_files(self) -> list[str]:
        """:return: files and folders with the data, as far as they can be known: those that the options name"""
        return find_paths(self._init_args)


def parts_of_dataset(dataset: FilesOfDataset) -> list[FilesOfDataset]:
    """:return: the data sets that this one reads from, as far as they are still there"""
    return [part for ref in dataset._part_refs if (part := ref()) is not None]


def given_options(dataset: FilesOfDataset) -> dict[str, Any]:
    """:return: the options that it was made with"""
    return dataset._init_args[1]
