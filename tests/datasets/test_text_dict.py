from __future__ import annotations

import gzip

import numpy
import pytest

from returnn.datasets.text_dict import TextDictDataset
from returnn.util.errors import ConfigError, UserError
from tests.datasets.corpus_checks import check_corpus_dataset, seqs_of_epoch

VOCAB = {"class": "CharacterTargets", "labels": list("abc"), "unknown_label": None}


def write(path, content):
    path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
    return str(path)


@pytest.fixture
def single(tmp_path):
    return write(tmp_path / "out.py", "{'s1': 'ab',\n's2': 'c',\n's3': 'aab'}")


@pytest.fixture
def nbest(tmp_path):
    return write(tmp_path / "out.py.gz", "{'s1': [(-0.5, 'ab'), (-7.5, 'c')],\n's2': [(-1, 'b')], 's3': [(0.0, 'a')]}")


def test_properties(single, nbest):
    check_corpus_dataset(lambda **opts: TextDictDataset(filename=single, vocab=VOCAB, item_format="single", **opts))
    check_corpus_dataset(lambda **opts: TextDictDataset(filename=nbest, vocab=VOCAB, **opts))


def test_single(single):
    dataset = TextDictDataset(filename=single, vocab=VOCAB, item_format="single")
    dataset.init_seq_order()
    assert [(tag, data["data"].tolist()) for tag, data in seqs_of_epoch(dataset)] == [
        ("s1", [0, 1]),
        ("s2", [2]),
        ("s3", [0, 0, 1]),
    ]


def test_list_with_scores(nbest):
    dataset = TextDictDataset(filename=nbest, vocab=VOCAB)
    dataset.init_seq_order(seq_list=["s1"])
    [(_, data)] = seqs_of_epoch(dataset)
    assert data["data_flat"].tolist() == [0, 1, 2]
    assert data["data_seq_lens"].tolist() == [2, 1]
    numpy.testing.assert_array_equal(data["scores"], numpy.array([-0.5, -7.5], "float32"))


@pytest.mark.parametrize(
    ("content", "opts", "message"),
    [
        ("{'a': 'b'", {}, "it is no Python dict: "),
        ("['a']", {}, "expected a dict of texts, got a list"),
        ("{}", {}, "expected a dict of texts, got an empty dict"),
        ("{'s': 'b'}", {}, r"sequence 's': expected a list of \(score, text\), got 'b'"),
        ("{'s': [(0, 'b')]}", {"item_format": "single"}, r"sequence 's': expected a text, got \[\(0, 'b'\)\]"),
        ("{'s': 'b'}", {"item_format": "one"}, "there is no item_format 'one'"),
    ],
)
def test_wrong_input_is_named(tmp_path, content, opts, message):
    with pytest.raises(UserError, match=message) as error:
        TextDictDataset(filename=write(tmp_path / "x", content), vocab=VOCAB, **opts)
    assert isinstance(error.value, ConfigError) or f"File: {tmp_path / 'x'}" in str(error.value)


def test_unknown_label_is_named(tmp_path):
    dataset = TextDictDataset(filename=write(tmp_path / "x", "{'s': 'ax'}"), vocab=VOCAB, item_format="single")
    dataset.init_seq_order()
    with pytest.raises(UserError, match=r"TextDictDataset: sequence 's': vocabulary .*: there is no label 'x'"):
        dataset.load_seqs(0, 1)
