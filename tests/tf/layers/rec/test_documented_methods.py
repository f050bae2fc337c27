"""What code of users can ask of recurrent layers, by the documented names."""

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, batch_dim
from returnn.tf.layers.rec import RecLayer, RnnCellLayer, _SubnetworkRecCell, _TemplateLayer
from returnn.tf.util.lstm_state import LSTMStateTuple
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified
from tests.tf.layers.rec.recurrent_net import construct

N_OUT = 4
CELL = {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": N_OUT}


def linear(source):
    return {"class": "linear", "activation": None, "n_out": N_OUT, "from": source}


LOOP = {
    "enc": linear("data"),
    "output": {
        "class": "rec",
        "from": "data",
        "unit": {
            "emb": linear("data:source"),
            "query": linear("s"),
            "energy": {"class": "dot", "from": ["base:enc", "query"], "reduce": "F"},
            "weights": {"class": "softmax_over_spatial", "from": "energy"},
            "att": {"class": "generic_attention", "weights": "weights", "base": "base:enc"},
            "s": {**CELL, "from": ["emb", "prev:att"]},
            "output": linear(["s", "att"]),
        },
    },
}


@pytest.fixture
def loop():
    with tf.Graph().as_default():
        yield construct(LOOP).get_layer("output")


def test_cell_says_which_layers_are_where(loop):
    assert isinstance(loop.cell, _SubnetworkRecCell)
    assert loop.SubnetworkRecCell is _SubnetworkRecCell
    assert loop.cell.input_layers_moved_out == ["emb"]
    assert sorted(loop.cell.layers_in_loop) == ["att", "energy", "query", "s", "weights"]
    assert loop.cell.output_layers_moved_out == ["output"]
    assert loop.cell.net_dict == LOOP["output"]["unit"]


def test_networks_of_cell_have_these_layers(loop):
    assert set(loop.cell.layers_in_loop) <= set(loop.cell.net.layers)
    assert set(loop.cell.input_layers_moved_out) <= set(loop.cell.input_layers_net.layers)
    assert set(loop.cell.output_layers_moved_out) <= set(loop.cell.output_layers_net.layers)
    assert loop.cell.time_dim == loop.output.get_time_dim_tag()


def test_templates_of_cell_are_single_frames(loop):
    templates = loop.cell.layer_data_templates
    assert set(templates) >= set(LOOP["output"]["unit"])
    assert not any(loop.cell.time_dim in templates[name].output.dims for name in ("emb", "s", "output"))
    assert all(isinstance(template, _TemplateLayer) and template.is_template for template in templates.values())
    assert templates["s"].layer_class_type is RnnCellLayer
    assert templates["s"].kwargs["n_out"] == LOOP["output"]["unit"]["s"]["n_out"]
    assert [layer.name for layer in templates["emb"].get_dep_layers()] == ["data:source"]


def test_a_unit_has_no_cell():
    with tf.Graph().as_default():
        layer = construct({"output": {"class": "rec", "unit": "lstm", "n_out": N_OUT, "from": "data"}}).get_layer(
            "output"
        )
    assert layer.cell is None
    assert layer.get_sub_layers() == []
    assert layer.get_sub_layer("s") is None


def test_layers_around_that_the_unit_uses_are_dependencies(loop):
    assert [layer.name for layer in loop.get_dep_layers()] == ["data", "enc"]


def test_sub_layers_are_those_that_are_known_for_all_frames(loop):
    names = {layer.name for layer in loop.get_sub_layers()}
    assert {"emb", "s", "att", "output"} <= names
    assert not {"query", "energy", "weights"} & names


def test_available_sub_layers_are_the_layers_of_the_time_step():
    assert RecLayer.get_available_sub_layer_names(LOOP["output"]) == list(LOOP["output"]["unit"])
    assert RecLayer.get_available_sub_layer_names({"unit": "lstm"}) == []


def test_layer_of_the_step_before(loop):
    prev = loop.cell.net.construct_layer(loop.cell.net.layers_desc, "prev:att")
    assert RecLayer.is_prev_step_layer(prev)
    assert not RecLayer.is_prev_step_layer(loop)


def test_source_and_the_dim_of_the_loop(loop):
    network, source = loop.network, loop.sources[0].output
    assert RecLayer.transform_source_and_axis(network, source) == (source, source.get_time_dim_tag())
    dim = Dim(None, name="steps")
    assert RecLayer.transform_source_and_axis(network, axis=dim) == (None, dim)
    own = RecLayer.transform_source_and_axis(network, have_dyn_seq_len_end=True)[1]
    assert own.is_dynamic_seq_length()
    unit = {"x": {"class": "rec_unstack", "from": "base:enc", "declare_rec_time": True}}
    assert RecLayer.transform_source_and_axis(network, opts={"unit": unit})[1] == source.get_time_dim_tag()
    with pytest.raises(ConfigError, match="without a source, the option 'axis' or a layer 'end' is required"):
        RecLayer.transform_source_and_axis(network)


@pytest.mark.parametrize(("initial", "expected"), [(None, 0), ("zeros", 0), ("ones", 1), (0.5, 0.5)])
def test_initial_state_of_a_cell(initial, expected):
    state = RnnCellLayer.get_rec_initial_state(
        batch_dim=3, name="s", unit="LSTMBlock", n_out=2, initial_state=initial, sources=[]
    )
    assert state._fields == ("c", "h")
    for part in state:
        numpy.testing.assert_equal(tf.get_static_value(part), numpy.full((3, 2), expected, "float32"))


def test_initial_state_by_parts_is_the_extra_output_of_a_unit():
    options = {"batch_dim": 2, "rec_layer": None, "name": "s", "n_out": 1}
    extra = RecLayer.get_rec_initial_extra_outputs(unit="nativelstm2", initial_state={"c": 2, "h": "ones"}, **options)
    assert [tf.get_static_value(part).tolist() for part in extra["state"]] == [[[2.0], [2.0]], [[1.0], [1.0]]]
    assert RecLayer.get_rec_initial_extra_outputs(unit={}, **options) == {}
    assert set(RnnCellLayer.get_rec_initial_extra_outputs(unit="gru", **options)) == {"state"}


def test_initial_state_that_only_the_layer_knows():
    options = {"batch_dim": 2, "name": "s", "unit": "gru"}
    message = "layer 's': option 'initial_state': 'var' is known by the layer alone"
    with pytest.raises(ConfigError, match=message):
        RnnCellLayer.get_rec_initial_state(**options, n_out=1, initial_state="var")
    with pytest.raises(ConfigError, match="layer 's': the size of the state is not known"):
        RnnCellLayer.get_rec_initial_state(**options, n_out=NotSpecified)


PART_OF_STATE = [
    ({}, 0.0),
    ({"initial_state": "ones"}, 1.0),
    ({"initial_state": {"c": 2, "h": 3.0}, "key": "h"}, 3.0),
    ({"initial_state": [2, 3.0], "key": 0}, 2.0),
    ({"initial_state": LSTMStateTuple(2, 3.0), "key": "c"}, 2.0),
    ({"initial_state": LSTMStateTuple(2, 3.0), "key": 1}, 3.0),
    ({"initial_state": 4, "key": "c"}, 4.0),
]


@pytest.mark.parametrize(("options", "expected"), PART_OF_STATE)
def test_initial_state_of_any_shape(options, expected):
    state = RnnCellLayer.get_rec_initial_state_inner(initial_shape=(tf.constant(3), 2, 1), name="s", **options)
    numpy.testing.assert_equal(tf.get_static_value(state), numpy.full((3, 2, 1), expected, "float32"))


def test_initial_state_of_layers_and_of_growing_frames():
    net_dict = {"lstm": {"class": "rec", "unit": "lstm", "n_out": 2, "from": "data"}, "output": linear("lstm")}
    inner = RnnCellLayer.get_rec_initial_state_inner
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        layer = construct(net_dict).layers["lstm"]
        parts = layer.hidden_state_parts()
        shape = (batch_dim.get_dim_value(), 2)
        for key in ("c", "h"):
            assert inner(shape, "s", key=key, initial_state=layer) is parts[key].raw_tensor
            assert inner(shape, "s", key=key, initial_state={"c": layer, "h": layer}) is parts[key].raw_tensor
        assert inner(shape, "s", initial_state=layer).shape.as_list() == [None, 4]
        state = inner((3, 0, 2), "s", state_key="k_left", shape_invariant=(None, None, 2))
        assert state.shape.as_list() == [None, None, 2]
        with tf.compat.v1.Session() as session:
            assert session.run(state).shape == (3, 0, 2)


def test_part_of_an_initial_state_that_is_not_there():
    inner = RnnCellLayer.get_rec_initial_state_inner
    with pytest.raises(ConfigError, match=r"layer 's': .* has no part 'x'.\n  Possible: 'c', 'h'\."):
        inner((3, 2), "s", key="x", initial_state={"c": 1, "h": 2})
    with pytest.raises(
        ConfigError, match="layer 's', state 'k': option 'initial_state': 'keep_over_epoch' is known by"
    ):
        inner((3, 2), "s", state_key="k", initial_state="keep_over_epoch")
