"""Scripts that look into loops: where layers are, their states, hypotheses of a search."""

from __future__ import annotations

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import batch_dim
from returnn.tensor.batch_info import SearchBeam
from returnn.tf.layers.base import InternalLayer, LayerBase
from returnn.tf.layers.basic import register_layer_class
from returnn.tf.layers.rec import DecideLayer, RecLayer, RnnCellLayer, _SubnetworkRecCell
from returnn.tf.network import ExternData, TFNetwork
from returnn.tf.updater import Updater
from returnn.tf.util.data import Data, FeatureDim, ImplicitSparseDim, SpatialDim, VerifyOutShapeException
from returnn.util.errors import ConfigError, DimError
from tests.tf.by_hand.scripts import make_feed_dict, make_network, make_scope, run_network, tf1


def decoder(**changed):
    """:return: attention decoder, with some layers of a time step instead of the usual"""
    unit = {
        "embed": {"class": "linear", "activation": None, "n_out": 4, "from": "prev:output", "initial_output": 0},
        "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 4, "from": ["embed", "prev:att"]},
        "query": {"class": "linear", "activation": None, "n_out": 4, "from": "s"},
        "energy": {"class": "dot", "from": ["base:enc", "query"], "reduce": "F", "var2": None},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "att": {"class": "generic_attention", "weights": "weights", "base": "base:enc"},
        "prob": {"class": "softmax", "from": ["s", "att"], "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "beam_size": 3, "from": "prob", "target": "classes", "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
        **changed,
    }
    return {
        "enc": {"class": "linear", "activation": "tanh", "n_out": 4, "from": "data"},
        "output": {
            "class": "rec",
            "from": [],
            "target": "classes",
            "max_seq_len": "max_len_from('base:enc')",
            "unit": unit,
        },
        "decision": {"class": "decide", "from": "output", "loss": "edit_distance", "target": "classes"},
    }


SEARCH = {"train_flag": False, "eval_flag": True, "search_flag": True}


def test_places_of_layers_in_training_and_in_search(tmp_path):
    with make_scope() as session:
        network = make_network(decoder(), train_flag=True)
        layer = network.layers["output"]
        cell = layer.cell
        assert isinstance(cell, _SubnetworkRecCell)
        assert cell.parent_rec_layer is layer
        assert cell.parent_net is network
        assert set(cell.layers_in_loop) == {"s", "query", "energy", "weights", "att"}
        assert set(cell.input_layers_moved_out) == {"output", "embed"}
        assert cell.output_layers_moved_out == ["prob"]
        assert cell.net.layers["s"].output.dim == 4
        assert cell.output_layers_net.layers["prob"].output.dim == 5
        assert cell.layer_data_templates["s"].output.batch_shape == (None, 4)
        assert cell.layer_data_templates["s"].kwargs["n_out"] == 4
        assert cell.net_dict["s"]["class"] == "rnn_cell"
        run_network(session, network, network.get_total_loss(), same_time=True)
        network.save_params_to_file(str(tmp_path / "model"), session)
    with make_scope() as session:
        network = make_network(decoder(), **SEARCH)
        network.load_params_from_file(str(tmp_path / "model"), session)
        cell = network.layers["output"].cell
        assert {"s", "embed", "prob", "output", "end"} <= set(cell.layers_in_loop)
        assert cell.net.layers["output"].search_choices.beam_size == 3
        session.run(network.get_fetches_dict(), make_feed_dict(network.extern_data))


def inner_loop():
    """:return: decoder with a loop and a condition in each step"""
    state = {"class": "linear", "activation": "tanh", "n_out": 4, "from": ["data:source", "prev:x", "base:s"]}
    inner = {"class": "rec", "from": "base:enc", "unit": {"x": state, "output": {"class": "copy", "from": "x"}}}
    mean = {"class": "reduce", "mode": "mean", "axis": "T", "from": "inner"}
    is_first = {"class": "compare", "from": ":i", "kind": "equal", "value": 0}
    att = {"class": "cond", "from": [], "condition": "is_first", "true_layer": "mean", "false_layer": mean}
    return decoder(
        inner=inner, mean=mean, is_first=is_first, att={**att, "false_layer": {"class": "copy", "from": "s"}}
    )


@pytest.mark.parametrize("make", [decoder, inner_loop])
def test_gradients_can_come_after_the_first_run(make):
    with make_scope() as session:
        network = make_network(make(), train_flag=True)
        loss, _ = run_network(session, network, network.get_total_loss(), same_time=True)
        updater = Updater(config=Config({"learning_rate": 0.05}), network=network)
        updater.set_trainable_vars(network.get_trainable_params())
        updater.set_learning_rate(0.05, session=session)
        updater.init_optimizer_vars(session=session)
        feed = make_feed_dict(network.extern_data, same_time=True)
        for _ in range(3):
            session.run(updater.get_optim_op(), feed)
        assert session.run(network.get_total_loss(), feed) < loss


def test_gradients_of_a_network_that_does_not_train():
    net_dict = {
        "states": {"class": "rec", "unit": "zoneoutlstm", "n_out": 4, "from": "data"},
        "output": {"class": "softmax", "from": "states", "loss": "ce", "target": "classes"},
    }
    with make_scope() as session:
        network = make_network(net_dict, train_flag=False, eval_flag=True)
        run_network(session, network, network.get_total_loss(), same_time=True)
        gradients = tf1.gradients(network.get_total_loss(), network.get_trainable_params())
        for value in session.run(gradients, make_feed_dict(network.extern_data, same_time=True)):
            assert numpy.abs(value).max() > 0


def test_parameters_of_a_loop_are_those_of_its_layers():
    with make_scope() as session:
        network = make_network(decoder(), train_flag=True)
        layer = network.layers["output"]
        assert layer.get_absolute_name_scope_prefix() == "output/rec/"
        names = {param.name.split(":")[0].removeprefix("output/rec/") for param in layer.params.values()}
        assert names == set(layer.params)
        assert {"s/rec/lstm_cell/kernel", "prob/W", "embed/W"} <= names
        network.initialize_params(session)
        ones = {name: numpy.ones_like(value) for name, value in layer.get_param_values_dict(session).items()}
        layer.set_param_values_by_dict(ones, session)
        serialized = network.get_params_serialized(session)
        assert set(serialized.values_dict) == {"enc", "output"}
        assert all((value == 1).all() for value in serialized.values_dict["output"].values())


def test_methods_about_layers_inside():
    with make_scope():
        layer = make_network(decoder(), train_flag=True).layers["output"]
        assert layer.get_sub_layer("prob").output.dim == 5
        assert all(isinstance(net, TFNetwork) for net in layer.get_sub_networks())
        assert {"s", "prob"} <= {inner.name for inner in layer.get_sub_layers()}
        assert layer.network.layers["enc"] in layer.get_dep_layers()
        assert "s" in RecLayer.get_available_sub_layer_names(layer.kwargs)


def test_output_of_a_layer_in_the_loop():
    wanted = {**decoder()["output"]["unit"]["s"], "is_output_layer": True}
    with make_scope() as session:
        network = make_network(decoder(s=wanted), train_flag=True)
        state = network.get_layer("output/s").output
        value, _ = run_network(session, network, state.get_placeholder_as_batch_major(), same_time=True)
        assert value.shape == (3, 7, 4)


def test_search_choices():
    with make_scope() as session:
        network = make_network(decoder(), **SEARCH)
        output = network.layers["output"]
        choices = output.get_search_choices()
        assert choices is output.search_choices
        assert choices.owner is output
        assert choices.get_beam_info().beam_size == output.output.beam.beam_size == 3
        seen = {}
        assert network.get_search_choices(sources=[output], _layer_to_search_choices=seen) is choices
        assert seen == {output: choices}
        assert network.get_search_choices(base_search_choice=network.layers["decision"]) is choices
        assert network.get_search_choices(src=output) is choices
        network.debug_search_choices(network.layers["decision"])
        assert network.get_search_choices_from_beam(choices.get_beam_info()) is choices
        assert network.get_search_choices_from_beam(None) is None
        other = SearchBeam(3, name="mine")
        assert network.get_search_choices_from_beam(other) is None
        network.register_search_choices_for_beam(other, choices)
        assert network.get_search_choices_from_beam(other) is choices
        decision = network.layers["decision"].output
        fetches = {
            "scores": choices.beam_scores,
            "hypotheses": output.output.get_placeholder_as_batch_major(),
            "lengths": output.output.get_sequence_lengths(),
            "best": decision.get_placeholder_as_batch_major(),
            "best_lengths": decision.get_sequence_lengths(),
        }
        out, _ = run_network(session, network, fetches)
    assert out["hypotheses"].shape[0] == 9
    for b, scores in enumerate(out["scores"]):
        index = 3 * b + int(numpy.argmax(scores))
        assert out["best_lengths"][b] == out["lengths"][index]
        length = out["best_lengths"][b]
        assert out["best"][b, :length].tolist() == out["hypotheses"][index, :length].tolist()


def test_decide_by_hand_is_the_layer():
    with make_scope() as session:
        network = make_network(decoder(), **SEARCH)
        by_hand, choices = DecideLayer.decide(network.layers["output"])
        assert choices.is_decided
        layer = network.layers["decision"].output
        fetches = [x.get_placeholder_as_batch_major() for x in (by_hand, layer)]
        (first, second), _ = run_network(session, network, fetches)
        assert first.tolist() == second.tolist()


@pytest.mark.parametrize(
    "choice",
    [{"cheating": True}, {"length_normalization": False}, {"prob_scale": 0.5}, {"keep_beams": True}],
    ids=str,
)
def test_options_of_a_choice(choice):
    output = {**decoder()["output"]["unit"]["output"], **choice}
    with make_scope() as session:
        network = make_network(decoder(output=output), **SEARCH)
        value, _ = run_network(session, network, network.layers["output"].output.get_placeholder_as_batch_major())
        assert value.shape[0] == 9


def test_search_with_scores_of_two_models():
    layers = {
        "lm": {"class": "softmax", "n_out": 5, "from": "embed"},
        "both": {"class": "eval", "from": ["prob", "lm"], "eval": "safe_log(source(0)) + 0.3 * safe_log(source(1))"},
        "output": {
            **decoder()["output"]["unit"]["output"],
            "from": "both",
            "input_type": "log_prob",
        },
    }
    with make_scope() as session:
        network = make_network(decoder(**layers), **SEARCH)
        value, _ = run_network(session, network, network.layers["decision"].output.placeholder)
        assert value.shape[network.layers["decision"].output.batch_dim_axis] == 3


def test_last_hidden_state():
    net_dict = {
        "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": "data"},
        "h": {"class": "get_last_hidden_state", "key": "h", "n_out": 4, "from": "lstm"},
        "both": {"class": "get_last_hidden_state", "combine": "concat", "n_out": 8, "from": "lstm"},
        "output": {"class": "copy", "from": ["h", "both"]},
    }
    with make_scope() as session:
        network = make_network(net_dict)
        lstm = network.layers["lstm"]
        fetches = [
            network.layers["output"].output.placeholder,
            lstm.get_last_hidden_state("h"),
            lstm.get_last_hidden_state("*"),
            lstm.output.get_placeholder_as_batch_major(),
        ]
        (output, h, both, frames), _ = run_network(session, network, fetches)
    numpy.testing.assert_array_equal(output[:, :4], h)
    numpy.testing.assert_array_equal(output[:, 4:], both)
    for b, length in enumerate((7, 5, 3)):
        numpy.testing.assert_allclose(frames[b, length - 1], h[b], rtol=1e-5)


