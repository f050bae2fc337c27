"""Losses and regularization inside of a "cond", and of a loop in a loop."""

import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.loss import Loss
from returnn.tf.layers.linear.linear import LinearLayer
from returnn.util.errors import ConfigError
from tests.tf.layers.test_common_options import LINEAR, Net

tf1 = tf.compat.v1
LOSS = {**LINEAR, "loss": "as_is", "loss_scale": 0.5, "L2": 0.1, "loss_opts": {"use_normalized_loss": True}}
INSIDE = {"class": "subnetwork", "from": "data", "subnetwork": {"aux": LOSS, "output": {**LINEAR, "from": "aux"}}}
NO_LOSS = {**LINEAR, "name_scope": "plain"}


def results(net_dict):
    """:return: losses, total, constraints"""
    net = Net(net_dict, train_flag=True)
    with net.graph.as_default(), rf.backend_ctx("tf"):
        net.session.run(tf1.global_variables_initializer())
        for param in net.net.get_params_list():  # the same values whatever the graph looks like
            count = param.shape.num_elements()
            net.session.run(param.assign(tf.reshape(tf.sin(tf.range(count, dtype=tf.float32)), param.shape)))
        losses, total, constraints = net.net.get_losses_initialized(with_total=True)
        values = {name: loss.get_loss_value() for name, loss in losses.items()}
        names, tensors = list(values), [*values.values(), total, constraints]
        *values, total, constraints = net.run(*tensors)
    return dict(zip(names, values, strict=True)), total, constraints


def cond(value, true_layer, false_layer, source="data"):
    """:return: layers with a condition that is only known when it is computed"""
    no_dims = {"dims": (), "dtype": "bool"}
    is_true = {"class": "eval", "eval": f"tf.equal(tf.shape(source(0))[0] * 0, {int(not value)})"}
    is_true = {**is_true, "from": source, "out_type": lambda name, **_: Tensor(name, **no_dims)}
    branches = {"condition": "is_true", "true_layer": true_layer, "false_layer": false_layer}
    return {"is_true": is_true, "layer": {"class": "cond", "from": [], "is_output_layer": True, **branches}}


@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize(("layer", "name"), [(LOSS, "layer"), (INSIDE, "layer/aux")], ids=["layer", "inside"])
def test_losses_of_the_layer_that_is_computed(layer, name, is_first):
    layers = (layer, NO_LOSS) if is_first else (NO_LOSS, layer)
    losses, total, constraints = results(cond(is_first, *layers))
    expected = results({"layer": {**layer, "is_output_layer": True}})
    assert list(losses) == list(expected[0]) == [name]
    assert losses[name] == pytest.approx(expected[0][name], rel=1e-5)
    assert total == pytest.approx(expected[1], rel=1e-5)
    assert constraints == pytest.approx(expected[2], rel=1e-5)
    assert total != 0


def test_losses_of_the_layer_that_is_not_computed_are_zero():
    assert results(cond(False, LOSS, NO_LOSS)) == ({"layer": 0.0}, 0.0, 0.0)


@pytest.mark.parametrize("value", [True, False])
def test_losses_of_the_same_name_are_one(value):
    other = {**LOSS, "activation": "tanh"}
    expected = results({"layer": {**(LOSS if value else other), "is_output_layer": True}})
    losses, total, _ = results(cond(value, LOSS, other))
    assert losses == {"layer": pytest.approx(expected[0]["layer"], rel=1e-5)}
    assert total == pytest.approx(expected[1], rel=1e-5)


def test_losses_of_the_same_name_with_other_scales():
    with pytest.raises(ConfigError, match="the losses 'layer' of both layers need the same 'scale' and norm"):
        results(cond(True, LOSS, {**LOSS, "loss_scale": 2.0}))


def frames(desc):
    """:return: the same layer, whose source is that of a loop"""
    return {**desc, "from": "data:source"}


def in_loop(*layers, condition="tf.equal(source(0) % 2, 0)", **options):
    """:return: a loop over a condition of the number of the frame"""
    is_true = {"class": "eval", "from": ":i", "eval": condition, "out_type": {"dtype": "bool"}}
    unit = {"is_true": is_true, **cond(True, *map(frames, layers)), "output": {"class": "copy", "from": "layer"}}
    unit["is_true"] = is_true
    return {"loop": {"class": "rec", "from": "data", "unit": unit, "is_output_layer": True, **options}}


SUM = {**LOSS, "loss_opts": {}, "loss_scale": 1.0}  # of all frames


