"""Zip archives that are read from several threads and processes."""

from __future__ import annotations

import os
import zipfile
import zlib

from returnn.util.errors import UserError
from returnn.util.files.near_files import hint_for_missing_file


class ZipReader:
    """An archive. It is opened anew in each process, as a file position shared with the parent gives wrong data."""

    def __init__(self, filename: str):
        """:raises UserError: if it is not there, or is no archive"""
        self.filename = filename
        self._pid = -1
        self._open()

    def names(self) -> list[str]:
        """:return: of all files in it, without folders"""
        return [name for name in self._open().namelist() if not name.endswith("/")]

    def read(self, name: str) -> bytes:
        """
        :return: content of a file in it
        :raises UserError: if it is not there, or is broken
        """
        try:
            return self._open().read(name)
        except KeyError as exc:
            raise UserError(f"there is no file {name!r} in the archive {self.filename!r}") from exc
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError) as exc:
            raise UserError(f"the file {name!r} in the archive {self.filename!r} is broken: {exc}") from exc

    def _open(self) -> zipfile.ZipFile:
        if self._pid != os.getpid():
            try:
                self._zip = zipfile.ZipFile(self.filename)
            except OSError as exc:
                hint = hint_for_missing_file(self.filename, is_wanted=lambda name: name.endswith(".zip"))
                if not hint and os.path.isdir(self.filename):
                    hint = "\n  'returnn tool make-ogg-zip' makes an archive of a folder with recordings."
                raise UserError(f"Cannot open the archive {self.filename!r}: {exc.strerror or exc}.{hint}") from exc
            except zipfile.BadZipFile as exc:
                raise UserError(f"The archive {self.filename!r} is no zip file, or is not complete: {exc}.") from exc
            self._pid = os.getpid()
        return self._zip

    def __getstate__(self) -> str:
        return self.filename

    def __setstate__(self, filename: str) -> None:
        self.filename = filename
        self._pid = -1
