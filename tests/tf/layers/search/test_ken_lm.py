"""The layer `kenlm`, and scores by KenLM."""

from __future__ import annotations

import math

import numpy
import pytest
import tensorflow as tf

from returnn.tensor.dim import single_step_dim
from returnn.tf.util import ken_lm
from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import EXTERN_DATA, SearchNet, construct, labels

pytest.importorskip("kenlm")

ARPA = """
\\data\\
ngram 1=6
ngram 2=3

\\1-grams:
-1.1\t<unk>\t0
0\t<s>\t-0.4
-0.9\t</s>\t0
-0.7\tthe\t-0.35
-1.3\tcat\t-0.2
-1.6\tsat\t0

\\2-grams:
-0.2\t<s> the
-0.5\tthe cat
-0.3\tcat </s>

\\end\\
"""
LABELS = ["the", "ca@@", "t", "</s>"]


@pytest.fixture
def lm_file(tmp_path):
    path = tmp_path / "lm.arpa"
    path.write_text(ARPA)
    return str(path)


@pytest.fixture
def vocab_file(tmp_path):
    path = tmp_path / "vocab.py"
    path.write_text(repr({label: i for i, label in enumerate(LABELS)}))
    return str(path)


def natural(*log10: float) -> float:
    return sum(log10) * math.log(10)


def test_score_is_the_natural_log_of_the_sentence_so_far(lm_file):
    model = ken_lm.ken_lm_load(lm_file)
    assert model.score([]) == 0
    assert model.score(["the", "cat", "</s>"]) == pytest.approx(natural(-0.2, -0.5, -0.3))
    assert model.score(["cat"]) == pytest.approx(natural(-0.4, -1.3))  # by back-off


def test_a_known_begin_of_the_text_changes_nothing(lm_file, monkeypatch):
    texts = [["the", "cat", "sat"], ["the", "cat"], ["the", "cat", "sat", "the"], ["cat"]]
    want = [ken_lm.KenLm(lm_file).score(text) for text in texts]
    model = ken_lm.KenLm(lm_file)
    assert [model.score(text) for text in texts] == pytest.approx(want)
    monkeypatch.setattr(ken_lm, "_MAX_STATES", 1)
    model = ken_lm.KenLm(lm_file)
    assert [model.score(text) for text in texts] == pytest.approx(want)


@pytest.mark.parametrize(
    ("text", "words"),
    [("the ca@@ t ", ["the", "cat"]), ("ca@@ ", ["ca@@"]), ("a@@ b@@ c d", ["abc", "d"]), ("", [])],
)
def test_subwords_become_words(text, words):
    assert ken_lm.words_of(text, "@@") == words
    assert ken_lm.words_of(text) == text.split()


def test_scores_of_labels_are_those_of_the_longer_strings(lm_file):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        model = ken_lm.ken_lm_load(lm_file)
        nexts = tf.constant(["cat", "ca@@", "</s>"])
        dense = ken_lm.ken_lm_abs_score_bpe_strings_dense(model, "@@", tf.constant(["the ", ""]), nexts)
        longer = tf.constant([["the cat", "the ca@@", "the </s>"], ["cat", "ca@@", "</s>"]])
        got, want = session.run([dense, ken_lm.ken_lm_abs_score_bpe_strings(model, "@@", longer)])
        numpy.testing.assert_allclose(got, want, rtol=1e-6)
        unmerged = session.run(ken_lm.ken_lm_abs_score_strings(model, tf.constant(["the cat"])))
        numpy.testing.assert_allclose(unmerged, [natural(-0.2, -0.5)], rtol=1e-6)


def net_of(*, in_loop: bool, **options):
    layer = {"class": "kenlm", "from": "data:source" if in_loop else "data:classes", **options}
    if in_loop:
        return {"output": {"class": "rec", "from": "data:classes", "unit": {"output": layer}}}
    return {"output": layer}


def scores(net_dict, rows):
    net = SearchNet(net_dict, search=False)
    (out, (lengths,)) = net.run(classes=labels(rows), data=(numpy.zeros((len(rows), 1, 3)), [1] * len(rows)))["output"]
    return [row[:n] for row, n in zip(out, lengths, strict=True)]


@pytest.mark.parametrize("in_loop", [False, True])
def test_each_label_is_scored_by_what_was_before(lm_file, vocab_file, in_loop):
    net_dict = net_of(in_loop=in_loop, lm_file=lm_file, vocab_file=vocab_file, bpe_merge_symbol="@@")
    got = scores(net_dict, [[0, 1, 2, 3], [1, 2]])
    unfinished = natural(-0.35, -1.1)
    want = [natural(-0.2), unfinished, natural(-0.5) - unfinished, natural(-0.3)]
    numpy.testing.assert_allclose(got[0], want, rtol=1e-5)
    numpy.testing.assert_allclose(got[1], [natural(-0.4, -1.1), natural(-0.4, -1.3) - natural(-0.4, -1.1)], rtol=1e-5)


