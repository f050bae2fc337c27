"""Warnings of labels that a model cannot learn from its data."""

import pytest

from returnn.datasets.core.registry import init_dataset
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.report import data_sample
from returnn.engine.report.compared_lengths import ComparedDims
from returnn.engine.report.data_sample import load_sample
from returnn.engine.report.label_warnings import end_label_warnings, unknown_label_warnings
from returnn.tensor import Dim, Tensor, batch_dim

END, UNKNOWN, WORD = range(3)
LABELS = ["</s>", "<unk>", "word"]


def templates(**options):
    vocab = Vocabulary.create_vocab(vocab_file=None, labels=LABELS, unknown_label="<unk>", **options)
    return {"data": Tensor("data", sparse=True, vocab=vocab)}


def sample(*seqs, **options):
    data = {"class": "StaticDataset", "data": [{"data": seq} for seq in seqs], "output_dim": {"data": (3, 1)}}
    return load_sample(init_dataset(data), templates(**options))


def test_unknown_label_that_the_training_has_not():
    known, one_of_four, few = sample([WORD, WORD]), sample([WORD] * 3 + [UNKNOWN]), sample([WORD] * 1999 + [UNKNOWN])
    (text,) = unknown_label_warnings({"train": known, "dev": one_of_four, "eval": few})
    assert text.startswith(
        "data 'dev': 1 of 4 labels of 'data' are '<unk>', of which 'train' has none (all 1 sequence)"
    )
    assert "'--size' of `returnn tool make-vocab`" in text
    assert not list(unknown_label_warnings({"train": one_of_four, "dev": one_of_four}))
    assert not list(unknown_label_warnings({"dev": one_of_four}))


@pytest.mark.parametrize(("num_labels", "warns"), [(3, False), (4, True)])
def test_what_is_seen_of_the_training_is_as_much_as_what_others_have(num_labels, warns, monkeypatch):
    monkeypatch.setattr(data_sample, "_MOST_SEQS", 1)
    samples = {"train": sample([WORD] * num_labels, [WORD]), "dev": sample([WORD] * 3 + [UNKNOWN])}
    assert bool(list(unknown_label_warnings(samples))) == warns


@pytest.mark.parametrize("end", [{}, {"eos_label": "</s>"}])
@pytest.mark.parametrize("last", [[], [END]])
def test_label_of_the_end_that_is_nowhere(end, last):
    samples = [sample([WORD, *last], [WORD, WORD], **end)]
    found = list(end_label_warnings([], {"data"}, samples, templates(**end)))
    assert bool(found) == (bool(end) and not last)
    assert all("'</s>' is the end, but no sequence ends with it" in text for text in found)
    assert all("'seq_postfix' of the vocabulary puts it there" in text for text in found)
    of_ctc = ComparedDims("ctc", "data", Dim(None), Dim(None), "output", needs_blanks=True)
    assert not list(end_label_warnings([of_ctc], {"data"}, samples, templates(**end)))


@pytest.mark.parametrize(("num_frames", "num_labels", "is_predicted", "warns"), [
    ((2, 3), 5, False, False),  # tags of the letters
    ((2, 3), 5, True, True),  # two texts
    ((2, 4), 5, False, True),  # a translation
    ((2, 3), 3, False, True),  # the text itself, delayed
])  # fmt: skip
def test_labels_of_the_frames_of_other_data_have_no_end(num_frames, num_labels, is_predicted, warns):
    other = Tensor("other", dims=[batch_dim, Dim(None)], dtype="int32", sparse_dim=Dim(num_labels))
    keys = {**templates(eos_label="</s>"), "other": other}
    seqs = [{"data": [WORD] * n, "other": [0] * frames} for n, frames in zip((2, 3), num_frames, strict=True)]
    sizes = {"data": (3, 1), "other": (num_labels, 1)}
    dataset = init_dataset({"class": "StaticDataset", "data": seqs, "output_dim": sizes})
    predicted = {"data", "other"} if is_predicted else {"data"}
    assert bool(list(end_label_warnings([], predicted, [load_sample(dataset, keys)], keys))) == warns
