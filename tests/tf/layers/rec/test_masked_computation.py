"""Layers on some of the frames."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
import tensorflow as tf

from returnn.config import Config
from returnn.tensor import Dim
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import RecurrentNet, sequences, valid
from tests.tf.layers.search.search_net import SearchNet, inputs

LSTM = {"class": "rec", "unit": "nativelstm2", "from": "data", "n_out": 4}
LINEAR = {"class": "linear", "activation": "tanh", "from": "data", "n_out": 4}
SUBNET = {
    "class": "subnetwork",
    "from": "data",
    "subnetwork": {"x": LINEAR, "output": {**LSTM, "from": ["x", "data"]}},
}
OWN_PAST = {
    "class": "subnetwork",
    "from": "data",
    "subnetwork": {"output": {**LINEAR, "from": ["data", "prev:output"]}},
}
SELF_ATTENTION = {
    "class": "self_attention",
    "num_heads": 2,
    "total_key_dim": 4,
    "n_out": 4,
    "attention_left_only": True,
    "from": "data",
}
TRANSFORMER = {
    "class": "subnetwork",
    "from": "data",
    "subnetwork": {
        "distance": {"class": "relative_positional_encoding", "n_out": 2, "from": "data", "clipping": 2},
        "first": {**SELF_ATTENTION, "key_shift": "distance"},
        "output": {**SELF_ATTENTION, "from": ["first", "data"]},
    },
}

POSITIONS = {"class": "positional_encoding", "from": "data", "add_to_input": True}
STEPS = {"class": "cast", "from": ":i", "dtype": "float32"}


def in_subnet(layer: dict[str, Any]) -> dict[str, Any]:
    """:return: the sum of the data and this layer"""
    output = {"class": "combine", "kind": "add", "from": ["data", "x"]}
    return {"class": "subnetwork", "from": "data", "subnetwork": {"x": layer, "output": output}}


def history(hist: Dim) -> dict[str, Any]:
    """:return: self-attention by hand"""
    layers = {
        "query": {"class": "linear", "from": "data", "n_out": 4, "activation": None},
        "key": {"class": "linear", "from": "data", "n_out": 4, "activation": None},
        "keys": {"class": "cum_concat", "from": "key", "out_spatial_dim": hist},
        "energy": {"class": "dot", "from": ["query", "keys"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy", "axis": hist},
        "output": {"class": "dot", "from": ["weights", "keys"], "reduce": hist},
    }
    return {"class": "subnetwork", "from": "data", "subnetwork": layers}


def masked_net(unit: dict[str, Any], *, read_in_loop: bool = False, **options: Any) -> dict[str, Any]:
    feedback = ["prev:output"] if read_in_loop else []
    layers = {
        "first": {"class": "slice", "axis": "F", "slice_start": 0, "slice_end": 1, "from": "data:source"},
        "number": {"class": "squeeze", "axis": "F", "from": "first"},
        "mask": {"class": "compare", "kind": "greater", "value": 0.0, "from": "number"},
        "masked": {"class": "masked_computation", "mask": "mask", "from": "data:source", "unit": unit},
        "all": {"class": "unmask", "mask": "mask", "from": "masked"},
        "output": {"class": "linear", "activation": None, "from": ["all", "data:source", *feedback], "n_out": 4},
    }
    return {"output": {"class": "rec", "from": "data", "unit": layers, **options}}


UNITS = {
    "lstm": lambda: LSTM,
    "linear": lambda: LINEAR,
    "subnet": lambda: SUBNET,
    "own past": lambda: OWN_PAST,
    "self-attention": lambda: SELF_ATTENTION,
    "transformer": lambda: TRANSFORMER,
    "history": lambda: history(Dim(None, name="history")),
    "positions": lambda: POSITIONS,
    "positions in a subnetwork": lambda: in_subnet(POSITIONS),
    "steps": lambda: in_subnet(STEPS),
}


@pytest.mark.parametrize("read_in_loop", [False, True])
@pytest.mark.parametrize("kind", UNITS)
def test_moving_it_out_of_the_loop_changes_nothing(kind, read_in_loop):
    data, lengths = sequences(max_len=8)
    inside, outside = (
        RecurrentNet(masked_net(UNITS[kind](), read_in_loop=read_in_loop, optimize_move_layers_out=move)).run(
            data, lengths
        )
        for move in (False, True)
    )
    numpy.testing.assert_allclose(valid(inside.output, lengths), valid(outside.output, lengths), atol=1e-5)


@pytest.mark.parametrize("move", [False, True])
@pytest.mark.parametrize(("layer", "counts_all"), [(POSITIONS, False), (STEPS, True)], ids=["positions", "steps"])
def test_positions_count_the_frames_that_are_left_and_steps_all(layer, counts_all, move):
    net = masked_net(in_subnet(layer), optimize_move_layers_out=move)
    net["output"]["unit"]["output"] = {"class": "copy", "from": "all"}
    data, lengths = sequences(max_len=8)
    found = RecurrentNet(net).run(data, lengths).output
    num_features = data.shape[-1]
    half = num_features // 2
    waves = numpy.exp(numpy.arange(half) * -numpy.log(1e4) / max(half - 1, 1))
    for sequence, length, output in zip(data, lengths, found, strict=True):
        count, last = 0, None
        for t in range(length):
            if sequence[t, 0] > 0.0:
                angles = count * waves
                code = numpy.concatenate([numpy.sin(angles), numpy.cos(angles), numpy.zeros(num_features % 2)])
                last = sequence[t] + (t if counts_all else code + sequence[t])
                count += 1
            if last is not None:
                numpy.testing.assert_allclose(output[t], last, rtol=1e-4, atol=1e-4)
        assert count > 1 or length < 4


@pytest.mark.parametrize("move", [False, True])
def test_what_is_masked_out_does_not_matter(move):
    data, lengths = sequences(max_len=8)
    net_dict = masked_net(LSTM, optimize_move_layers_out=move)
    net_dict["output"]["unit"]["all"]["is_output_layer"] = True
    net = RecurrentNet(net_dict, fetch=("output/all",))
    before = net.run(data, lengths).out["output/all"]
    data[..., 1:] += (data[..., :1] <= 0) * 5
    numpy.testing.assert_allclose(valid(net.run(data, lengths).out["output/all"], lengths), valid(before, lengths))


def transducer(kind: str) -> dict[str, Any]:
    """:return: net dict: one label a frame, or 0 for none, and a language model on the labels alone"""
    layers = {
        "is_label": {"class": "compare", "kind": "not_equal", "value": 0, "from": "output", "initial_output": True},
        "label": {"class": "linear", "from": "prev:output", "activation": None, "n_out": 4},
        "lm": {"class": "masked_computation", "mask": "prev:is_label", "from": "label", "unit": UNITS[kind]()},
        "p": {"class": "softmax", "from": ["lm", "data:source"], "n_out": 4, "is_output_layer": True},
        "output": {
            "class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0,
            "length_normalization": False,
        },
    }  # fmt: skip
    return {
        "output": {"class": "rec", "from": "data", "unit": layers, "target": "classes"},
        "scores": {
            "class": "choice_get_beam_scores",
            "from": "output",
            "is_output_layer": True,
            "only_on_search": True,
        },
    }


@pytest.mark.parametrize("kind", ["lstm", "self-attention", "transformer", "history"])
def test_hypotheses_of_a_search_have_a_past_of_their_own(kind):
    data, lengths = inputs(max_len=6)
    search = SearchNet(transducer(kind), fetch=("output", "scores"), search_depends_on_batch=False)
    found = search.hypotheses(3, data=(data, lengths))
    assert len({sum(label != 0 for label in labels) for beam in found for labels, _ in beam}) > 1
    scorer = SearchNet(transducer(kind), search=False, fetch=("output/p",))
    for rank in range(3):
        rows = [[*beam[rank][0]] + [0] * (6 - len(beam[rank][0])) for beam in found]
        p, _ = scorer.run(data=(data, lengths), classes=(numpy.array(rows, "int32"), lengths))["output/p"]
        for b, beam in enumerate(found):
            labels, score = beam[rank]
            expected = sum(numpy.log(p[b, t, label]) for t, label in enumerate(labels))
            numpy.testing.assert_allclose(score, expected, rtol=1e-4)


@pytest.mark.parametrize("option", ["L2", "darc1", "spatial_smoothing"])
@pytest.mark.parametrize("in_subnetwork", [False, True])
def test_regularization_of_the_unit_changes_no_search(option, in_subnetwork):
    def hypotheses(**options):
        net_dict = transducer("lstm")
        unit = {**LINEAR, **options}
        net_dict["output"]["unit"]["lm"]["unit"] = in_subnet(unit) if in_subnetwork else unit
        return SearchNet(net_dict, fetch=("output", "scores")).hypotheses(3, data=inputs(max_len=6))

    assert hypotheses(**{option: 0.1}) == hypotheses()


def test_the_unit_needs_a_class():
    with pytest.raises(ConfigError, match="option 'unit': expected a dict with 'class'"):
        RecurrentNet(masked_net({"from": "data"}))


def test_a_mask_is_required():
    net_dict = masked_net(LSTM)
    net_dict["output"]["unit"]["masked"]["mask"] = None
    with pytest.raises(ConfigError, match="the option 'mask' is required, or 'masked_from'"):
        RecurrentNet(net_dict)


def test_known_frames_are_taken_as_they_are():
    data, lengths = sequences()
    masked = {"class": "masked_computation", "mask": "none", "from": "nothing", "masked_from": "data", "unit": LSTM}
    expected = RecurrentNet({"output": LSTM}).run(data, lengths).output
    numpy.testing.assert_allclose(RecurrentNet({"output": masked}).run(data, lengths).output, expected)


@pytest.mark.parametrize("move", [False, True])
def test_no_frame_of_the_batch_is_left(move):
    data, lengths = sequences(n_batch=2, max_len=4)
    data[..., 0] = -1.0
    net_dict = masked_net({**LINEAR, "initial_output": 0.5}, optimize_move_layers_out=move)
    net_dict["output"]["unit"]["all"]["is_output_layer"] = True
    out = RecurrentNet(net_dict, fetch=("output/all",)).run(data, lengths).out["output/all"]
    assert (valid(out, lengths) == valid(out, lengths)[0, 0]).all()


INITIAL = {
    "zero": {},
    "number": {"initial_output": 0.5},
    "ones": {"initial_output": "ones"},
    "parameter": {"initial_output": "var"},
    "on zeros": {"initial_output": "apply(0)"},
    "layer": {"initial_output": "base:init"},
}


def initial_net(unit: dict[str, Any], *, move: bool, **options: Any) -> dict[str, Any]:
    net_dict = masked_net(unit, optimize_move_layers_out=move)
    net_dict["init"] = {"class": "linear", "activation": "tanh", "from": "data:vec", "n_out": 4}
    unit = net_dict["output"]["unit"]
    unit["masked"].update(options)
    unit["all"]["is_output_layer"] = True
    return net_dict


@pytest.mark.parametrize("of_unit", [False, True], ids=["of the layer", "of the unit"])
@pytest.mark.parametrize("kind", INITIAL)
def test_the_output_before_the_first_frame_is_the_same_inside_and_outside(kind, of_unit):
    data, lengths = sequences(max_len=6)
    data[:, :2, 0] = -1.0  # the first two frames are masked out
    unit, options = ({**LINEAR, **INITIAL[kind]}, {}) if of_unit else (LINEAR, INITIAL[kind])
    vec = sequences(max_len=3, n_in=5)[0][:, 0]
    inside, outside = (
        RecurrentNet(initial_net(unit, move=move, **options), fetch=("output/all",)).run(data, lengths, vec=vec)
        for move in (False, True)
    )
    first = inside.out["output/all"][:, 0]
    numpy.testing.assert_allclose(valid(inside.out["output/all"], lengths), valid(outside.out["output/all"], lengths))
    bias = inside.params["output/rec/masked/b"]
    expected = {"zero": 0.0, "number": 0.5, "ones": 1.0, "on zeros": numpy.tanh(bias)}
    if kind in expected:
        numpy.testing.assert_allclose(first, numpy.broadcast_to(expected[kind], first.shape), rtol=1e-5)


def test_the_first_frame_sees_the_initial_state_of_the_unit_as_the_output_before():
    data, lengths = sequences(max_len=4)
    data[:, :, 0] = -1.0
    net_dict = initial_net({**LSTM, "initial_state": {"c": 0, "h": 0.25}}, move=False)
    net_dict["output"]["unit"]["before"] = {"class": "copy", "from": "prev:masked", "is_output_layer": True}
    out = RecurrentNet(net_dict, fetch=("output/all", "output/before")).run(data, lengths).out
    for frames in out.values():
        assert (frames[0] == 0.25).all()


@pytest.mark.parametrize("unit", [LSTM, LINEAR], ids=["lstm", "linear"])
@pytest.mark.parametrize("source", ["masked", "prev:masked", "prev:all"])
def test_all_frames_see_the_last_one_that_was_not_masked_out(unit, source):
    data, lengths = sequences(max_len=8)
    results = []
    for move in (False, True):
        net_dict = masked_net(unit, optimize_move_layers_out=move)
        net_dict["output"]["unit"]["output"]["from"] = [source, "data:source"]
        results.append(valid(RecurrentNet(net_dict).run(data, lengths).output, lengths))
    numpy.testing.assert_allclose(*results, atol=1e-5)


def test_layers_on_the_same_masked_frames_are_moved_out_together():
    net_dict = masked_net(LINEAR)
    unit = net_dict["output"]["unit"]
    unit["other"] = {**unit["masked"], "unit": {"class": "copy", "from": "data"}}
    unit["both"] = {"class": "copy", "from": ["masked", "other"]}
    unit["all"]["from"] = "both"
    net = RecurrentNet(net_dict)
    plan = net.net.get_layer("output").compiled.plan
    assert not plan.at("inside")


STATE_IN_SUBNET = {"class": "subnetwork", "from": "data", "subnetwork": {"output": LSTM}}


@pytest.mark.parametrize("unit", [LSTM, STATE_IN_SUBNET], ids=["lstm", "subnet"])
@pytest.mark.parametrize("move", [False, True])
def test_the_state_stays_where_it_was_in_frames_that_are_masked_out(unit, move):
    data, lengths = sequences(max_len=8)
    net_dict = masked_net(unit, read_in_loop=True, optimize_move_layers_out=move)
    for name, source in (("after", "masked"), ("before", "prev:masked")):
        layer = {"class": "get_last_hidden_state", "from": source, "key": "c", "n_out": 4, "is_output_layer": True}
        net_dict["output"]["unit"][name] = layer
    net_dict["last"] = {"class": "get_last_hidden_state", "from": "output/masked", "key": "c", "n_out": 4}
    net_dict["last"]["is_output_layer"] = True
    out = RecurrentNet(net_dict, fetch=("output/after", "output/before", "last")).run(data, lengths).out
    after, before = out["output/after"], out["output/before"]
    for b, length in enumerate(lengths):
        numpy.testing.assert_array_equal(before[b, 1:length], after[b, : length - 1])
        changed = (after[b, :length] != before[b, :length]).any(axis=-1)
        numpy.testing.assert_array_equal(changed, data[b, :length, 0] > 0)
        numpy.testing.assert_array_equal(out["last"][b], after[b, length - 1])


@pytest.mark.parametrize("other", ["data:source", "prev:output", "masked/x", "prev:masked"])
def test_sub_layers_keep_their_last_frame(other):
    data, lengths = sequences(max_len=8)
    results = []
    for move in (False, True):
        net_dict = masked_net(SUBNET, optimize_move_layers_out=move)
        net_dict["output"]["unit"]["output"]["from"] = ["all", other]
        inner = {"class": "unmask", "from": "masked/x", "mask": "mask", "is_output_layer": True}
        net_dict["output"]["unit"]["inner"] = inner
        found = RecurrentNet(net_dict, fetch=("output/inner",)).run(data, lengths).out["output/inner"]
        results.append(valid(found, lengths))
    numpy.testing.assert_allclose(*results, atol=1e-6)


LAYERS_AROUND = {
    "in a network": {
        "class": "subnetwork",
        "from": "data",
        "subnetwork": {"output": {**LSTM, "from": ["data", "base:beside"]}},
    },
    "of the frame before": {
        "class": "subnetwork",
        "from": "data",
        "subnetwork": {"output": {**LSTM, "from": ["data", "base:prev:beside"]}},
    },
    "in the layer": {**LINEAR, "from": ["data", "base:beside"]},
    "of another mask": {
        "class": "subnetwork",
        "from": "data",
        "subnetwork": {"output": {**LSTM, "from": "base:other"}},
    },
}


@pytest.mark.parametrize("unit", LAYERS_AROUND.values(), ids=LAYERS_AROUND)
def test_layers_of_the_loop_around_are_seen_in_the_frames_that_are_left(unit):
    data, lengths = sequences(max_len=8)
    results = []
    for move in (False, True):
        net_dict = masked_net(unit, optimize_move_layers_out=move)
        layers = net_dict["output"]["unit"]
        layers["beside"] = {"class": "linear", "activation": "tanh", "n_out": 3, "from": "data:source"}
        layers["mask2"] = {"class": "compare", "kind": "less", "value": 0.5, "from": "number"}
        layers["other_masked"] = {"class": "masked_computation", "mask": "mask2", "from": "beside", "unit": LSTM}
        layers["other"] = {"class": "unmask", "mask": "mask2", "from": "other_masked"}
        net = RecurrentNet(net_dict)
        assert bool(net.net.get_layer("output").compiled.plan.at("inside")) is not move
        results.append(valid(net.run(data, lengths).output, lengths))
    numpy.testing.assert_allclose(*results, atol=1e-5)


@pytest.mark.parametrize("move", [False, True])
def test_without_source_the_unit_sees_the_layers_around(move):
    """As generated networks have it, also with a state of its own."""
    data, lengths = sequences(max_len=8)
    results = []
    for source, seen in (("data:source", "data"), ([], "base:x")):
        inner = {
            "cell": {"class": "linear", "activation": "tanh", "n_out": 3, "from": [seen, "prev:cell"]},
            "output": {"class": "copy", "from": "cell"},
        }
        net_dict = masked_net({"class": "subnetwork", "from": [], "subnetwork": inner}, optimize_move_layers_out=move)
        layers = net_dict["output"]["unit"]
        layers["x"] = {"class": "copy", "from": "data:source"}
        layers["masked"]["from"] = source
        results.append(valid(RecurrentNet(net_dict).run(data, lengths).output, lengths))
    numpy.testing.assert_allclose(*results, atol=1e-5)


def test_outside_of_a_loop_a_source_is_required():
    unit = {"class": "subnetwork", "from": [], "subnetwork": {"output": {"class": "copy", "from": "base:data"}}}
    number = {"class": "reduce", "mode": "sum", "axis": "F", "from": "data"}
    net_dict = {
        "number": number,
        "mask": {"class": "compare", "kind": "greater", "value": 0.0, "from": "number"},
        "output": {"class": "masked_computation", "mask": "mask", "from": [], "unit": unit},
    }
    with pytest.raises(ConfigError) as info:
        RecurrentNet(net_dict)
    assert "layer 'output' (class 'masked_computation'): outside of a loop, a source is required" in str(info.value)


def test_layers_from_outside_of_the_loop_are_seen_as_a_whole():
    attention = {
        "energy": {"class": "dot", "from": ["base:base:memory", "data"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy", "axis": "T"},
        "output": {"class": "generic_attention", "weights": "weights", "base": "base:base:memory"},
    }
    unit = {"class": "subnetwork", "from": "data", "subnetwork": attention}
    data, lengths = sequences(max_len=8)
    net_dict = masked_net(unit)
    net_dict["memory"] = {"class": "copy", "from": "data"}
    out = RecurrentNet(net_dict).run(data, lengths)
    assert out.output.shape[:2] == data.shape[:2]


def test_labels_that_are_masked_out_need_not_be_known():
    code = "tf.where(source(0) > 0., 1, 9)"
    labels = {
        "label": {"class": "eval", "from": "number", "eval": code, "out_type": {"dtype": "int32"}},
        "known": {"class": "reinterpret_data", "from": "label", "set_sparse": True, "set_sparse_dim": 3},
    }
    unit = {"class": "linear", "activation": None, "with_bias": False, "from": "data", "n_out": 4}
    net_dict = masked_net(unit, read_in_loop=True)
    net_dict["output"]["unit"].update(labels)
    net_dict["output"]["unit"]["masked"]["from"] = "known"
    net_dict["output"]["optimize_move_layers_out"] = False
    data, lengths = sequences(max_len=8)
    assert numpy.isfinite(RecurrentNet(net_dict).run(data, lengths).output).all()


@pytest.mark.parametrize("in_subnetwork", [False, True])
def test_losses_of_the_unit_count_in_the_frames_that_are_left(in_subnetwork):
    data, lengths = inputs()
    layer = {"class": "linear", "from": "data", "n_out": 2, "activation": None, "loss": "as_is", "L2": 0.1}
    unit = {"class": "subnetwork", "from": "data", "subnetwork": {"output": layer}} if in_subnetwork else layer
    masked = {
        "class": "masked_computation",
        "mask": "mask",
        "from": "data:source",
        "unit": unit,
        "is_output_layer": True,
    }
    mask = {"class": "compare", "from": "mean", "kind": "greater", "value": 0.0}
    mean = {"class": "reduce", "mode": "mean", "axis": "F", "from": "data:source"}
    output = {"class": "copy", "from": "data:source"}
    net_dict = {
        "output": {"class": "rec", "from": "data", "unit": {"mean": mean, "mask": mask, "m": masked, "output": output}}
    }
    for move in (True, False):
        net = SearchNet(net_dict, search=False, train=True, optimize_move_layers_out=move)
        with net.graph.as_default():
            _, loss, constraints = net.net.get_losses_initialized(with_total=True)
        found, found_l2 = net.run([loss, constraints], data=(data, lengths))
        params = {name.rpartition("/")[2]: value for name, value in net.params().items()}
        is_left = (data.mean(-1) > 0) & (numpy.arange(data.shape[1]) < lengths[:, None])
        numpy.testing.assert_allclose(found, numpy.sum(data[is_left] @ params["W"] + params["b"]), rtol=1e-4)
        numpy.testing.assert_allclose(found_l2, 0.1 * sum(numpy.sum(x**2) for x in params.values()), rtol=1e-4)


def test_losses_of_the_unit_need_one_mask_for_each_sequence():
    unit = {"class": "linear", "from": "data", "n_out": 2, "loss": "as_is"}
    masked = {
        "class": "masked_computation",
        "mask": "mask",
        "from": "data:source",
        "unit": unit,
        "is_output_layer": True,
    }
    mask = {"class": "compare", "from": "data:source", "kind": "greater", "value": 0.0}
    layers = {"mask": mask, "m": masked, "output": {"class": "copy", "from": "data:source"}}
    with pytest.raises(ConfigError, match=r"option 'mask': has .*, so losses of its frames are not known"):
        RecurrentNet({"output": {"class": "rec", "from": "data", "unit": layers}}, optimize_move_layers_out=False)


def masked_by_labels(labels, lengths):
    """:return: data of a batch, outputs of layers with a mask that data of another key says"""
    extern_data = {"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True}}
    mask = {"class": "compare", "kind": "greater", "value": 1, "from": "data:classes"}
    cumsum = {"class": "cumsum", "from": "data"}
    net_dict = {
        "mask": mask,
        "masked": {"class": "masked_computation", "mask": "mask", "from": "data", "unit": cumsum},
        "output": {"class": "unmask", "mask": "mask", "from": "masked"},
    }
    data = numpy.random.RandomState(1).normal(size=(2, 4, 3)).astype("float32")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        net = TFNetwork(config=Config({"extern_data": extern_data, "network": net_dict}), eval_flag=True)
        net.construct_from_dict(net_dict)
        feed = {}
        for key, value, of_key in (("data", data, [4, 3]), ("classes", labels, lengths)):
            x = net.extern_data.data[key]
            feed.update({x.raw_tensor: value, x.get_time_dim_tag().dyn_size: of_key, x.batch.dim: 2})
        return data, session.run(net.get_default_output_layer().output.copy_as_batch_major().raw_tensor, feed)


def test_a_mask_of_another_data_key():
    labels = numpy.array([[2, 0, 3, 0], [0, 3, 3, 0]])
    data, output = masked_by_labels(labels, [4, 3])
    expected = numpy.cumsum(numpy.where(labels[..., None] > 1, data, 0.0), axis=1)
    numpy.testing.assert_allclose(output[0], expected[0], rtol=1e-5)
    numpy.testing.assert_allclose(output[1, :3], expected[1, :3], rtol=1e-5)


def test_a_mask_of_another_data_key_has_to_be_as_long():
    with pytest.raises(tf.errors.InvalidArgumentError, match="needs as many labels as the source has frames"):
        masked_by_labels(numpy.array([[2, 0, 3], [0, 3, 3]]), [3, 3])
