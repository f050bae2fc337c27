"""Lattices that are rescored: the best paths among all, by a language model that was exported."""

import ast
import itertools
import math

import numpy
import pytest

import returnn.__main__ as rnn
from returnn.tools.word_lattice import Link, Scales, best_paths, parse_lattice
from returnn.util.backend_engine import BackendEngine
from returnn.util.errors import UserError
from tests.tools.conftest import config_file, tool
from tests.tools.test_search_models import write_config

__all__ = ["config_file", "tool"]

SLF = """VERSION=1.0
UTTERANCE="one two"
lmscale=9.5 # of before
N=5 L=6
I=0 t=0.00 W=!NULL
I=4 t=0.9 W=!SENT_END
I=1 t=0.10 W=a
I=2 t=0.20 W="b"
I=3 t=0.5 W=c
J=0 S=0 E=1 a=-1.5 l=-0.5
J=1 S=0 E=2 a=-1.0 l=-1.0
J=2 S=1 E=3 a=-2.0 l=-0.2
J=3 S=2 E=3 a=-2.5 l=-0.1
J=4 S=1 E=2 a=-0.1 W=a
J=5 S=3 E=4 a=-0.3
"""


def _links(lattice):
    return [link for links in lattice.links.values() for link in links]


def test_words_are_at_nodes_or_links():
    lattice = parse_lattice(SLF.splitlines(), name="file")
    assert lattice.name == "one two"
    assert lattice.nodes == [0, 1, 2, 3, 4]
    assert set(_links(lattice)) >= {
        Link(0, 2, "b", -1.0, -1.0),
        Link(1, 2, "a", -0.1, 0.0),
        Link(3, 4, None, -0.3, 0.0),
    }
    tens = parse_lattice(["base=10", *SLF.splitlines()], name="file")
    assert tens.links[0][0].acoustic == pytest.approx(-1.5 * math.log(10))


@pytest.mark.parametrize(("lines", "message"), [
    (["I=0", "I=1"], "no links"),
    (["I=0", "J=0 S=0 E=7"], "no node 7"),
    (["I=0", "I=1", "J=0 S=0 E=1", "J=1 S=1 E=0"], "cycle"),
    (["I=0", "I=1", "J=0 S=0 E=1 a=x"], "a=x is no number"),
    (["I=0", "J=0 S=0"], "E=None"),
])  # fmt: skip
def test_what_is_no_lattice(lines, message):
    with pytest.raises(UserError, match=message):
        parse_lattice(lines, name="file")


@pytest.mark.parametrize("seed", range(5))
def test_best_paths_are_those_of_all(seed):
    rng = numpy.random.RandomState(seed)
    words = ["a", "b", None]
    num = 6
    lines = [f"I={i}" for i in range(num)]
    pairs = [(i, j) for i, j in itertools.combinations(range(num), 2) if j == i + 1 or rng.rand() < 0.4]
    word = [words[rng.randint(3)] for _ in pairs]
    scores = rng.normal(size=[len(pairs), 2]).round(3)
    lines += [
        f"J={k} S={i} E={j} a={scores[k, 0]} l={scores[k, 1]} W={word[k] or '!NULL'}" for k, (i, j) in enumerate(pairs)
    ]
    lattice = parse_lattice(lines, name="file")
    scales = Scales(acoustic=0.5, language=2.0, old_language=0.3, per_word=-0.7)

    def log_prob(history, following):
        return -1.0 - 0.3 * len(history) + 0.5 * (history[-1:] == (following,)) - 0.2 * ("b" in history)

    def log_probs(histories, following):
        return [[log_prob(h, w) for w in ws] for h, ws in zip(histories, following, strict=True)]

    wanted = {}

    def walk(node, history, score):
        if node == num - 1:
            total = score + 2.0 * log_prob(history, "</s>")
            wanted[history] = max(total, wanted.get(history, -math.inf))
        for k, (i, j) in enumerate(pairs):
            if i == node:
                more = 0.5 * scores[k, 0] + 0.3 * scores[k, 1]
                if word[k]:
                    more += 2.0 * log_prob(history, word[k]) - 0.7
                walk(j, (*history, word[k]) if word[k] else history, score + more)

    walk(0, (), 0.0)
    found = best_paths(lattice, log_probs, scales=scales, beam=1000, end="</s>")
    assert [words for _, words in found] == sorted(wanted, key=lambda words: (-wanted[words], words))
    numpy.testing.assert_allclose([score for score, _ in found], [wanted[words] for _, words in found])


def test_with_an_exported_model(tool, tmp_path):
    before = BackendEngine.selected_engine
    network = {
        "before": {
            "class": "shift_axis", "axis": "T", "amount": 1, "pad_value": 0, "adjust_size_info": False, "from": "data",
        },
        "embedded": {"class": "linear", "activation": None, "n_out": 3, "from": "before"},
        "output": {"class": "softmax", "from": "embedded", "target": "data", "loss": "ce", "forward_weights_init": 0.0},
    }  # fmt: skip
    options = {"extern_data": {"data": {"dim": 4, "sparse": True}}, "network": network, "behavior_version": 21}
    config = write_config(tmp_path, options)
    assert rnn.main(["rnn.py", str(config), "++task", "initialize_model", "-v", "1"]) == 0
    BackendEngine.selected_engine = before
    checkpoint = next(path for path in tmp_path.glob("net.000*.index")).with_suffix("")
    model = tmp_path / "model"
    assert tool("export_model", config, model, "--checkpoint", checkpoint, "--verbosity", 1)[0] == 0
    (tmp_path / "words.vocab").write_text("</s>\na\nb\n<unk>\n")
    (tmp_path / "1.slf").write_text(SLF)
    args = [model, tmp_path / "words.vocab", tmp_path / "1.slf", "--output", tmp_path / "hyps"]
    assert tool("rescore_lattices", *args)[2] == (
        "error: word 'c' is not in the vocabulary.\n  '--unknown' names the word that stands for such.\n"
    )
    status, out, err = tool("rescore_lattices", *args, "--unknown", "<unk>", "--n_best", 5)
    assert (status, err) == (0, "")
    assert out.endswith(": 1 lattices\n")
    found = ast.literal_eval((tmp_path / "hyps").read_text())["one two"]
    # Without weights, each word has a probability of a quarter.
    wanted = {"a c": -3.8, "b c": -3.8, "a a c": -4.4}
    assert {text: round(score - (len(text.split()) + 1) * math.log(1 / 4), 3) for score, text in found} == wanted
    assert [score for score, _ in found] == sorted((score for score, _ in found), reverse=True)
    for option, word in (("--end", "<s>"), ("--begin", "<s>"), ("--unknown", "<UNK>")):
        err = tool("rescore_lattices", *args, "--unknown", "<unk>", option, word)[2]
        assert err == f"error: option '{option}': '{word}' is not in the vocabulary.\n"
    for labels, number in (("</s>\na\nb\n", "3 labels"), ("</s>\na\nb\n<unk>\nc\n", "5 labels")):
        (tmp_path / "words.vocab").write_text(labels)
        err = tool("rescore_lattices", *args)[2]
        assert f"the layer 'output' of '{model}' has 4 outputs, but the vocabulary has {number}" in err
