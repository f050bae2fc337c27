"""The layer `ctc_decode`: best path, prefix beam search, lexicon, language model."""

import importlib.util
import os
import sys

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config
from returnn.tf.frontend_low_level.kernels import alignments
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError
from returnn.util.numbers.ctc_search import CtcSearch
from returnn.util.system.warn_once import forget_shown

tf1 = tf.compat.v1
ARPA = """
\\data\\
ngram 1=5
ngram 2=1

\\1-grams:
0\t<s>\t0
-1\t</s>\t0
-9\t<unk>\t0
-0.1\ta\t0
-3\tb\t0

\\2-grams:
-0.1\t<s> a

\\end\\
"""
LABELS = ["a", "b", "c"]
LENGTHS = [7, 5, 1]


def frames(seed=1, classes=4):
    logits = numpy.random.RandomState(seed).normal(size=(len(LENGTHS), max(LENGTHS), classes)).astype("float32") * 3
    return logits - numpy.log(numpy.exp(logits).sum(-1, keepdims=True))


def decode(values, *, with_vocab=True, **options):
    """:return: for each sequence the labels; and the dim of the labels"""
    vocab = {"vocab": {"class": "Vocabulary", "labels": LABELS, "vocab_file": None, "unknown_label": None}}
    classes = {"dim": 3, "sparse": True, **(vocab if with_vocab else {})}
    config = Config({"extern_data": {"data": {"dim": values.shape[-1]}, "classes": classes}, "behavior_version": 30})
    layer = {"class": "ctc_decode", "from": "data", "target": "classes", "input_type": "log_prob", **options}
    net_dict = {"output": layer}
    with tf.Graph().as_default(), rf.backend_ctx("tf"), tf1.Session() as session:
        network = TFNetwork(config=config, search_flag=True)
        network.construct_from_dict(net_dict)
        data = network.extern_data.get_default_input_data()
        out = network.get_layer("output").output.copy_as_batch_major()
        feed = {data.raw_tensor: values, data.get_time_dim_tag().dyn_size: LENGTHS, data.batch.dim: len(LENGTHS)}
        labels, lengths = session.run([out.raw_tensor, out.get_time_dim_tag().dyn_size], feed)
    return [row[:length].tolist() for row, length in zip(labels, lengths, strict=True)], out.sparse_dim


def best_paths(values, blank):
    paths = [seq[:length].argmax(-1).tolist() for seq, length in zip(values, LENGTHS, strict=True)]
    return [[b for a, b in zip([None, *path], path, strict=False) if a != b and b != blank] for path in paths]


def test_best_path():
    found, dim = decode(frames())
    assert found == best_paths(frames(), 3)
    assert dim.vocab.labels == LABELS
    without_target, dim = decode(frames(), target=None, blank_index=0)
    assert without_target == best_paths(frames(), 0)
    assert dim.dimension == 4


@pytest.mark.parametrize("blank", [0, 1, 2, -3])
def test_blank_can_be_a_label(blank):
    found, dim = decode(frames(classes=3), blank_index=blank)
    assert found == best_paths(frames(classes=3), blank % 3)
    assert dim.vocab.labels == LABELS


def test_the_last_class_from_the_end_is_the_one_behind_the_labels():
    with pytest.raises(ConfigError) as info:
        decode(frames(classes=3))
    assert str(info.value).endswith(
        "has 3 classes, of which 2 is blank, but the target 'classes' has 3 labels.\n  Either blank is the class behind"
        " the labels, the default of 'blank_index': 'n_out' 4. Or 'blank_index' names a label that is in no target:"
        " 'n_out' 3."
    )


@pytest.mark.parametrize(("target", "blank"), [("classes", -1), (None, 0), (None, 1)])
def test_searches_of_tensorflow_and_of_python_agree(target, blank):
    options = {"target": target, "blank_index": blank, "beam_size": 20}
    found, _ = decode(frames(), **options)
    search = CtcSearch(20, blank=blank)
    assert found == [list(search.best(seq[:length])[0][0]) for seq, length in zip(frames(), LENGTHS, strict=True)]
    assert decode(frames(), insertion_score=1e-9, **options)[0] == found
    longer, _ = decode(frames(), insertion_score=5.0, **options)
    assert sum(map(len, longer)) > sum(map(len, found))


