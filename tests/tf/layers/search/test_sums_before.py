"""Sums over frames of the outside are computed again from their weights, and products of them the other way round."""

from __future__ import annotations

import numpy
import pytest

from returnn.tf.frontend_low_level.kernels.native import get_operations
from returnn.tf.layers.search.sums_before import with_sums_computed_again
from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, decoder

SIZE, BEAM, NUM_SEQS = 64, 4, 6
EXTERN_DATA = {
    "data": {"dim": SIZE, "shape": (None, SIZE)},
    "classes": {"dim": NUM_LABELS, "sparse": True, "shape": (None,)},
}
WEIGHTS = {"class": "softmax_over_spatial", "from": "energy"}
READOUT = {
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 40, "from": ["emb", "prev:att"]},
    "readout": {"class": "linear", "activation": "tanh", "n_out": 33, "from": ["att", "s"]},
    "p": {"class": "softmax", "from": "readout", "n_out": NUM_LABELS},
}
ATTENTION = {
    "query": {"class": "linear", "from": "s", "n_out": SIZE, "activation": None},
    "energy": {"class": "dot", "from": ["base:data", "query"], "reduce": "F"},
    "weights": WEIGHTS,
}
DECODERS = {
    "generic attention": {
        **ATTENTION, "att": {"class": "generic_attention", "weights": "weights", "base": "base:data"}, **READOUT,
    },
    "dot": {
        **ATTENTION, "att0": {"class": "dot", "from": ["weights", "base:data"], "reduce": "stag:extern_data:data"},
        "att": {"class": "copy", "from": "att0", "is_output_layer": True}, **READOUT,
    },
    **{
        f"{num} heads": {
            "query": {"class": "linear", "from": "s", "n_out": 32, "activation": None},
            "hidden": {"class": "combine", "kind": "add", "from": ["query", "base:data_ctx"]},
            "energy": {"class": "linear", "activation": None, "with_bias": False, "n_out": num, "from": "hidden"},
            "weights": WEIGHTS,
            "att0": {"class": "generic_attention", "weights": "weights", "base": "base:values"},
            "att": {"class": "merge_dims", "axes": "except_batch", "from": "att0"},
            **READOUT,
        }
        for num in (1, 2)
    },
}  # fmt: skip


def net_of(name: str, **options) -> SearchNet:
    net_dict = decoder(max_seq_len="max_len_from('base:data') * 2", unit=DECODERS[name], choice={"beam_size": BEAM})
    heads = int(name[0]) if name.endswith("heads") else 1
    around = {
        "data_ctx": {"class": "linear", "from": "data", "n_out": 32, "activation": None, "with_bias": False},
        "values": {"class": "split_dims", "axis": "F", "dims": (heads, -1), "from": "data"},
    }
    return SearchNet(
        {**around, **net_dict},
        fetch=["output", "scores"],
        extern_data=EXTERN_DATA,
        search_depends_on_batch=False,
        **options,
    )


def batch(num_frames: int) -> tuple[numpy.ndarray, numpy.ndarray]:
    """:return: data (B, T, F), where padded frames are no numbers, and lengths (B,)"""
    random = numpy.random.RandomState(num_frames)
    lengths = random.permutation([num_frames, *random.randint(1, num_frames + 1, NUM_SEQS - 1)]).astype("int32")
    return random.normal(0.0, 1.5, (NUM_SEQS, num_frames, SIZE)).astype("float32"), lengths


def types_of(net: SearchNet) -> list[str]:
    """:return: of all operations that are in functions"""
    return [node.op for f in net.graph.as_graph_def().library.function for node in f.node_def]


def check_same(found, expected, places: str) -> None:
    """Raises an error if two results of a net are not the same, but for frames beyond the end."""
    _, (lengths,) = expected["output"]
    numpy.testing.assert_array_equal(found["output"][1][0], lengths, err_msg=places)
    numpy.testing.assert_allclose(found["scores"][0], expected["scores"][0], rtol=1e-4, err_msg=places)
    for row, want, length in zip(found["output"][0], expected["output"][0], lengths, strict=True):
        numpy.testing.assert_array_equal(row[:length], want[:length], err_msg=places)


@pytest.mark.parametrize("name", DECODERS)
def test_same_as_without_kernels(name, monkeypatch):
    if get_operations() is None:
        pytest.skip("no kernels")
    shrinking, staying = (net_of(name, search_shrinks_batch=shrinks) for shrinks in (True, False))
    monkeypatch.setenv("RETURNN_NATIVE", "0")
    plain = net_of(name, search_shrinks_batch=False)
    for net in (shrinking, staying):
        asks_whether_it_pays = any(op in ("If", "StatelessIf") for op in types_of(net))
        assert asks_whether_it_pays == (name != "2 heads")
    assert not any(op.startswith("Returnn") for op in types_of(plain))
    for num_frames in (1, 7, 40):  # of so many frames, it does not pay to multiply all of them with the matrix
        data = batch(num_frames)
        expected = plain.run(data=data)
        check_same(shrinking.run(data=data), expected, f"{num_frames} frames, shrinking")
        check_same(staying.run(data=data), expected, f"{num_frames} frames")
        data[0][numpy.arange(num_frames)[None] >= data[1][:, None]] = numpy.nan
        check_same(shrinking.run(data=data), expected, f"{num_frames} frames, padded by NaN")


ATT = {"class": "generic_attention", "weights": "w", "base": "base:encoder"}
CELL = {"class": "rnn_cell", "unit": "lstm", "n_out": 3, "from": ["prev:att", "x"]}


def test_layers_in_place_of_what_was_found_before():
    unit = {"att0": ATT, "att": {"class": "merge_dims", "axes": "static", "from": "att0"}, "w": WEIGHTS, "s": CELL}
    new = with_sums_computed_again(unit)
    assert new == {
        **unit,
        "s": {**CELL, "from": ["att_before", "x"]},
        "att_before": {"class": "merge_dims", "axes": "static", "from": "att0_before"},
        "att0_before": {**ATT, "weights": "prev:w"},
    }


def test_a_name_that_is_taken():
    unit = {"att": ATT, "att_before": ATT, "w": WEIGHTS, "s": CELL}
    assert with_sums_computed_again(unit)["s"]["from"] == ["att_before_", "x"]


@pytest.mark.parametrize(
    "other",
    [
        {"att": {**ATT, "initial_output": "zeros"}},
        {"att": {**ATT, "dropout": 0.1}},
        {"att": {**ATT, "base": "frames"}},
        {"att": {**ATT, "weights": "prev:w"}},
        {"att": {"class": "linear", "from": "w"}},
        {"att": {"class": "copy", "from": ["w", "w2"]}},
        {"att": {"class": "copy", "from": "att"}},
        {"w": {**WEIGHTS, "initial_output": 1}},
        {"w": None},
        {"s": {**CELL, "class": "combine"}},
        {"s": {**CELL, "from": "att"}},
    ],
    ids=str,
)
def test_where_all_stays(other):
    unit = {"att": ATT, "w": WEIGHTS, "s": CELL, **other}
    assert with_sums_computed_again(unit) is unit