@pytest.mark.parametrize("layer", [SUM, {**INSIDE, "subnetwork": {**INSIDE["subnetwork"], "aux": SUM}}])
def test_in_a_loop_those_of_all_frames_in_which_it_is_computed(layer):
    even, odd, both = (results(in_loop(*layers)) for layers in ((layer, NO_LOSS), (NO_LOSS, layer), (layer, layer)))
    outside = results({"layer": {**layer, "name_scope": "loop/rec/layer", "is_output_layer": True}})
    (name,) = even[0]
    assert name == f"loop/{next(iter(outside[0]))}"
    assert even[1] + odd[1] == pytest.approx(both[1], rel=1e-5) == pytest.approx(outside[1], rel=1e-5)
    assert min(abs(even[1]), abs(odd[1])) > 1e-3
    assert even[2] == odd[2] == pytest.approx(outside[2], rel=1e-5)  # of parameters, once


def test_in_a_loop_it_is_normalized_by_the_number_of_these_frames():
    layer = {**LOSS, "loss": TwoPerFrame, "loss_scale": 1.0}
    _, total, _ = results(in_loop(layer, NO_LOSS, condition="tf.equal(source(0), 1)"))
    assert total == pytest.approx(2.0)
    _, total, constraints = results(in_loop(layer, NO_LOSS, condition="source(0) > 99"))
    assert (total, constraints) == (0.0, 0.0)


NUMBERS = {
    name: {"class": "eval", "from": ":i", "eval": f"tf.equal(source(0) % {num}, 0)", "out_type": {"dtype": "bool"}}
    for name, num in (("of_two", 2), ("of_three", 3), ("of_six", 6))
}
MASK = {"class": "switch", "condition": "of_three", "true_from": "yes", "false_from": "no"}
MASKS = {
    "first": {"class": "reduce", "mode": "mean", "axis": "F", "from": "data:source"},
    "yes": {"class": "compare", "from": "first", "value": 1e9, "kind": "less"},
    "no": {"class": "compare", "from": "first", "value": 1e9, "kind": "greater"},
    "of_three_mask": MASK,
}


def either(layer, condition, *, source="data:source", other=NO_LOSS):
    """:return: the layer, or another one"""
    branches = {"true_layer": {**layer, "from": source}, "false_layer": {**other, "from": source}}
    return {"class": "cond", "from": [], "condition": condition, **branches}


def in_subnetwork(layer):
    """:return: the layer, whose source is "data" """
    unit = {"aux": layer, "output": {"class": "copy", "from": "aux"}}
    return {"class": "subnetwork", "from": "data:source", "subnetwork": unit}


def masked(layer, source="data:source", mask="of_three_mask"):
    """:return: the layer in some frames alone; it sees these as "data" """
    return {"class": "masked_computation", "from": source, "mask": mask, "unit": layer, "name_scope": "layer"}


OUTSIDE = {**SUM, "name_scope": "layer"}
ONCE = either(OUTSIDE, "of_six")
NESTED = {
    "cond in cond": either(either(OUTSIDE, "of_two"), "of_three"),
    "cond in subnetwork in cond": either(in_subnetwork(either(OUTSIDE, "base:of_two", source="data")), "of_three"),
    "three conds": either(either(either(OUTSIDE, "of_two"), "of_six"), "of_three"),
    "mask in cond": either(masked({**OUTSIDE, "from": "data"}), "of_two"),
    "cond in mask": masked(either(OUTSIDE, "base:of_two", source="data")),
    "cond in subnetwork in mask": masked(
        {**in_subnetwork(either(OUTSIDE, "base:base:of_two", source="data")), "from": "data"}
    ),
    "mask in mask": masked(masked({**OUTSIDE, "from": "data"}, "data", "base:of_two_mask")),
}


@pytest.mark.parametrize("name", NESTED)
def test_of_one_inside_of_another_those_of_the_frames_in_which_both_are_computed(name):
    found, expected = (
        results({
            "loop": {
                "class": "rec", "from": "data", "is_output_layer": True, "optimize_move_layers_out": False,
                "unit": {
                    **NUMBERS, **MASKS, "of_two_mask": {**MASK, "condition": "of_two"},
                    "layer": {**layer, "is_output_layer": True}, "output": {"class": "copy", "from": "layer"},
                },
            }
        })
        for layer in (NESTED[name], ONCE)
    )  # fmt: skip
    assert list(found[0].values()) == pytest.approx(list(expected[0].values()), rel=1e-5)
    assert found[1:] == pytest.approx(expected[1:], rel=1e-5)
    assert abs(found[1]) > 1e-3
    assert found[2] > 1e-3


LOOP_OVER_FRAMES = {
    "class": "rec", "from": "base:base:data",
    "unit": {"aux": {**SUM, "from": "data:source"}, "output": {"class": "copy", "from": "aux"}},
}  # fmt: skip
DEEP = {
    "cond": (either(SUM, "base:of_two", source="data"), "loop/outer/x"),
    "mask": (masked({**SUM, "from": "data"}, "data", "base:of_three_mask"), "loop/outer/x"),
    "subnetwork in cond": (
        either({**in_subnetwork(SUM), "from": "data"}, "base:of_two", source="data"),
        "loop/outer/x/aux",
    ),
    "loop": (LOOP_OVER_FRAMES, "loop/outer/x/aux"),
}


