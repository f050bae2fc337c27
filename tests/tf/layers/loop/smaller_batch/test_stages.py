"""Sequences that have ended leave the batch, and nothing else changes."""

from __future__ import annotations

import numpy
import pytest

from returnn.tf.util.data import SpatialDim
from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, decoder

NUM_SEQS = 12
PAST = SpatialDim("past")
LIMIT = "max_len_from('base:data') * 2"
LINEAR = {"class": "linear", "n_out": 4, "activation": "tanh"}
EXTERN_DATA = {
    "data": {"dim": 3, "shape": (None, 3)},
    "classes": {"dim": NUM_LABELS, "sparse": True, "shape": (None,)},
    "others": {"dim": 3, "sparse": True, "shape": (None,), "available_for_inference": True},
}
CHOICE = {"class": "choice", "target": "others", "beam_size": 4, "initial_output": 0, "length_normalization": False}
UNITS = {
    "attention over what is outside": {
        "energy": {"class": "dot", "from": ["base:data", "query"], "reduce": "F"},
        "query": {"class": "linear", "from": "prev:s", "n_out": 3, "activation": None},
        "weights": {"class": "softmax_over_spatial", "from": "energy", "is_output_layer": True},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:data", "auto_squeeze": True},
        "sum": {"class": "eval", "from": ["prev:sum", "weights"], "eval": "source(0) + source(1)"},
        "s": {**LINEAR, "from": ["emb", "att", "prev:s"]},
    },
    "history": {
        "past": {"class": "cum_concat", "from": "emb", "out_spatial_dim": PAST},
        "mean": {"class": "reduce", "mode": "mean", "axis": PAST, "from": "past"},
        "self": {"class": "self_attention", "from": "s", "num_heads": 2, "total_key_dim": 4, "n_out": 4},
        "p": {"class": "softmax", "from": ["self", "mean"], "n_out": NUM_LABELS, "is_output_layer": True},
    },
    "two choices": {
        "q": {"class": "softmax", "from": "s", "n_out": 3},
        "tag": {**CHOICE, "from": "q"},
        "tag_emb": {**LINEAR, "from": "tag"},
        "p": {"class": "softmax", "from": ["s", "tag_emb"], "n_out": NUM_LABELS},
        "cell": {"class": "rnn_cell", "unit": "lstm", "from": "tag_emb", "n_out": 3, "is_output_layer": True},
    },
}
UNITS["history"]["self"]["attention_left_only"] = True
CHOICES = {
    "attention over what is outside": {"length_normalization": True},
    "history": {"length_normalization": True, "length_normalization_exponent": 0.5},
    "two choices": {"length_normalization": True, "beam_size": 4},
}


def batch(seed: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """:return: data (B, 6, 3) and lengths (B,)"""
    rng = numpy.random.default_rng(seed)
    lengths = rng.permutation([6, *rng.integers(1, 7, NUM_SEQS - 1)]).astype("int32")
    return rng.normal(0.0, 1.5, (NUM_SEQS, 6, 3)).astype("float32"), lengths


def has_stages(net: SearchNet) -> bool:
    """:return: whether a loop has a loop in it"""
    functions = {f.signature.name: f.node_def for f in net.graph.as_graph_def().library.function}
    bodies = [functions[op.get_attr("body").name] for op in net.graph.get_operations() if "While" in op.type]
    return any("While" in node.op for body in bodies for node in body)


@pytest.mark.parametrize("name", UNITS)
def test_what_is_found_is_the_same(name):
    net_dict = decoder(max_seq_len=LIMIT, unit=UNITS[name], choice=CHOICES[name])
    fetch = ["output", "scores", *(f"output/{n}" for n, d in UNITS[name].items() if d.get("is_output_layer"))]
    options = {"fetch": fetch, "extern_data": EXTERN_DATA, "search_depends_on_batch": False}
    shrinking, staying = (SearchNet(net_dict, search_shrinks_batch=x, **options) for x in (True, False))
    assert has_stages(shrinking)
    assert not has_stages(staying)
    for seed in range(3):
        found, wanted = (net.run(data=batch(seed)) for net in (shrinking, staying))
        _, (lengths,) = wanted["output"]
        assert len(set(lengths.tolist())) > 1
        numpy.testing.assert_array_equal(found["output"][1][0], lengths)
        numpy.testing.assert_allclose(found["scores"][0], wanted["scores"][0], rtol=1e-5)
        for key in (key for key in fetch if key != "scores"):
            for row, want, length in zip(found[key][0], wanted[key][0], lengths, strict=True):
                numpy.testing.assert_allclose(row[:length], want[:length], rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "unit",
    [
        {"more": {"class": "reduce", "mode": "mean", "axis": "B", "from": "s"}, "s": {**LINEAR, "from": "emb"}},
        {"s": {**LINEAR, "from": "emb", "dropout": 0.5, "dropout_on_forward": True}},
    ],
    ids=["mean over the batch", "random numbers"],
)
def test_the_batch_stays_where_it_matters(unit):
    p = {"class": "softmax", "from": ["s", *(name for name in unit if name == "more")], "n_out": NUM_LABELS}
    net = SearchNet(decoder(max_seq_len=LIMIT, unit={**unit, "p": p}), search_depends_on_batch=False)
    assert not has_stages(net)
    net.run(data=batch(0))
