"""Local copies of files: complete, up to date, shared, deleted when they are not needed."""

import os
import pathlib
import shutil
import time

import numpy
import pytest

from returnn.config import Config, global_config_ctx
from returnn.datasets import init_dataset
from returnn.datasets.hdf.hdf_writer import SimpleHDFWriter
from returnn.util import file_cache
from returnn.util.errors import ConfigError, UserError
from returnn.util.file_cache import CachedFile, FileCache, get_instance

DAY_S = 24 * 60 * 60


@pytest.fixture
def cache(tmp_path):
    return FileCache(cache_directory=str(tmp_path / "cache"), cleanup_disk_usage_wanted_free_ratio=0.0)


@pytest.fixture
def original(tmp_path):
    path = tmp_path / "far" / "away.txt"
    path.parent.mkdir()
    path.write_text("first")
    return path


def last_used(path, days_ago):
    os.utime(path, (time.time() - days_ago * DAY_S,) * 2)


def text_of(path):
    return pathlib.Path(path).read_text()


def files_in(cache):
    return sorted(name for _, _, names in os.walk(cache.cache_directory) for name in names)


def test_copy_is_made_once(cache, original, monkeypatch):
    local = cache.get_file(str(original))
    assert local.startswith(cache.cache_directory)
    monkeypatch.setattr(shutil, "copyfile", lambda *_: pytest.fail("copied again"))
    assert cache.get_file(str(original)) == local
    assert text_of(local) == "first"
    assert files_in(cache) == ["away.txt", "away.txt.returnn-info"]


def test_copy_of_a_file_that_changed_is_made_again(cache, original):
    local = cache.get_file(str(original))
    original.write_text("other")  # of the same size
    last_used(original, days_ago=1)
    assert text_of(cache.get_file(str(original))) == "other" == text_of(local)


def test_copy_whose_version_is_unknown_is_made_again(cache, original):
    local = cache.get_file(str(original))
    for broken in ("", "[]", '{"size": 1}'):
        with open(f"{local}.returnn-info", "w") as file:
            file.write(broken)
        with open(local, "w") as file:
            file.write("wrong")
        assert text_of(cache.get_file(str(original))) == "first"


def test_copying_is_tried_again(cache, original, monkeypatch):
    copy, attempts = shutil.copyfile, []

    def fails_at_first(source, target):
        attempts.append(source)
        if len(attempts) < 3:
            raise OSError(5, "Input/output error")
        copy(source, target)

    monkeypatch.setattr(shutil, "copyfile", fails_at_first)
    assert text_of(cache.get_file(str(original))) == "first"
    monkeypatch.setattr(shutil, "copyfile", lambda *_: (_ for _ in ()).throw(OSError(5, "Input/output error")))
    original.write_text("new one")
    with pytest.raises(UserError, match=r"^file cache: '.*/away.txt' to '.*/away.txt': Input/output error\.$"):
        cache.get_file(str(original))
    assert not [name for name in files_in(cache) if "copy" in name or "lock" in name]


def test_original_that_is_not_there(cache, tmp_path):
    with pytest.raises(UserError, match=r"^file cache: .*nothing.hdf' to .*: No such file or directory\.$"):
        cache.get_file(str(tmp_path / "nothing.hdf"))


def test_what_was_not_used_for_long_is_deleted(cache, original):
    local = cache.get_file(str(original))
    last_used(local, days_ago=30)
    assert cache.cleanup().freed == 0
    last_used(local, days_ago=32)
    assert cache.cleanup().freed == 5
    assert files_in(cache) == []


def test_what_was_not_used_today_is_deleted_if_the_disk_is_rather_full(tmp_path, original):
    cache = FileCache(cache_directory=str(tmp_path / "cache"), cleanup_disk_usage_wanted_free_ratio=1.0)
    local = cache.get_file(str(original))
    last_used(local, days_ago=0.9)
    assert cache.cleanup().freed == 0
    last_used(local, days_ago=1.1)
    assert cache.cleanup().freed == 5


def test_what_is_in_use_stays_although_the_disk_is_full(cache, original):
    unused = original.with_name("unused.txt")
    unused.write_text("12345678")
    last_used(cache.get_file(str(unused)), days_ago=0.1)
    cache.get_file(str(original))
    result = cache.cleanup(need_at_least_free_space_size=2**60)
    assert result.freed == 8
    assert result.abort_reason.startswith("1024.0PB are needed, ")
    assert files_in(cache) == ["away.txt", "away.txt.returnn-info"]


def test_disk_that_is_too_small(cache, original, monkeypatch):
    usage = shutil.disk_usage(original.parent)._replace(free=4)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(UserError, match=r"away.txt' does not fit into .*: 5B are needed, 4B are free, and the rest is"):
        cache.get_file(str(original))


def test_times_of_used_files_are_renewed_until_they_are_released(cache, original, monkeypatch):
    monkeypatch.setattr(file_cache, "_RENEW_S", 0.001)
    local = cache.get_file(str(original))
    last_used(local, days_ago=2)
    while time.time() - os.stat(local).st_mtime > DAY_S:
        time.sleep(0.001)
    cache.release_files([local])
    assert cache._stop is None


def test_options_of_a_config(tmp_path):
    config = Config({"file_cache_opts": {"cache_directory": f"{tmp_path}/$USER/files"}})
    assert get_instance(config) is get_instance(config) is not get_instance()
    assert "$" not in get_instance(config).cache_directory + get_instance().cache_directory
    with pytest.raises(ConfigError, match=r"^option 'file_cache_opts': there is no key 'cache_dir'\.\n  Did you mean"):
        get_instance(Config({"file_cache_opts": {"cache_dir": "x"}}))
    with pytest.raises(ConfigError, match=r"^option 'file_cache_opts': 'num_tries' has to be a number, not \['3'\]\.$"):
        get_instance(Config({"file_cache_opts": {"num_tries": ["3"]}}))


def test_files_of_a_data_set(tmp_path):
    with SimpleHDFWriter(str(tmp_path / "data.hdf"), dim=3) as writer:
        writer.insert_batch(numpy.zeros((1, 4, 3), "float32"), {0: [4]}, ["seq-0"])
    config = Config({"file_cache_opts": {"cache_directory": f"{tmp_path}/cache"}})
    with global_config_ctx(config):
        dataset = init_dataset({"class": "HDFDataset", "files": [CachedFile(str(tmp_path / "data.hdf"))]})
    dataset.init_seq_order(epoch=1)
    assert dataset.num_seqs == 1
    assert os.path.exists(f"{tmp_path}/cache{tmp_path}/data.hdf")


def test_sequences_are_not_copied(cache, original):
    seqs = [{"data": numpy.zeros(3)}]
    options, used = cache.handle_cached_files_in_config({"data": seqs, "files": [CachedFile(str(original))]})
    assert options["data"] is seqs
    assert options["files"] == used
