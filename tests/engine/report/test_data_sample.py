"""The first sequences of a data set, and whether they fit."""

import numpy
import pytest

from returnn.config import Config
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.registry import init_dataset
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.report import data_sample
from returnn.engine.report.data_sample import limits_of_data, load_sample, used_part
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import ConfigError

LABELS = {"class": "StaticDataset", "data": [{"data": [1, 2]}, {"data": [7, 0]}], "output_dim": {"data": (10, 1)}}


def template(dim):
    return {"data": Tensor("data", dim=dim, sparse=True)}


def test_sample():
    sample = load_sample(init_dataset(LABELS), template(8))
    assert (str(sample), sample.last_labels) == ("all 2 sequences", {"data": {2, 0}})


def test_label_that_the_data_of_the_config_has_not():
    with pytest.raises(ConfigError) as info:
        load_sample(init_dataset(LABELS), template(7))
    assert str(info.value) == (
        "extern_data: 'data' has 7 labels, from 0 to 6, but the sequence 'seq-1' has the label 7."
    )


def test_of_much_data_there_is_a_part(monkeypatch):
    monkeypatch.setattr(data_sample, "_MOST_SEQS", 1)
    assert str(load_sample(init_dataset(LABELS), template(7))) == "the first 1 sequence"


@pytest.mark.parametrize("is_function", [False, True])
def test_all_parts_of_an_epoch_are_looked_at(is_function, monkeypatch):
    seqs = [{"data": [i]} for i in range(7)]
    data = {"class": "StaticDataset", "data": seqs, "output_dim": {"data": (10, 1)}, "partition_epoch": 3}
    inner = (lambda: data) if is_function else data
    meta = {"class": "MetaDataset", "datasets": {"a": inner}, "data_map": {"data": ("a", "data")}}
    sample = load_sample(init_dataset(meta), template(7))
    assert (str(sample), sample.last_labels) == ("all 7 sequences", {"data": set(range(7))})
    two = {"class": "MultiEpochDataset", "multi_epoch": 2, "dataset": inner}
    assert load_sample(init_dataset(two), template(7)).last_labels == {"data": set(range(7))}
    with pytest.raises(ConfigError, match="has the label 6"):
        load_sample(init_dataset(meta), template(6))
    monkeypatch.setattr(data_sample, "_MOST_SEQS", 4)
    assert str(load_sample(init_dataset(meta), template(7))) == "the first 4 sequences"


def test_lengths_of_a_common_dim():
    time = Dim(None, name="time")
    templates = {key: Tensor(key, dims=[batch_dim, time], dtype="int32", sparse_dim=Dim(9)) for key in ("a", "b")}
    dims = {"a": (9, 1), "b": (9, 1)}
    for last, errors in (([1, 1, 2], []), ([1], ["'seq-2' (all 3 sequences): 3 and 1."])):
        seqs = [{"a": [1], "b": [2]}, {"a": [1, 2], "b": [3, 3]}, {"a": [3, 2, 1], "b": last}]
        sample = load_sample(init_dataset({"class": "StaticDataset", "data": seqs, "output_dim": dims}), templates)
        found = list(sample.errors_of_common_dims(templates))
        assert [text.partition("in the sequence ")[2] for text in found] == errors
        assert sample.num_repeats["b"].tolist() == [0, 1, len(last) // 3]
        shorter = used_part(sample, limits_of_data(Config({"max_seq_length": {"a": 2}}), "train"))
        assert (shorter.tags, str(shorter)) == (["seq-0", "seq-1"], "all 3 sequences")
        assert not list(shorter.errors_of_common_dims(templates))
        assert used_part(sample, limits_of_data(Config({"max_seq_length": {"a": 2}}), "eval")) is sample


def test_share_of_unknown_labels():
    vocab = Vocabulary.create_vocab(vocab_file=None, labels=["<unk>", "a", "b"], unknown_label="<unk>")
    unknown = "all 1 sequence; 1 of 4 labels of 'data' unknown (25.0%), first in 'seq-0'"
    for labels, said in (([0, 1, 2, 1], unknown), ([1, 2], "all 1 sequence")):
        dataset = init_dataset({"class": "StaticDataset", "data": [{"data": labels}], "output_dim": {"data": (3, 1)}})
        assert load_sample(dataset, {"data": Tensor("data", sparse=True, vocab=vocab)}).described() == said


def test_a_letter_that_the_vocabulary_has_not(tmp_path):
    (tmp_path / "text").write_text("ab\n" * 2000 + "aq\n" + "ab\n" * 999)
    labels = {"class": "CharacterTargets", "labels": ["<unk>", "a", "b"], "unknown_label": "<unk>"}
    text = {"class": "LmDataset", "corpus_file": str(tmp_path / "text"), "orth_vocab": labels}
    assert load_sample(init_dataset(text), {"data": Tensor("data", dim=3, sparse=True)}).described() == (
        "all 3,000 sequences; 1 of 6,000 labels of 'data' unknown, first in 'line-2000', such as 'q'"
    )


def test_chunks_as_the_training_cuts_them():
    seqs = [{"data": [1, 2, 3, 4], "classes": [1, 2]}]
    dims = {"data": (9, 1), "classes": (9, 1)}
    data = {"class": "StaticDataset", "data": seqs, "output_dim": dims}
    templates = {key: Tensor(key, dim=9, sparse=True) for key in seqs[0]}
    for chunking in (3, "3:2", {"data": 2}, ({"data": 2, "classes": 1}, {"data": 2, "classes": 1})):
        dataset = init_dataset({**data, "chunking": chunking})
        if isinstance(chunking, int | str):
            with pytest.raises(DataError, match="'chunking' gives different numbers of chunks per data key"):
                load_sample(dataset, templates)
            assert load_sample(dataset, template(9)).num_seqs == 1  # nothing uses the other key
        else:
            assert load_sample(dataset, templates).num_seqs == 1


def test_empty_sequences_are_no_error_if_the_training_leaves_them_out():
    data = {**LABELS, "data": [{"data": [1, 2]}, {"data": []}, {"data": [7, 0]}]}
    data["data"] = [{"data": numpy.array(seq["data"], "int32")} for seq in data["data"]]
    limits = limits_of_data(Config({"min_seq_length": {"data": 1}}), "train")
    used = used_part(load_sample(init_dataset(data), template(8), limits=limits), limits)
    assert used.tags == ["seq-0", "seq-2"]
    for other in (None, limits_of_data(Config({"max_seq_length": 9}), "train")):
        with pytest.raises(DataError, match=r"'seq-1': has no frames\.\n  'min_seq_length = {\"data\": 1}' leaves"):
            load_sample(init_dataset(data), template(8), limits=other)