@pytest.mark.parametrize("name", DEEP)
@pytest.mark.parametrize("move", [True, False])
def test_losses_in_a_subnetwork_of_a_loop_have_its_name(name, move):
    layer, expected = DEEP[name]
    outer = {"class": "subnetwork", "from": "data:source", "subnetwork": {"x": layer, "output": LINEAR}}
    unit = {
        **NUMBERS,
        **MASKS,
        "outer": {**outer, "is_output_layer": True},
        "output": {"class": "copy", "from": "outer"},
    }
    outer["subnetwork"]["x"]["is_output_layer"] = True
    loop = {"class": "rec", "from": "data", "unit": unit, "is_output_layer": True, "optimize_move_layers_out": move}
    assert list(results({"loop": loop})[0]) == [expected]


def test_losses_in_a_loop_in_a_loop():
    """The inner loop, which is the same in each frame of the other one, counts as often as there are frames."""
    layer = {**SUM, "from": "data:source"}
    inner = {
        "class": "rec",
        "from": "base:data",
        "unit": {"layer": layer, "output": {"class": "copy", "from": "layer"}},
    }
    unit = {"inner": inner, "mean": {"class": "reduce", "mode": "mean", "axis": "T", "from": "inner"}}
    unit["output"] = {"class": "combine", "kind": "add", "from": ["mean", "prev:output"]}
    losses, total, constraints = results(
        {"loop": {"class": "rec", "from": "data", "unit": unit, "is_output_layer": True}}
    )
    outside = {**SUM, "loss": TimesLength, "name_scope": "loop/rec/inner/rec/layer", "is_output_layer": True}
    _, expected, expected_constraints = results({"layer": outside})
    assert list(losses) == ["loop/inner/layer"]
    assert total == pytest.approx(expected, rel=1e-5)
    assert constraints == pytest.approx(expected_constraints, rel=1e-5)


@pytest.mark.parametrize("layer", [SUM, LOSS], ids=["sum", "mean"])
@pytest.mark.parametrize("move", [True, False])
def test_condition_in_a_loop_in_a_loop_that_holds_changes_nothing(layer, move):
    """The inner loop computes all of its frames at once, or each; sums for each sequence count in the other one."""

    def in_loops(layer):
        inner = {"class": "rec", "from": "base:data", "optimize_move_layers_out": move}
        inner["unit"] = {"layer": layer, "output": {"class": "copy", "from": "layer"}}
        always = {"class": "eval", "from": ":i", "eval": "source(0) >= 0", "out_type": {"dtype": "bool"}}
        unit = {"always": always, "inner": inner}
        unit["mean"] = {"class": "reduce", "mode": "mean", "axis": "T", "from": "inner"}
        unit["output"] = {"class": "combine", "kind": "add", "from": ["mean", "prev:output"]}
        return results({"loop": {"class": "rec", "from": "data", "unit": unit, "is_output_layer": True}})

    losses, total, constraints = in_loops(either(layer, "base:always"))
    expected, expected_total, expected_constraints = in_loops({**layer, "from": "data:source"})
    assert losses == pytest.approx(expected, rel=1e-5)
    assert list(losses) == ["loop/inner/layer"]
    assert total == pytest.approx(expected_total, rel=1e-5)
    assert constraints == pytest.approx(expected_constraints, rel=1e-5)


def test_parameters_of_the_same_name_in_other_scopes_are_all_there():
    net = Net(cond(True, LINEAR, NO_LOSS)).net
    names = ["layer/W", "layer/b", "plain/W", "plain/b"]
    assert sorted(param.op.name for param in net.get_params_list()) == names


class TwoPerFrame(Loss):
    """2 for each frame."""

    class_name = "two_per_frame"
    need_target = False

    def value_per_frame(self):
        return rf.reduce_mean(self.output * 0.0 + 2.0, axis=self.output.feature_dim)


class TimesLength(Loss):
    """Each frame counts as often as its sequence has frames."""

    class_name = "times_length"
    need_target = False

    def value_per_frame(self):
        lengths = rf.cast(self.output.get_time_dim_tag().get_size_tensor(), "float32")
        return rf.reduce_sum(self.output, axis=self.output.feature_dim) * lengths


class TwoLosses(LinearLayer):
    """Has more losses than its options say."""

    layer_class = "two_losses"

    def get_losses_initialized(self, reduce_func=None):
        return 2 * super().get_losses_initialized(reduce_func)


def test_losses_that_are_not_in_the_net_dict():
    with pytest.raises(ConfigError, match=r"it has 2 losses, its options only say 1\.\n  Inside of"):
        results(cond(True, {**LOSS, "class": TwoLosses}, NO_LOSS))
