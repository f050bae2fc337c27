"""
Local copies of files that are on slow network storage.

All processes of a machine share the copies. Each file has a lock while it is copied or deleted; beside it stands which
version of the original it is. A process renews the time of the files that it uses, and `FileCache.cleanup` deletes what
was not used for long, or what is needed least if the disk gets full.

In a config, `CachedFile` stands for a file: `{"class": "HDFDataset", "files": [CachedFile("/far/away/train.hdf")]}`.
With the package `fsspec`, this may be a file in an object store or on a server, such as "s3://bucket/train.hdf".
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import shutil
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.file_lock import LockFile
from returnn.util.files.folders import get_login_username, get_temp_dir
from returnn.util.files.paths_in_options import are_sequences
from returnn.util.files.remote_files import RemoteFile, is_remote, path_of
from returnn.util.texts.human_readable import human_bytes_size

_INFO_SUFFIX = ".returnn-info"
_LOCK_SUFFIX = ".returnn-lock"
_COPY_SUFFIX = ".returnn-copy"
_RENEW_S = 60.0
_IN_USE_S = 10 * _RENEW_S  # who uses a file has renewed its time since then
_DAY_S = 24 * 60 * 60


@dataclass
class CachedFile:
    """In the options of a data set: a file of which the local copy is to be used."""

    filename: str


@dataclass(frozen=True)
class FileInfo:
    """Which version of the original a copy is."""

    mtime_ns: int = 0  # of a local file
    version: str = ""  # of a remote one

    @classmethod
    def load(cls, filename: str) -> FileInfo:
        """
        :param filename: written by `save`
        :raises OSError: if it is not there
        :raises ValueError: if there is something else in it
        """
        with open(filename, encoding="utf8") as file:
            return cls(**json.load(file))

    def save(self, filename: str) -> None:
        """:param filename: to write"""
        write_atomic(filename, json.dumps(asdict(self)))


@dataclass(kw_only=True)
class CleanupResult:
    """What `FileCache.cleanup` has done."""

    freed: int = 0  # bytes
    abort_reason: str | None = None  # why it could not free enough


class FileCache:
    """A folder with local copies."""

    def __init__(
        self,
        *,
        cache_directory: str = "$TMPDIR/$USER/returnn/file_cache",
        cleanup_files_always_older_than_days: float = 31.0,
        cleanup_files_wanted_older_than_days: float = 1.0,
        cleanup_disk_usage_wanted_free_ratio: float = 0.2,
        cleanup_disk_usage_wanted_multiplier: float = 2.0,
        num_tries: int = 3,
    ) -> None:
        """
        :param cache_directory: on a local disk; variables of the environment are replaced
        :param cleanup_files_always_older_than_days: what was not used for so long is deleted
        :param cleanup_files_wanted_older_than_days: what was not used for so long is deleted if the disk is rather full
        :param cleanup_disk_usage_wanted_free_ratio: otherwise it is rather full, as a part of its size
        :param cleanup_disk_usage_wanted_multiplier: or so many times the space that is needed right now
        :param num_tries: how often a copy that fails is tried
        """
        variables = {"TMPDIR": get_temp_dir(with_username=False), "USER": get_login_username(), **os.environ}
        for name, value in variables.items():
            cache_directory = cache_directory.replace(f"${name}", value)
        self.cache_directory = os.path.expanduser(cache_directory)
        self._always_older_s = cleanup_files_always_older_than_days * _DAY_S
        self._wanted_older_s = cleanup_files_wanted_older_than_days * _DAY_S
        self._wanted_free_ratio = cleanup_disk_usage_wanted_free_ratio
        self._wanted_multiplier = cleanup_disk_usage_wanted_multiplier
        self._num_tries = num_tries
        self._used: dict[str, int] = {}  # local file -> how many use it in this process
        self._used_lock = threading.Lock()
        self._stop: threading.Event | None = None

    def get_file(self, src_filename: str) -> str:
        """
        :param src_filename: the original, a path or a URL
        :return: the local copy, made if necessary. It is not deleted until `release_files`, or the end of the process
        :raises UserError: if the original is not there, the disk is full, or copying fails
        """
        if is_remote(src_filename):
            local = os.path.join(self.cache_directory, path_of(src_filename))
        else:
            src_filename = os.path.abspath(src_filename)
            local = f"{self.cache_directory}{src_filename}"
        self._note_use(local)
        try:
            for attempt in range(1, self._num_tries + 1):
                try:
                    self._update(src_filename, local)
                except OSError as exc:
                    if attempt == self._num_tries:
                        where = f"file cache: {src_filename!r} to {local!r}"
                        raise UserError(f"{where}: {exc.strerror or exc}.") from exc
                else:
                    return local
        except BaseException:
            self.release_files([local])
            raise
        raise UserError(f"file cache: option 'num_tries': {self._num_tries}. Possible: from 1 on.")

    def release_files(self, filenames: Iterable[str]) -> None:
        """
        :param filenames: local copies, as often as they were got: they may be deleted now
        """
        with self._used_lock:
            for name in [filenames] if isinstance(filenames, str) else filenames:
                self._used[name] = self._used.get(name, 1) - 1
                if not self._used[name]:
                    del self._used[name]
            if not self._used and self._stop is not None:
                self._stop.set()
                self._stop = None

    def handle_cached_files_in_config(self, config: Any) -> tuple[Any, list[str]]:
        """
        :param config: nested dicts, lists and tuples. Data itself, see `are_sequences`, is not looked at
        :return: the same, with the local copy in place of each `CachedFile`; these copies
        """
        used: list[str] = []

        def local(value: Any) -> Any:
            if isinstance(value, CachedFile):
                used.append(self.get_file(value.filename))
                return used[-1]
            if type(value) is dict:
                return {key: local(item) for key, item in value.items()}
            if type(value) in (list, tuple) and not are_sequences(value):
                return type(value)(map(local, value))
            return value

        return local(config), used

    def cleanup(self, *, need_at_least_free_space_size: int = 0) -> CleanupResult:
        """
        Deletes copies which were not used for long. If that is not enough, those which were not used for the longest
        time, but none that is in use.

        :param need_at_least_free_space_size: bytes
        """
        result = CleanupResult()
        if not os.path.isdir(self.cache_directory):
            return result
        disk = shutil.disk_usage(self.cache_directory)
        wanted = max(
            need_at_least_free_space_size * self._wanted_multiplier, disk.total * self._wanted_free_ratio
        )  # bytes
        now = time.time()
        for last_used, size, path in sorted(self.iter_files()):
            free, age_s = disk.free + result.freed, now - last_used
            is_old = age_s > self._always_older_s or (free < wanted and age_s > self._wanted_older_s)
            if not is_old and free >= need_at_least_free_space_size:
                continue
            if age_s > _IN_USE_S and self._delete(path, last_used):
                result.freed += size
        free = disk.free + result.freed
        if free < need_at_least_free_space_size:
            needed = human_bytes_size(need_at_least_free_space_size)
            result.abort_reason = f"{needed} are needed, {human_bytes_size(free)} are free, and the rest is in use"
        return result

    def _update(self, src_filename: str, local: str) -> None:
        """Makes the copy, unless it is there."""
        source = RemoteFile(src_filename) if is_remote(src_filename) else _LocalFile(src_filename)
        size, info = _size_and_version(source)
        folder, name = os.path.split(local)
        with LockFile(folder, f"{name}{_LOCK_SUFFIX}"):
            if not _is_copy(local, info, size):
                self._copy(src_filename, source, local, size)
                info.save(f"{local}{_INFO_SUFFIX}")
            os.utime(local)

    def _copy(self, src_filename: str, source: _LocalFile | RemoteFile, local: str, size: int) -> None:
        reason = self.cleanup(need_at_least_free_space_size=size).abort_reason
        if reason is not None:
            raise UserError(f"file cache: {src_filename!r} does not fit into {self.cache_directory!r}: {reason}.")
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{local}{_INFO_SUFFIX}")
        temporary = f"{local}{_COPY_SUFFIX}"
        try:
            source.copy_to(temporary)
            copied = os.path.getsize(temporary)
            if copied != size:
                raise OSError(None, f"copied {copied} bytes of {size}")
            os.replace(temporary, local)
        finally:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)

    def iter_files(self) -> Iterator[tuple[float, int, str]]:
        """:return: of each copy: last use (seconds since 1970), size in bytes, path"""
        for folder, _, names in os.walk(self.cache_directory):
            for name in names:
                if not name.endswith((_INFO_SUFFIX, _LOCK_SUFFIX)):
                    with contextlib.suppress(FileNotFoundError):
                        stat = os.stat(os.path.join(folder, name))
                        yield stat.st_mtime, stat.st_size, os.path.join(folder, name)

    def _delete(self, path: str, last_used: float) -> bool:
        """:return: whether the file is gone; not if somebody copies it, or has used it since"""
        folder, name = os.path.split(path)
        lock = LockFile(folder, f"{name.removesuffix(_COPY_SUFFIX)}{_LOCK_SUFFIX}")
        if not lock.try_lock():
            return False
        try:
            if os.stat(path).st_mtime != last_used:
                return False
            os.unlink(path)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{path}{_INFO_SUFFIX}")
        except FileNotFoundError:
            return False
        finally:
            lock.unlock()
        with contextlib.suppress(OSError):  # it is not empty
            os.removedirs(folder)
        return True

    def _note_use(self, local: str) -> None:
        with self._used_lock:
            self._used[local] = self._used.get(local, 0) + 1
            if self._stop is None:
                self._stop = threading.Event()
                threading.Thread(target=self._renew, args=(self._stop,), daemon=True).start()

    def _renew(self, stop: threading.Event) -> None:
        while not stop.wait(_RENEW_S):
            with self._used_lock:
                used = list(self._used)
            for local in used:
                with contextlib.suppress(FileNotFoundError):
                    os.utime(local)


class _LocalFile:
    """One file that can be copied."""

    def __init__(self, filename: str) -> None:
        self._filename = filename

    def size_and_version(self) -> tuple[int, int]:
        stat = os.stat(self._filename)
        return stat.st_size, stat.st_mtime_ns

    def copy_to(self, filename: str) -> None:
        shutil.copyfile(self._filename, filename)


def _size_and_version(source: _LocalFile | RemoteFile) -> tuple[int, FileInfo]:
    size, version = source.size_and_version()
    return size, FileInfo(version=version) if isinstance(version, str) else FileInfo(mtime_ns=version)


def _is_copy(local: str, info: FileInfo, size: int) -> bool:
    try:
        return os.path.getsize(local) == size and FileInfo.load(f"{local}{_INFO_SUFFIX}") == info
    except (OSError, ValueError, TypeError):
        return False


def get_instance(config: Any = None) -> FileCache:
    """
    :param config: its option `file_cache_opts` has the arguments of `FileCache`
    :return: the cache; for the same options always the same one
    :raises ConfigError: if there is no such option, or it cannot have this value
    """
    options = (config.options.file_cache_opts if config is not None else None) or {}
    where = "option 'file_cache_opts'"
    defaults = FileCache.__init__.__kwdefaults__ or {}
    for name, value in options.items():
        check_known("key", name, defaults, where=where)
        is_text = isinstance(defaults[name], str)
        if not isinstance(value, str if is_text else (int, float)):
            raise ConfigError(f"{where}: {name!r} has to be a {'text' if is_text else 'number'}, not {value!r}.")
    return _instance(tuple(sorted(options.items())))


@functools.cache
def _instance(options: tuple[tuple[str, Any], ...]) -> FileCache:
    return FileCache(**dict(options))