@pytest.mark.parametrize("in_loop", [False, True])
def test_dense_output_has_the_score_of_each_label_that_could_come_next(lm_file, vocab_file, in_loop):
    options = {"in_loop": in_loop, "lm_file": lambda: lm_file, "vocab_file": vocab_file, "bpe_merge_symbol": "@@"}
    row = [0, 1, 2, 3]
    (dense,) = scores(net_of(dense_output=True, **options), [row])
    (single,) = scores(net_of(**options), [row])
    numpy.testing.assert_allclose([dense[t, row[t + 1]] for t in range(3)], single[1:], rtol=1e-5)


@pytest.mark.parametrize("in_loop", [False, True])
def test_the_first_inputs_can_be_left_out(lm_file, vocab_file, in_loop):
    options = {"in_loop": in_loop, "lm_file": lm_file, "vocab_file": vocab_file}
    (got,) = scores(net_of(input_step_offset=1, **options), [[3, 0, 3]])
    (want,) = scores(net_of(**options), [[0, 3]])
    numpy.testing.assert_allclose(got, [0, *want], rtol=1e-5)


@pytest.mark.parametrize("axis", [single_step_dim, "T"])
def test_axis_is_the_one_of_the_loop_or_that_of_the_source(lm_file, vocab_file, axis):
    """In a loop, a source which has a time dim of its own is scored along that one in each frame."""
    options = {"lm_file": lm_file, "vocab_file": vocab_file}
    source = "base:data:classes" if axis == "T" else "data:source"
    unit = {"lm": {"class": "kenlm", "from": source, "axis": axis, **options}}
    total = {"class": "reduce", "mode": "sum", "axis": "T", "from": "lm"}
    unit["output"] = total if axis == "T" else {"class": "copy", "from": "lm"}
    (got,) = scores({"output": {"class": "rec", "from": "data:classes", "unit": unit}}, [[0, 3, 2]])
    (want,) = scores(net_of(in_loop=False, **options), [[0, 3, 2]])
    numpy.testing.assert_allclose(got, [want.sum()] * 3 if axis == "T" else want, rtol=1e-5)
    (named,) = scores(net_of(in_loop=False, axis="time", **options), [[0, 3, 2]])
    numpy.testing.assert_array_equal(named, want)


def test_label_of_unknown_words(lm_file, vocab_file):
    options = {"in_loop": False, "lm_file": lm_file, "vocab_file": vocab_file}
    (got,) = scores(net_of(vocab_unknown_label="t", **options), [[0, 2]])
    (want,) = scores(net_of(**options), [[0, 2]])
    numpy.testing.assert_array_equal(got, want)
    with tf.Graph().as_default(), pytest.raises(ConfigError, match="'unknown'") as caught:
        construct(net_of(vocab_unknown_label="unknown", **options), search=False)
    assert "layer 'output' (class 'kenlm')" in str(caught.value)


def test_debug_prints_texts_and_scores(lm_file, vocab_file, capfd):
    scores(net_of(in_loop=False, lm_file=lm_file, vocab_file=vocab_file, debug=True), [[0]])
    assert "layer 'output' (class 'kenlm') [[\"the \"]] [[-0.46" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"lm_file": "missing.arpa", "vocab_file": "VOCAB"}, "'lm_file': there is no file 'missing.arpa'."),
        ({"lm_file": "LM", "vocab_file": "missing.vocab"}, "'vocab_file': there is no file 'missing.vocab'."),
        ({"lm_file": "LM"}, "the option 'vocab_file' is required, as the source"),
        ({"lm_file": "VOCAB", "vocab_file": "VOCAB"}, "cannot be read: FormatLoadException: "),
    ],
)
def test_errors(lm_file, vocab_file, options, message):
    files = {"LM": lm_file, "VOCAB": vocab_file}
    options = {key: files.get(value, value) for key, value in options.items()}
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=message):
        construct(net_of(in_loop=False, **options), search=False)


def test_vocabulary_has_to_fit_the_source(lm_file, vocab_file):
    extern_data = {**EXTERN_DATA, "classes": {"dim": 7, "sparse": True}}
    net_dict = net_of(in_loop=False, lm_file=lm_file, vocab_file=vocab_file)
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=r"has 4 labels, but the source .* has 7"):
        construct(net_dict, search=False, extern_data=extern_data)


@pytest.mark.parametrize("content", ["a (text)\n", "", "\\data\\\nngram 1=3\n"])
def test_errors_of_ken_lm_have_no_bracket_too_many(tmp_path, content):
    path = tmp_path / "lm (1).arpa"
    path.write_text(content)
    with pytest.raises(ConfigError, match="cannot be read: ") as caught:
        ken_lm.KenLm(str(path))
    reason = str(caught.value).partition("cannot be read: ")[2]
    assert reason.count("(") == reason.count(")")
    assert " in void " not in reason
