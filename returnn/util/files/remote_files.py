"""Files in object stores and on servers, such as "s3://bucket/train.hdf", by the package `fsspec`."""

from __future__ import annotations

import posixpath
from typing import Any

from returnn.util.errors import MissingPackageError, UserError
from returnn.util.python.optional_import import import_optional

_SEPARATOR = "://"


def is_remote(filename: str) -> bool:
    """:return: whether it is a URL"""
    return _SEPARATOR in filename


def path_of(url: str) -> str:
    """:return: for a local copy, relative and inside of the folder: "s3/bucket/train.hdf" """
    protocol, _, rest = url.partition(_SEPARATOR)
    return f"{protocol}{posixpath.normpath(f'/{rest}'.replace('//', '/'))}"


class RemoteFile:
    """One file that can be copied."""

    def __init__(self, url: str) -> None:
        """
        :param url: such as "s3://bucket/train.hdf", or "https://..."
        :raises MissingPackageError: if `fsspec`, or what it needs for this kind of store, is not installed
        :raises UserError: if there is no such kind of store
        :raises OSError: if the store does not answer
        """
        self.url = url
        fsspec: Any = import_optional("fsspec", needed_for=f"the file {url!r}")
        try:
            self._files, self._path = fsspec.core.url_to_fs(url)
        except ImportError as exc:
            raise MissingPackageError(f"A package is missing for the file {url!r}.\n  {exc}") from exc
        except ValueError as exc:
            raise UserError(f"the file {url!r} cannot be read: {exc}") from exc

    def size_and_version(self) -> tuple[int, str]:
        """
        :return: bytes, and what is another text if the file is another one
        :raises OSError: if it is not there
        """
        self._files.invalidate_cache()
        size = self._files.info(self._path).get("size")
        if size is None:
            raise OSError(None, "the server does not tell its size")
        return int(size), str(self._files.ukey(self._path))

    def copy_to(self, filename: str) -> None:
        """
        :param filename: local one, which is written
        :raises OSError: if that fails
        """
        self._files.get_file(self._path, filename)
