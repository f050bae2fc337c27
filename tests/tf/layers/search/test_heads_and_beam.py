"""Sizes say nothing about what a dim is: a beam has as many hypotheses as there are attention heads."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

from tests.tf.layers.search.search_net import NUM_LABELS, SearchNet, decoder, inputs

HEADS = NUM_LABELS
SIZE = 3


def net_with_heads(beam: int) -> dict[str, Any]:
    """:return: net dict: attention with several heads, as by dot products"""
    heads: dict[str, Any] = {"class": "split_dims", "axis": "F", "dims": (HEADS, SIZE)}
    transformed: dict[str, Any] = {"class": "linear", "activation": None, "n_out": HEADS * SIZE}
    unit = {
        "query_lin": {**transformed, "from": "s"},
        "query": {**heads, "from": "query_lin"},
        "energy": {
            "class": "dot", "red1": -1, "red2": -1, "var1": "T", "var2": "T?", "from": ["base:key", "query"],
        },
        "weights": {"class": "softmax_over_spatial", "from": "energy", "energy_factor": SIZE**-0.5},
        "att_heads": {"class": "generic_attention", "weights": "weights", "base": "base:value"},
        "att": {"class": "merge_dims", "axes": "static", "from": "att_heads"},
        "p": {"class": "softmax", "from": ["s", "att"], "n_out": NUM_LABELS},
    }  # fmt: skip
    net = decoder(choice={"beam_size": beam}, unit=unit, max_seq_len=2)
    for name in ("key", "value"):
        net[f"{name}_lin"] = {**transformed, "from": "data"}
        net[name] = {**heads, "from": f"{name}_lin"}
    return net


@pytest.mark.parametrize("behavior_version", [0, 1])
def test_beam_of_the_size_of_the_heads_finds_what_a_larger_one_finds(behavior_version):
    data = inputs()
    found = []
    for beam in (HEADS, HEADS + 3):
        net = SearchNet(net_with_heads(beam), fetch=("output", "scores"), behavior_version=behavior_version)
        found.append([entry[:HEADS] for entry in net.hypotheses(beam, data=data)])  # those after two frames
    for one, other in zip(*found, strict=True):
        assert [labels for labels, _ in one] == [labels for labels, _ in other]
        numpy.testing.assert_allclose([score for _, score in one], [score for _, score in other], rtol=1e-4)
