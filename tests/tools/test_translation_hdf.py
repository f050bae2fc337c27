"""A parallel corpus as a HDF file."""

import pickle

import h5py
import pytest

from returnn.datasets.hdf import HDFDataset
from returnn.tools.commands.data import hdf_dump_translation_dataset


@pytest.fixture
def corpus(tmp_path):
    """:return: arguments of the tool, without the number of lines"""
    (tmp_path / "source").write_text("a b a\nb b\nb\n", encoding="utf8")
    (tmp_path / "target").write_text("x\ny x\nz z y\n", encoding="utf8")
    (tmp_path / "source.vocab").write_text("a\nb\n", encoding="utf8")
    (tmp_path / "target.vocab.pkl").write_bytes(pickle.dumps({"x": 0, "y": 1, "z": 2}))
    names = {"-s": "source", "-t": "target", "-v": "source.vocab", "-w": "target.vocab.pkl", "-o": "out.hdf"}
    return [text for option, name in names.items() for text in (option, tmp_path / name)]


def _read(filename, keys):
    dataset = HDFDataset([str(filename)])
    dataset.init_seq_order(1)
    dataset.load_seqs(0, dataset.num_seqs)
    return [[dataset.get_data(i, key).tolist() for key in keys] for i in range(dataset.num_seqs)], dataset


@pytest.mark.parametrize("options", [[], ["-l", 1, "-d", 1], ["-c", "gzip"]], ids=str)
def test_lines_become_sequences(tool, corpus, tmp_path, options):
    status, out, err = tool("hdf_dump_translation_dataset", *corpus, "-n", 3, *options)
    assert (status, out, err) == (0, f"wrote {tmp_path / 'out.hdf'}: 3 lines, 12 words\n", "")
    seqs, dataset = _read(tmp_path / "out.hdf", ["data", "classes"])
    assert seqs == [[[0, 1, 0], [0]], [[1, 1], [1, 0]], [[1], [2, 2, 1]]]
    assert dataset.labels == {"data": ["a", "b"], "classes": ["x", "y", "z"]}
    with h5py.File(tmp_path / "out.hdf") as file:
        assert file["inputs"].compression == ("gzip" if "-c" in options else None)


def test_factors_have_data_keys_of_their_own(tool, corpus, tmp_path):
    (tmp_path / "source").write_text("a|N b|V\n", encoding="utf8")
    (tmp_path / "tags").write_text("V\nN\n", encoding="utf8")
    corpus[corpus.index("-v") + 1] = f"{tmp_path / 'source.vocab'},{tmp_path / 'tags'}"
    assert tool("hdf_dump_translation_dataset", *corpus, "-n", 1, "--source_factors", "tag")[0] == 0
    assert _read(tmp_path / "out.hdf", ["data", "tag", "classes"])[0] == [[[0, 1], [1, 0], [0]]]


def test_what_is_wrong(tool, corpus, tmp_path):
    assert tool("hdf_dump_translation_dataset", *corpus, "-n", 4)[2] == (
        f"error: file {str(tmp_path / 'source')!r} has only 3 lines, 4 are wanted.\n"
    )
    (tmp_path / "target").write_text("x\nq\n", encoding="utf8")
    assert tool("hdf_dump_translation_dataset", *corpus, "-n", 2)[2] == (
        f"error: file {str(tmp_path / 'target')!r}, line 2: 'q' is not in the vocabulary of 'classes'.\n"
        "  Option '--unknown_label' names a label for such words.\n"
    )
    (tmp_path / "source").write_text("a\n\n", encoding="utf8")
    assert tool("hdf_dump_translation_dataset", *corpus, "-n", 2)[2] == (
        f"error: file {str(tmp_path / 'source')!r}, line 2: it is empty, and a sequence has to have words.\n"
    )
    assert not (tmp_path / "out.hdf").exists()
    assert tool("hdf_dump_translation_dataset", *corpus, "-n", 1, "-c", "zip")[2].startswith(
        "error: option '--compression': there is no compression 'zip'.\n"
    )


def test_the_help_says_what_is_not_written():
    assert "no label of the end" in " ".join(hdf_dump_translation_dataset.make_parser().format_help().split())
