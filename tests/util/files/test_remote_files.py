"""Files in object stores: copied once, again if they change, and named in errors. The store is one in memory."""

import shutil
import sys

import fsspec
import pytest

from returnn.util.errors import MissingPackageError, UserError
from returnn.util.file_cache import FileCache
from returnn.util.files.remote_files import RemoteFile, is_remote, path_of

URL = "memory://bucket/far/away.txt"


@pytest.fixture
def cache(tmp_path):
    return FileCache(cache_directory=str(tmp_path / "cache"), cleanup_disk_usage_wanted_free_ratio=0.0, num_tries=2)


@pytest.fixture
def store():
    files = fsspec.filesystem("memory")
    files.pipe("/bucket/far/away.txt", b"first")
    yield files
    files.rm("/bucket", recursive=True)


def content_of(path):
    with open(path, "rb") as file:
        return file.read()


def test_copy_is_made_once(cache, store, monkeypatch):
    local = cache.get_file(URL)
    assert local == f"{cache.cache_directory}/memory/bucket/far/away.txt"
    assert content_of(local) == b"first"
    monkeypatch.setattr(RemoteFile, "copy_to", lambda *_: pytest.fail("copied again"))
    assert cache.get_file(URL) == local


def test_copy_of_a_file_that_changed_is_made_again(cache, store):
    cache.get_file(URL)
    store.pipe("/bucket/far/away.txt", b"other")  # of the same size
    assert content_of(cache.get_file(URL)) == b"other"


def test_copy_that_was_cut_off_is_an_error_and_none(cache, store, monkeypatch):
    def cut(self, filename):
        with open(filename, "wb") as file:
            file.write(b"fir")

    monkeypatch.setattr(RemoteFile, "copy_to", cut)
    with pytest.raises(UserError, match=r"^file cache: 'memory://bucket/far/away.txt' to .*: copied 3 bytes of 5\.$"):
        cache.get_file(URL)
    monkeypatch.undo()
    assert content_of(cache.get_file(URL)) == b"first"


def test_file_that_is_not_there(cache):
    with pytest.raises(UserError, match=r"file cache: 'memory://nothing\.hdf' to"):
        cache.get_file("memory://nothing.hdf")


def test_unknown_kind_of_store(cache):
    with pytest.raises(UserError, match="the file 'tape://x' cannot be read: Protocol not known: tape"):
        cache.get_file("tape://x")


def test_without_the_package(cache, monkeypatch):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(MissingPackageError, match="'fsspec' is needed for the file 'memory://bucket") as caught:
        cache.get_file(URL)
    assert "pip install fsspec" in str(caught.value)


def test_without_the_package_of_the_store(cache, monkeypatch):
    def url_to_fs(url):
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr(fsspec.core, "url_to_fs", url_to_fs)
    with pytest.raises(MissingPackageError, match=r"'s3://bucket/x'\.\n  Install s3fs to access S3"):
        cache.get_file("s3://bucket/x")


def test_copies_are_inside_of_the_folder(tmp_path):
    assert path_of("s3://bucket/a//b.hdf") == "s3/bucket/a/b.hdf"
    assert path_of("s3://../../etc/passwd") == "s3/etc/passwd"
    assert not is_remote(str(tmp_path))


def test_local_files_by_url(cache, tmp_path):
    (tmp_path / "x.txt").write_text("local")
    local = cache.get_file(f"file://{tmp_path}/x.txt")
    assert content_of(local) == b"local"
    shutil.rmtree(cache.cache_directory)