def test_functions_of_rnn_cells():
    options = {"batch_dim": tf.constant(3), "name": "s", "n_out": 4, "unit": "LSTMBlock", "sources": []}
    assert RnnCellLayer.get_hidden_state_size(n_out=4, unit="LSTMBlock") == (4, 4)
    with make_scope() as session:
        options["batch_dim"] = tf.constant(3)
        state = RnnCellLayer.get_rec_initial_state(**options)
        assert [value.shape for value in session.run(state)] == [(3, 4)] * 2
        assert "state" in RnnCellLayer.get_rec_initial_extra_outputs(**options, rec_layer=None)
        assert session.run(RnnCellLayer.get_output_from_state(state, unit="LSTMBlock")).shape == (3, 4)


UNITS = ("nativelstm", "nativelstm2", "lstmblockfused", "basiclstm", "standardlstm", "gru", "lstmp", "rhn", "basicrnn")


def test_recurrent_layers_called_by_hand():
    with make_scope() as session:
        network = TFNetwork(config=Config(), extern_data=ExternData(), train_flag=True)
        lengths = {0: tf.constant([5, 3])}
        data = Data(name="src", shape=(None, 3), dim=3, placeholder=tf.ones((2, 5, 3)), size_placeholder=lengths)
        source = InternalLayer(name="src", network=network, output=data)
        layers = []
        for unit in UNITS:
            options = {"name": f"rec_{unit}", "network": network, "sources": [source], "unit": unit, "n_out": 4}
            with tf1.variable_scope(options["name"]):
                layers.append(RecLayer(output=RecLayer.get_out_data_from_opts(**options), **options))
        session.run(tf1.global_variables_initializer())
        for value in session.run([layer.output.get_placeholder_as_batch_major() for layer in layers]):
            assert value.shape == (2, 5, 4)
            assert numpy.isfinite(value).all()


