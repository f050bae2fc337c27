"""Automata of sentences against what they are to accept."""

import itertools
import math
from types import SimpleNamespace

import pytest

from returnn.util.errors import ConfigError, UserError
from returnn.util.fsa import AllPossibleWordsFsa, Asg, Ctc, Edge, Graph, Hmm, Ngram, Store

LEXICON = SimpleNamespace(
    lemmas={
        "a": {"orth": "a", "phons": [{"phon": "ah", "score": 0.0}]},
        "tea": {"orth": "tea", "phons": [{"phon": "t iy", "score": 0.5}, {"phon": "t iy ah", "score": 1.0}]},
    }
)


def accepts(edges, finals, labels):
    states = {0}
    for label in labels:
        states = {e.target_state_idx for e in edges if e.source_state_idx in states and e.label == label}
    return bool(states & set(finals))


@pytest.mark.parametrize("word", ["", "ab", "aab"])
def test_ctc_of_letters(word):
    graph = Graph([word])
    ctc = Ctc(graph)
    ctc.run()
    for labels in itertools.product("ab%", repeat=4):
        collapsed = "".join(label for label, _ in itertools.groupby(labels)).replace("%", "")
        assert accepts(graph.edges_ctc, ctc.final_states, labels) == (collapsed == word)


def test_labels_as_numbers():
    graph = Graph("ab")
    Ctc(graph, num_labels=99, label_conversion=True).run()
    assert {edge.label for edge in graph.edges_ctc} == {97, 98, 99}
    with pytest.raises(UserError, match="letter 'b' is number 98, but there are 98 labels"):
        Ctc(graph, num_labels=98, label_conversion=True).run()


def test_asg_has_labels_for_repetitions():
    graph = Graph("aab")
    Asg(graph).run()
    assert graph.num_states_asg == 4
    last = [graph.num_states_asg - 1]
    assert accepts(graph.edges_asg, last, ["a", "a", 2, "b", "b"])
    assert not accepts(graph.edges_asg, last, ["a", "b"])
    with pytest.raises(UserError, match="asg_repetition has to be at least 2, not 1"):
        Asg(graph, asg_repetition=1)


@pytest.mark.parametrize(
    ("depth", "good", "bad"),
    [
        (1, "_ a _ tea", "tea a"),
        (2, "ah _ t iy ah", "ah t _ iy"),
        (4, "ah ah ah t t t iy iy iy", "ah t t t iy iy iy"),
        (5, "ah ah ah ah t t t t iy iy iy iy", "ah ah t t t iy iy iy"),
    ],
)
def test_hmm(depth, good, bad):
    graph = Graph("a tea")
    hmm = Hmm(graph, depth=depth)
    hmm.lexicon = LEXICON
    hmm.run()
    finals = [2] if depth == 1 else [max(e.target_state_idx for e in graph.edges_hmm if e.phon_at_word_end)]
    ends = {e.target_state_idx for e in graph.edges_hmm if e.label == Edge.SIL and e.is_loop}
    assert accepts(graph.edges_hmm, ends | set(finals), good.split())
    assert not accepts(graph.edges_hmm, ends | set(finals), bad.split())


def test_hmm_with_state_tying():
    graph = Graph("a")
    hmm = Hmm(graph, depth=6, allo_num_states=1, state_tying_conversion=True)
    hmm.lexicon, hmm.state_tying = LEXICON, {"[SILENCE]{#+#}@i@f.0": 0, "ah{#+#}@i@f.0": 7}
    hmm.run()
    assert {edge.label for edge in graph.edges_hmm} == {0, 7}
    hmm.state_tying = {"[SILENCE]{#+#}@i@f.0": 0}
    with pytest.raises(ConfigError, match="state tying: there is no state of an allophone 'ah"):
        hmm.run()


def test_unknown_word():
    hmm = Hmm(Graph("te"))
    with pytest.raises(UserError, match="set `lexicon` first"):
        hmm.run()
    hmm.lexicon = LEXICON
    with pytest.raises(ConfigError, match="lexicon: there is no word 'te'"):
        hmm.run()


def test_all_words_and_ngrams():
    graph = Graph("a")
    words = AllPossibleWordsFsa(graph)
    words.lexicon = LEXICON
    words.run()
    assert [edge.as_tuple()[:3] for edge in graph.edges_word] == [(0, 0, "a"), (0, 0, "tea")]
    ngram = Ngram(2)
    ngram.lexicon = LEXICON
    ngram.run()
    assert ngram.num_states == 3
    assert len(ngram.edges) == 6
    assert {edge.weight for edge in ngram.edges} == {math.log(2)}
    ngram.ngram_scores = {("a",): 0.25}
    ngram.run()
    assert [edge.weight for edge in ngram.edges].count(math.inf) == 5
    with pytest.raises(UserError, match="n-gram: n has to be at least 1, not 0"):
        Ngram(0)


def test_edges_are_sorted():
    edges = [Edge(1, 2, "b"), Edge(0, 1, "z"), Edge(0, 1, "a", 2.0)]
    assert [edge.as_tuple() for edge in sorted(edges)] == [(0, 1, "a", 2.0), (0, 1, "z", 0.0), (1, 2, "b", 0.0)]
    assert Graph.make_single_state_graph(3, edges) == (1, [Edge(0, 0, "b"), Edge(0, 0, "z"), Edge(0, 0, "a", 2.0)])


def test_drawing(tmp_path):
    store = Store(2, [Edge(0, 1, 'say "a"', 0.5)], path=str(tmp_path), file_format="dot")
    store.fsa_to_dot_format()
    store.save_to_file()
    text = (tmp_path / "edges.dot").read_text(encoding="utf8")
    assert '0 -> 1 [label="say \\"a\\" / 0.5"]' in text
    assert "1 [shape=doublecircle]" in text
