"""The option `use_cache_manager` of data sets: files are read where the command `cf` has put them."""

from __future__ import annotations

from pathlib import Path

import pytest

from returnn.datasets.core.registry import init_dataset
from returnn.util.errors import UserError
from returnn.util.files import cache_manager

from .cases import CASES
from .corpus_checks import assert_equal_seqs, seqs_of_epoch

FILES = {
    "HDFDataset": ["static.hdf"],
    "HDFDataset, two files": ["static.hdf", "dummy.hdf"],
    "LmDataset": ["text"],
    "OggZipDataset": ["train.ogg.zip"],
    "TranslationDataset": ["source.train", "target.train", "source.vocab.pkl", "target.vocab.pkl"],
    "TranslationFactorsDataset": [
        "source.train",
        "target.train",
        "source.vocab.pkl",
        "source.pos.vocab.pkl",
        "target.vocab.pkl",
        "case.vocab.pkl",
    ],
    "ConcatSeqsDataset": ["list.txt", "part-lens.txt"],
}


@pytest.fixture
def local(tmp_path, monkeypatch):
    """The folder of local copies. What is there is no more where it was, so nobody can read it there."""
    folder = tmp_path / "local"
    folder.mkdir()
    command = tmp_path / "bin/cf"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nmv "$1" {folder} && echo {folder}/"$(basename "$1")"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{command.parent}:/bin:/usr/bin")
    monkeypatch.setattr(cache_manager, "_local_files", {})
    return folder


def epoch_of(options):
    dataset = init_dataset(options)
    dataset.init_seq_order(1)
    return seqs_of_epoch(dataset)


@pytest.mark.parametrize("name", FILES)
def test_files_are_read_where_the_cache_manager_has_put_them(name, tmp_path, local):
    options = CASES[name](tmp_path)
    plain = epoch_of(options)
    assert_equal_seqs(epoch_of({**options, "use_cache_manager": True}), plain)
    assert sorted(path.name for path in local.iterdir()) == sorted(FILES[name])


@pytest.mark.parametrize("name", FILES)
def test_without_a_cache_manager_files_are_read_where_they_are(name, tmp_path, monkeypatch):
    options = CASES[name](tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(cache_manager, "_local_files", {})
    assert_equal_seqs(epoch_of({**options, "use_cache_manager": True}), epoch_of(options))


@pytest.mark.parametrize("name", FILES)
def test_file_that_the_cache_manager_does_not_find_is_named(name, tmp_path, local):
    options = CASES[name](tmp_path)
    Path(local.parent / "bin/cf").write_text("#!/bin/sh\necho no space >&2; exit 1\n")
    with pytest.raises(UserError, match=f"The cache manager failed: cf '.*{FILES[name][0]}': no space"):
        init_dataset({**options, "use_cache_manager": True})