@pytest.mark.parametrize("options", [{}, {"insertion_score": 1e-9}])
def test_the_best_of_several_hypotheses(options, monkeypatch):
    expected, _ = decode(frames(), beam_size=8)
    found, _ = decode(frames(), beam_size=8, num_best=5, **options)  # batch and beam are one axis
    assert found[::5] == expected
    monkeypatch.setattr(alignments, "ctc_beam_search", lambda *args, **options: None)  # nothing can be compiled
    assert decode(frames(), beam_size=8, num_best=5, **options)[0] == found


def test_kinds_of_input():
    log_prob = frames()
    expected, _ = decode(log_prob, beam_size=8)
    assert decode(numpy.exp(log_prob), input_type="prob", beam_size=8)[0] == expected
    assert decode(log_prob + 5, input_type="logits", beam_size=8)[0] == expected
    assert decode(log_prob + 5, input_type="logits", beam_size=8, insertion_score=1e-9)[0] == expected


def test_words_of_a_lexicon(tmp_path):
    (tmp_path / "lexicon").write_text("ab a b\nca c a\n")
    path = [0, 0, 3, 1, 2, 3, 0]  # a b c a
    values = numpy.full((3, 7, 4), -5.0, "float32")
    for frame, label in enumerate(path):
        values[:, frame, label] = -0.1
    found, dim = decode(values, beam_size=10, lexicon=str(tmp_path / "lexicon"))
    assert dim.vocab.labels == ["ab", "ca"]
    assert found == [[0, 1], [0], []]


def test_language_model_without_its_package(tmp_path, monkeypatch):
    """Said when the layer is made, so that `check` finds it."""
    (tmp_path / "lm").write_text(ARPA)
    monkeypatch.delitem(sys.modules, "kenlm", raising=False)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"layer .*: The package 'kenlm' is needed for language models by KenLM\."):
        decode(numpy.zeros((1, 7, 4), "float32"), beam_size=10, lm_file=str(tmp_path / "lm"))


def test_language_model(tmp_path, caplog):
    forget_shown()
    pytest.importorskip("kenlm")
    (tmp_path / "lm").write_text(ARPA)
    values = numpy.log(numpy.array([[[0.3, 0.4, 0.1, 0.2]] * 7] * 3, "float32"))
    alone, _ = decode(values, beam_size=10)
    assert alone[2] == [1]
    strong, _ = decode(values, beam_size=10, lm_file=str(tmp_path / "lm"), lm_scale=1.0)
    assert strong[2] == [0]
    weak, _ = decode(values, beam_size=10, lm_file=str(tmp_path / "lm"), lm_scale=1e-6)
    assert weak[2] == [1]
    assert "lm' has 2 of 3 labels; the others are scored as '<unk>': 'c'\n" in caplog.text


def test_scale_of_no_language_model(caplog):
    forget_shown()
    decode(frames(), lm_scale=2.0)
    assert "option 'lm_scale' does nothing without 'lm_file'." in caplog.text


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"beam_size": 0}, "option 'beam_size': expected a number above 0, got 0."),
        ({"num_best": 2}, "option 'num_best': expected a number from 1 to 'beam_size', 1, got 2."),
        ({"input_type": "log"}, "there is no input_type 'log'"),
        ({"lexicon": "x"}, "'lexicon', 'lm_file' and 'insertion_score' need a 'beam_size' above 1."),
        ({"blank_index": 4}, "option 'blank_index': 4 of 4 classes."),
        (
            {"blank_index": 0},
            "the source 'data' has 4 classes, of which 0 is blank, but the target 'classes' has 3 labels.\n"
            "  A label is the class of the same index, not shifted for blank: 'n_out' 3, if label 0 is in no target."
            " Otherwise, blank is the class behind the labels, the default of 'blank_index': 'n_out' 4.",
        ),
        ({"lexicon": "x", "beam_size": 2, "loss": "edit_distance"}, "so that no 'loss' can compare them."),
        ({"lexicon": "x", "beam_size": 2}, "option 'lexicon': there is no file 'x'."),
        ({"lm_file": "x", "beam_size": 2}, "option 'lm_file': there is no file 'x'."),
        ({"lexicon": os.devnull, "beam_size": 2, "with_vocab": False}, "option 'lexicon': the names of the labels are"),
    ],
    ids=str,
)
def test_wrong_options(options, message):
    with pytest.raises(ConfigError) as info:
        decode(frames(), **options)
    assert message in str(info.value)
