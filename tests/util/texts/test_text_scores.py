"""Scores of texts: BLEU beside recorded numbers of sacreBLEU 2.6.0, and alignments."""

import pytest

from returnn.util.errors import ConfigError, UserError
from returnn.util.texts.corpus_bleu import corpus_bleu, tokens_13a
from returnn.util.texts.text_scores import alignment_text, check_metrics, score_lines, without_end

HYPS = [
    "The cat sat on the mat, quickly.", "Es kostet 3,50 Euro - oder 1-2 mehr (etwa).", "a b", "Ein Mann fährt Fahrrad.",
]  # fmt: skip
REFS = [
    "The cat sits on the mat quickly!", "Es kostet 3,50 Euro oder 1-2 mehr (etwa)!", "x y",
    "Ein Mann fährt ein Fahrrad.",
]  # fmt: skip


@pytest.mark.parametrize(
    ("hyps", "refs", "score"),  # sacrebleu.corpus_bleu(hyps, [refs]).score
    [
        (HYPS, REFS, 51.01313879792155),
        (HYPS[2:], REFS[2:], 37.684991644924196),
        (["a"], ["a"], 0.0),
        (["x b c d e"], ["a b q d e f g"], 15.848738972120703),
    ],
)
def test_bleu_is_that_of_sacrebleu(hyps, refs, score):
    assert corpus_bleu(hyps, refs) == pytest.approx(score, rel=1e-9)


def test_tokens():
    text = 'He said: "3,50 &quot; 1-2" U.S. (a/b) x-y.'
    assert " ".join(tokens_13a(text)) == 'He said : " 3,50 " 1 - 2 " U . S . ( a / b ) x-y .'


def test_alignment():
    assert alignment_text(["a", "cat", "sat", "there"], ["the", "cat", "is", "sat"]) == (
        "  ref the cat is sat *****\n  hyp a   cat ** sat there\n      S       D      I"
    )


def test_scores_per_sequence_and_in_all():
    hyps, refs = {"a": "x y", "b": "u"}, {"a": "x z", "b": "u", "c": "v"}
    lines = list(score_lines(hyps, refs, ["wer", "cer", "bleu"], per_seq=True))
    assert lines[0].startswith("a: WER 50.00% (1 error: 1 substitution, 0 deletions, 0 insertions; 2 words)")
    assert "; CER 33.33% (1 error: 1 substitution, 0 deletions, 0 insertions; 3 characters)" in lines[0]
    assert lines[1].startswith("b: WER 0.00%")
    assert lines[2].startswith("WER 33.33%")
    assert lines[4].startswith("BLEU 0.00")
    assert lines[5] == "1 of 3 references have no hypothesis, and do not count."


def test_end_of_sequences_is_no_word():
    labels = {"a": "x y </s>", "b": "</s>", "c": "x"}
    assert without_end(labels, "</s>") == {"a": "x y", "b": "", "c": "x"}
    assert without_end({"a": "abc</s>", "b": "</s>"}, "</s>") == {"a": "abc", "b": ""}
    assert without_end({"a": "abc.", "b": "d"}, ".") == {"a": "abc.", "b": "d"}
    assert without_end(labels, None) == labels


def test_label_that_looks_like_an_end_is_named():
    refs = {"a": "x y .", "b": "u ."}
    lines = list(score_lines({"a": "x y", "b": "u"}, refs, ["wer"]))
    assert lines[1].startswith(
        "Each reference ends with '.', and no hypothesis, which counts as an error. If it is the"
    )
    assert len(list(score_lines({"a": "x y .", "b": "u"}, refs, ["wer"]))) == 1
    assert len(list(score_lines({"a": "x", "b": "u"}, {"a": "x y", "b": "u ."}, ["wer"]))) == 1


def test_what_cannot_be_scored():
    with pytest.raises(UserError, match="there is no reference for 'b'; there is 1 reference"):
        list(score_lines({"b": ""}, {"a": ""}, ["wer"]))
    with pytest.raises(UserError, match="there is no hypothesis"):
        list(score_lines({}, {"a": ""}, ["wer"]))
    with pytest.raises(ConfigError, match=r"option 'x': there is no metric 'wre'\.\n  Did you mean 'wer'"):
        check_metrics(["wre"], where="option 'x'")


def test_unknown_words_of_the_references_are_told():
    refs = {"a": "the <unk> sat", "b": "<unk> <unk>", "c": "a cat"}
    lines = list(score_lines({"a": "the <unk> sat", "b": "a <unk> cat"}, refs, ["wer"]))
    assert lines[1] == (
        "'<unk>' is, or is in, 3 of the 5 words of the references, in place of what their vocabulary does not know. "
        "It counts as an error, also where hypotheses have it. To score against the words themselves, give a file with "
        "the texts as references."
    )
    assert len(list(score_lines({"a": "<unk>"}, {"a": "x"}, ["wer"]))) == 1


@pytest.mark.parametrize("metric", ["wer", "cer", "bleu"])
@pytest.mark.parametrize(("label", "is_in_words"), [("<unk>", True), ("⁇", True), ("[UNK]", True), ("UNK", False)])
def test_unknown_parts_of_references_are_never_right(metric, label, is_in_words):
    words = list("abcdefgh")
    hyp = " ".join([*words, f"s{label}uare" if is_in_words else label])
    (score, remark) = score_lines({"a": hyp}, {"a": hyp}, [metric])
    (of_other,) = score_lines(
        {"a": hyp}, {"a": " ".join([*words, "s\ue000uare" if is_in_words else "\ue000"])}, [metric]
    )
    assert score == of_other
    assert score != next(score_lines({"a": " ".join(words)}, {"a": " ".join(words)}, [metric]))
    assert remark.startswith(f"{label!r} is, or is in, 1 of the 9 words of the references")


def test_words_of_letters_which_are_no_unknown_label():
    (line,) = score_lines({"a": "A TRUNK IS UNKIND"}, {"a": "A TRUNK IS UNKIND"}, ["wer"])
    assert line.startswith("WER 0.00%")
    assert alignment_text(["a", "<unk>"], ["a", "<unk>"]) == "  ref a <unk>\n  hyp a <unk>\n        S"