# Loops over vectors of 3 features, as numpy computes them: [B, T, F] and lengths to [B, T, F].
LOOPS = {
    "sum": (
        {"output": {"class": "combine", "kind": "add", "from": ["prev:output", "data:source"]}},
        lambda x: numpy.cumsum(x, axis=1),
    ),
    "difference": (
        {"x": {"class": "copy", "from": "data:source"},
         "output": {"class": "combine", "kind": "sub", "from": ["x", "prev:x"]}},
        lambda x: numpy.diff(x, axis=1, prepend=0),
    ),
    "step": (
        {"i": {"class": "cast", "dtype": "float32", "from": ":i"},
         "output": {"class": "combine", "kind": "mul", "from": ["i", "data:source"]}},
        lambda x: x * numpy.arange(x.shape[1])[None, :, None],
    ),
    "decay": (
        {"output": {"class": "eval", "eval": "source(0) * 0.5 + source(1)", "from": ["prev:output", "data:source"],
                    "initial_output": "ones"}},
        lambda x: numpy.stack(
            [sum((x[:, s] * 0.5 ** (t - s) for s in range(t + 1)), 0.5 ** (t + 1)) for t in range(x.shape[1])], axis=1
        ),
    ),
    "inside_of_a_subnetwork": (
        {"sub": {"class": "subnetwork", "from": "data:source", "subnetwork": {
            "output": {"class": "combine", "kind": "add", "from": ["prev:output", "data"]}}},
         "output": {"class": "copy", "from": "sub"}},
        lambda x: numpy.cumsum(x, axis=1),
    ),
    "maximum_so_far": (
        {"output": {"class": "combine", "kind": "maximum", "from": ["prev:output", "data:source"],
                    "initial_output": -100.0}},
        lambda x: numpy.maximum.accumulate(x, axis=1),
    ),
    "every_second": (
        {"i": {"class": "eval", "eval": "tf.math.floormod(source(0), 2)", "from": ":i"},
         "is_odd": {"class": "compare", "kind": "equal", "value": 1, "from": "i"},
         "output": {"class": "switch", "condition": "is_odd", "true_from": "prev:output",
                    "false_from": "data:source"}},
        lambda x: numpy.repeat(x[:, ::2], 2, axis=1)[:, : x.shape[1]],
    ),
    "unstacked": (
        {"x": {"class": "rec_unstack", "from": "base:data"},
         "output": {"class": "combine", "kind": "add", "from": ["x", "prev:output"]}},
        lambda x: numpy.cumsum(x, axis=1),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.parametrize("optimize", [True, False])
def test_loop_is_what_numpy_computes(name, optimize):
    unit, expected = LOOPS[name]
    loop = {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": optimize}
    with make_scope() as session:
        network = make_network({"output": loop}, {"data": {"dim": 3}})
        value, data = run_network(session, network, network.layers["output"].output.get_placeholder_as_batch_major())
    for b, length in enumerate((7, 5, 3)):
        numpy.testing.assert_allclose(value[b, :length], expected(data["data"])[b, :length], rtol=1e-4, atol=1e-5)


def test_loop_over_an_own_dim():
    time, feature = SpatialDim("time"), FeatureDim("in", 3)
    unit = {
        "x": {"class": "rec_unstack", "axis": time, "from": "base:data:data"},
        "output": {"class": "combine", "kind": "add", "from": ["x", "prev:output"]},
    }
    shape = {batch_dim, time, feature}
    with make_scope() as session:
        extern_data = {"data": {"dim_tags": [batch_dim, time, feature]}}
        loop = {"class": "rec", "axis": time, "from": [], "unit": unit, "out_shape": shape}
        network = make_network({"output": loop}, extern_data)
        value, data = run_network(session, network, network.layers["output"].output.get_placeholder_as_batch_major())
        numpy.testing.assert_allclose(value, numpy.cumsum(data["data"], axis=1), rtol=1e-4, atol=1e-5)


def test_last_output_of_a_layer_inside():
    unit = {
        "sum": {"class": "combine", "kind": "add", "from": ["prev:sum", "data:source"], "need_last": True},
        "output": {"class": "copy", "from": "sum"},
    }
    net_dict = {
        "loop": {"class": "rec", "from": "data", "unit": unit},
        "output": {"class": "rec_last_output", "rec_layer": "loop", "sub_layer_name": "sum"},
    }
    with make_scope() as session:
        network = make_network(net_dict, {"data": {"dim": 3}})
        value, data = run_network(session, network, network.layers["output"].output.placeholder)
        for b, length in enumerate((7, 5, 3)):
            numpy.testing.assert_allclose(value[b], data["data"][b, :length].sum(axis=0), rtol=1e-4, atol=1e-5)


def test_two_layers_with_the_same_parameters():
    lstm = {"class": "rec", "unit": "nativelstm2", "n_out": 4, "from": "data"}
    net_dict = {
        "a": lstm,
        "b": {**lstm, "reuse_params": "a"},
        "output": {"class": "combine", "kind": "sub", "from": ["a", "b"]},
    }
    with make_scope() as session:
        network = make_network(net_dict)
        assert len(network.get_params_list()) == 3
        value, _ = run_network(session, network, network.layers["output"].output.placeholder)
        assert (value == 0).all()


def test_language_model_with_self_attention():
    unit = {
        "embed": {"class": "linear", "activation": None, "with_bias": False, "n_out": 6, "from": "prev:output",
                  "initial_output": 0},
        "position": {"class": "positional_encoding", "add_to_input": True, "from": "embed"},
        "att": {"class": "self_attention", "num_heads": 2, "total_key_dim": 6, "n_out": 6,
                "attention_left_only": True, "from": "position"},
        "sum": {"class": "combine", "kind": "add", "from": ["att", "position"]},
        "norm": {"class": "layer_norm", "from": "sum"},
        "prob": {"class": "softmax", "from": "norm", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "beam_size": 2, "from": "prob", "target": "classes", "initial_output": 0},
        "end": {"class": "compare", "value": 0, "from": "output"},
    }  # fmt: skip
    net_dict = {"output": {"class": "rec", "from": [], "target": "classes", "unit": unit, "max_seq_len": 6}}
    with make_scope() as session:
        network = make_network(net_dict, train_flag=True)
        assert network.layers["output"].cell.layers_in_loop == []
        loss, _ = run_network(session, network, network.get_total_loss())
        assert loss > 0
    with make_scope() as session:
        network = make_network(net_dict, **SEARCH)
        value, _ = run_network(session, network, network.layers["output"].output.get_placeholder_as_batch_major())
        assert value.shape[0] == 6


class StepNumberLayer(LayerBase):
    """The number of the frame is added to the source, on raw tensors."""

    layer_class = "by_hand_step_number"
    recurrent = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        source = self.sources[0].output
        self.output.placeholder = source.placeholder + tf.cast(self.network.get_rec_step_index(), tf.float32)
        self.output.size_placeholder = source.size_placeholder.copy()

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name=f"{name}_output")


class SumLayer(LayerBase):
    """The sum of all frames so far, on raw tensors, with a state of its own."""

    layer_class = "by_hand_sum"
    recurrent = True

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        before = self._rec_previous_layer.rec_vars_outputs["state"]
        total = before + self.sources[0].output.get_placeholder_as_batch_major()
        self.rec_vars_outputs["state"] = total
        self.output.placeholder = total

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name=f"{name}_output").copy_as_batch_major()

    @classmethod
    def get_rec_initial_extra_outputs(cls, batch_dim, rec_layer, sources=(), **kwargs):
        return {"state": tf.zeros((batch_dim, sources[0].output.dim))}


@pytest.mark.parametrize(
    ("layer_class", "expected"),
    [
        (StepNumberLayer, lambda x: x + numpy.arange(x.shape[1])[None, :, None]),
        (SumLayer, lambda x: numpy.cumsum(x, axis=1)),
    ],
)
def test_own_classes_on_raw_tensors(layer_class, expected):
    register_layer_class(layer_class)
    unit = {"output": {"class": layer_class.layer_class, "from": "data:source"}}
    with make_scope() as session:
        loop = {"class": "rec", "from": "data", "optimize_move_layers_out": False, "unit": unit}
        network = make_network({"output": loop}, {"data": {"dim": 3}})
        value, data = run_network(session, network, network.layers["output"].output.get_placeholder_as_batch_major())
        numpy.testing.assert_allclose(value, expected(data["data"]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        (
            {"class": "cumsum", "reverse": True, "from": "data:source"},
            lambda x: numpy.cumsum(x[::-1], axis=0)[::-1],
        ),
        (
            {"class": "window", "window_size": 3, "window_left": 0, "window_right": 2, "from": "data:source"},
            lambda x: numpy.stack([x, [*x[1:], x[0] * 0], [*x[2:], x[0] * 0, x[0] * 0]], axis=1),
        ),
    ],
    ids=["cumsum", "window"],
)
def test_layers_that_need_later_frames_are_for_all_at_once(layer, expected):
    unit = {"later": layer, "output": {"class": "eval", "eval": "source(0) * 2", "from": "later"}}
    with make_scope() as session:
        network = make_network({"output": {"class": "rec", "from": "data", "unit": unit}}, {"data": {"dim": 3}})
        assert network.layers["output"].cell.layers_in_loop == []
        output = network.layers["output"].output.get_placeholder_as_batch_major()
        value, data = run_network(session, network, output, n_batch=1)
        numpy.testing.assert_allclose(value[0], 2 * expected(data["data"][0]), rtol=1e-4, atol=1e-5)


def test_lengths_by_hand_belong_to_a_dim():
    with make_scope() as session:
        time, lengths = SpatialDim("time"), tf.constant([4, 2])
        assert time.set_tag_on_size_tensor(lengths) is time
        assert time.is_same_size_tensor(lengths)
        data = Data(name="x", dim_tags=[batch_dim, time, FeatureDim("in", 3)], placeholder=tf.ones((2, 4, 3)))
        assert session.run(data.get_sequence_lengths()).tolist() == [4, 2]
    with make_scope(), pytest.raises(DimError, match="lengths have one axis, that of the batch, or none"):
        SpatialDim("time").set_tag_on_size_tensor(tf.zeros((2, 2), tf.int32))


@pytest.mark.parametrize("move_out", [True, False])
@pytest.mark.parametrize("search", [True, False])
def test_promises_about_dims_are_those_of_a_frame(search, move_out):
    time, feature, label = SpatialDim("time"), FeatureDim("feature", 3), FeatureDim("label", 5)
    score = {"class": "eval", "eval": "source(0) * source(1)", "out_shape": {batch_dim, label}, "is_output_layer": True}
    zeros = {"class": "eval", "from": "prev:output", "eval": "tf.cast(source(0) * 0, 'int32')", "is_output_layer": True}
    prob = {"class": "softmax", "from": "data:source", "target": "classes", "out_shape": {batch_dim, label}}
    choice = {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0}
    unit = {
        "i": {"class": "cast", "dtype": "float32", "from": ":i", "out_shape": ()},
        "prob": prob,
        "score": {**score, "from": ["prob", "i"]},
        "zeros": {**zeros, "out_type": {"shape": (), "dtype": "int32", "sparse": False, "dim": None}},
        "output": {**choice, "out_shape": {batch_dim, ImplicitSparseDim(label)}},
    }
    data = {
        "data": {"dim_tags": [batch_dim, time, feature]},
        "classes": {"dim_tags": [batch_dim, time], "sparse_dim": label, "available_for_inference": False},
    }
    options = {"class": "rec", "from": "data", "target": "classes", "optimize_move_layers_out": move_out}
    with make_scope() as session:
        network = make_network({"output": {**options, "unit": unit}}, data, train_flag=not search, search_flag=search)
        layers = [network.get_layer(f"output/{name}").output for name in ("score", "zeros")]
        value, _ = run_network(session, network, [x.copy_as_batch_major().placeholder for x in layers])
        hypotheses = 9 if search else 3
        assert [x.shape for x in value] == [(3, 7, 5), (hypotheses, 7)]


def test_a_promise_about_dims_that_is_not_kept():
    wrong = {"output": {"class": "copy", "from": "data", "out_shape": {batch_dim}}}
    with make_scope(), pytest.raises(VerifyOutShapeException, match=r"layer 'output' .*out_shape"):
        make_network(wrong)


def test_template_of_a_class_that_says_nothing():
    with make_scope():
        source = make_network({"output": {"class": "copy", "from": "data"}}).layers["output"]
        options = {"name": "x", "network": source.network, "sources": [source], "n_out": 7}
        assert LayerBase._base_get_out_data_from_opts(**options).batch_shape == (None, None, 7)


def test_hypotheses_of_another_search_as_target():
    first = {"p": {"class": "softmax", "from": "data:source", "target": "classes"}}
    choice = {"class": "choice", "beam_size": 2, "from": "p", "target": "classes", "initial_output": 0}
    forced = {**choice, "search": False, "target": "hypotheses"}

    def net(**options):
        embed = {"class": "linear", "n_out": 4, "activation": None, "from": "prev:output"}
        prob = {"class": "softmax", "from": ["data:source", "embed"], "target": "hypotheses"}
        second = {"embed": embed, "p": prob, "output": {**forced, **options}}
        return {
            "searched": {"class": "rec", "from": "data", "target": "classes", "unit": {**first, "output": choice}},
            "known": {"class": "copy", "from": "searched", "register_as_extern_data": "hypotheses"},
            "output": {"class": "rec", "from": "data", "target": "hypotheses", "unit": second},
        }

    with make_scope(), pytest.raises(ConfigError, match="do not continue each other"):
        make_network(net(), **SEARCH)
    with make_scope() as session:
        network = make_network(net(add_to_beam_scores=False), **SEARCH)
        labels = [network.layers[name].output.get_placeholder_as_batch_major() for name in ("searched", "output")]
        (found, given), _ = run_network(session, network, labels)
        assert found.tolist() == given.tolist()
