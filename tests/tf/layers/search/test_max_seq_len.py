"""The largest number of frames of loops that end by a layer."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.util.errors import ConfigError
from tests.tf.layers.search.search_net import EOS, SearchNet, construct, decoder, inputs

NEVER = {"end": {"class": "compare", "from": "output", "value": -1}}
LIMITS = {
    "length": {"class": "length", "from": "data", "is_output_layer": True},
    "limit": {"class": "eval", "from": "length", "eval": "source(0) - 1"},
}


def lengths_found(search, **options):
    net_dict = {**LIMITS, **decoder(unit=NEVER, **options)}
    data, lengths = inputs()
    out, (found,) = SearchNet(net_dict, search=search, fetch=("output",)).run(data=(data, lengths))["output"]
    assert out.shape[1] == max(found)
    return list(found)


def without_search(**options):
    """:return: lengths of a loop that does not search"""
    unit = {
        "output": {"class": "eval", "from": "prev:output", "eval": "source(0) + 1", "out_type": {"shape": ()}},
        "end": {"class": "compare", "from": "output", "kind": "greater", "value": 100},
    }
    net_dict = {**LIMITS, "output": {"class": "rec", "from": [], "unit": unit, **options}}
    data, lengths = inputs()
    return list(SearchNet(net_dict, search=False).run(data=(data, lengths))["output"][1][0])


@pytest.mark.parametrize(
    ("options", "wanted"),
    [
        ({"max_seq_len": 2}, [2, 2, 2]),
        ({"max_seq_len": "max_len_from('base:data') - 2"}, [3, 3, 3]),
        ({"max_seq_len": "tf.minimum(max_len_from('data') * 2, 7)"}, [7, 7, 7]),
        ({"max_seq_len": "self.network.get_layer('length').output.raw_tensor - 2"}, [3, 2, 1]),
        ({"max_seq_len": None, "max_seq_len_via": "length"}, [5, 4, 3]),
        ({"max_seq_len": None, "max_seq_len_via": "limit"}, [4, 3, 2]),
    ],
)
def test_lengths(options, wanted):
    assert lengths_found(True, **options) == [n for n in wanted for _ in range(3)]
    assert without_search(**options) == wanted


def test_a_limit_of_zero_gives_no_frames():
    data, lengths = inputs()
    net_dict = {**decoder(unit=NEVER, max_seq_len=None, max_seq_len_via="limit"), **LIMITS}
    net = SearchNet(net_dict, fetch=("output", "scores"))
    found = net.hypotheses(3, data=(data[:, :3], lengths - 2))
    assert [len(x) for entry in found for x, _ in entry] == [2] * 3 + [1] * 3 + [0] * 3
    assert found[2][0] == ((), 0.0)


def test_a_sequence_with_its_own_limit_finds_the_same_alone():
    data, lengths = inputs(n_batch=4, max_len=6)
    net = SearchNet(
        {**decoder(max_seq_len=None, max_seq_len_via="limit"), **LIMITS}, fetch=("output", "scores"), scale=1.0
    )
    found = net.hypotheses(3, data=(data, lengths))
    for b, n in enumerate(lengths):
        (alone,) = net.hypotheses(3, data=(data[b : b + 1, :n], [n]))
        assert [x for x, _ in alone] == [x for x, _ in found[b]]
        numpy.testing.assert_allclose([s for _, s in alone], [s for _, s in found[b]], atol=1e-5)


def test_a_layer_around_the_network_of_the_loop_can_be_named():
    unit = {
        "output": {"class": "eval", "from": "prev:output", "eval": "source(0) + 1", "out_type": {"shape": ()}},
        "end": {"class": "compare", "from": "output", "kind": "greater", "value": 100},
    }
    found = []
    for name in ("base:x", "base:base:x", "data"):
        loop = {"class": "rec", "from": [], "unit": unit, "max_seq_len": f"max_len_from('{name}') - 1"}
        net_dict = {
            "x": {"class": "copy", "from": "data"},
            "output": {"class": "subnetwork", "from": "x", "subnetwork": {"output": loop}},
        }
        found.append(SearchNet(net_dict, search=False).run(data=inputs())["output"][1][0].tolist())
    assert found == [[4, 4, 4]] * 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_seq_len": "max_len_of('data')"}, r"option 'max_seq_len': .*name 'max_len_of' is not defined"),
        ({"max_seq_len": "max_len_from('dta')"}, "there is no layer 'dta'"),
        ({"max_seq_len_via": "ctx"}, r"option 'max_seq_len': expected integers, one or \[B\], got"),
        ({"max_seq_len": "'many'"}, r"option 'max_seq_len': expected integers, one or \[B\], got 'many'"),
    ],
)
def test_errors(options, message):
    with tf.Graph().as_default(), pytest.raises(ConfigError, match=message):
        construct(decoder(**options))


@pytest.mark.parametrize("include_eos", [False, True])
@pytest.mark.parametrize("max_seq_len", [3, "max_len_from('base:data') - 1"])
def test_hypotheses_that_had_not_ended_are_known(max_seq_len, include_eos):
    data, lengths = inputs(n_batch=6, max_len=6)
    net_dict = decoder(max_seq_len=max_seq_len, include_eos=include_eos)
    net = SearchNet(net_dict, fetch=("output", "scores"), scale=2.5, search_depends_on_batch=False)
    (end,) = net.net.beams.ends.values()
    is_cut = net.run(end.is_cut.raw_tensor, data=(data, lengths)).tolist()
    best_score = net.run(end.scores.raw_tensor, data=(data, lengths))
    best = [hypotheses[0] for hypotheses in net.hypotheses(3, data=(data, lengths))]
    limits = lengths - 1 if isinstance(max_seq_len, str) else [max_seq_len] * len(lengths)
    for i, (labels, score) in enumerate(best):
        ends = labels[-1:] == (EOS,) if include_eos else len(labels) < limits[i]
        assert is_cut[i] == (not ends)
        numpy.testing.assert_allclose(best_score[i], score, rtol=1e-6)
    assert end.loop.name == "output"
    assert set(is_cut) == {False, True}
