"""Names of layers, and what is an error while they are recorded."""

from __future__ import annotations

import io
import types
from collections.abc import Iterator

import numpy
import pytest

import returnn.frontend as rf
from returnn.frontend.assert_ import assert_
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tf.frontend_layers import (
    Cond,
    Layer,
    Loop,
    MaskedComputation,
    auto_setup_name_ctx_ignore_func,
    call_stack,
    disable_debug_eager_mode,
    enable_debug_eager_mode,
    get_dim_deps,
    make_layer,
    register_extern_data,
)
from returnn.tf.frontend_layers.make_layer import ReturnnConstructTemplateException
from returnn.tf.frontend_layers.ops import effects
from returnn.tf.frontend_layers.recording import as_recorded
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import DimError, DtypeError, UserError

FEATURE = Dim(3, name="feature", kind=Dim.Types.Feature)
HIDDEN = Dim(4, name="hidden", kind=Dim.Types.Feature)


class Block(rf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = rf.Linear(FEATURE, HIDDEN)
        self.back = rf.Linear(HIDDEN, FEATURE, with_bias=False)

    def __call__(self, x: Tensor) -> Tensor:
        return self.back(rf.relu(self.linear(x))) + x


class Model(rf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.blocks = rf.ModuleList(Block(), Block())

    def __call__(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


@pytest.fixture
def root() -> Iterator[Layer]:
    with rf.backend_ctx("returnn_layers_tf"), Layer.new_root() as root:
        yield root


def data(time: Dim | None = None, *, dtype: str = "float32") -> Tensor:
    dims = [batch_dim, *([time] if time is not None else []), *([FEATURE] if dtype == "float32" else [])]
    return register_extern_data(Tensor("data", dims, dtype, feature_dim=FEATURE if FEATURE in dims else None))


def new_time() -> Dim:
    return Dim(None, name="time", kind=Dim.Types.Spatial)


def test_layers_and_parameters_are_named_by_attributes(root: Layer) -> None:
    out = Model()(data())
    root.make_default_output(out)
    net_dict = root.make_net().make_net_dict_raw()
    assert [name for name in net_dict if not name.endswith(".initial")] == [
        "blocks.0.linear.weight", "blocks_0", "blocks.0.linear.bias", "blocks.0.back.weight",
        "blocks.1.linear.weight", "blocks_1", "blocks.1.linear.bias", "blocks.1.back.weight", "output",
    ]  # fmt: skip
    block = net_dict["blocks_1"]["subnetwork"]
    assert list(block) == ["linear", "relu", "back", "add", "output"]
    assert block["linear"]["subnetwork"]["dot"]["from"] == [
        "base:base:blocks_0/add",
        "base:base:blocks.1.linear.weight",
    ]
    assert net_dict["output"] == {"class": "copy", "from": "blocks_1/add"}
    assert net_dict["blocks.0.linear.weight"]["name_scope"] == "/blocks/0/linear"


def test_each_call_is_a_subnetwork_of_its_own(root: Layer) -> None:
    class Twice(rf.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = rf.Linear(FEATURE, FEATURE)

        def __call__(self, x: Tensor) -> Tensor:
            return self.linear(self.linear(x))

    root.make_default_output(Twice()(data()))
    names = list(root.make_net().make_net_dict_raw())
    assert [name for name in names if "." not in name] == ["linear", "linear_0", "output"]


def test_a_method_can_be_without_a_name(root: Layer) -> None:
    auto_setup_name_ctx_ignore_func(Block.__call__)
    try:
        root.make_default_output(Model()(data()))
        names = list(root.make_net().make_net_dict_raw())
        assert "blocks_0" not in names
    finally:
        call_stack._ignored.clear()


def test_what_nothing_needs_is_left_out(root: Layer) -> None:
    x = data()
    rf.exp(x)
    root.make_default_output(rf.tanh(x))
    assert list(root.make_net().make_net_dict_raw()) == ["tanh", "output"]


def test_subnetworks_of_one_layer_become_this_layer(root: Layer) -> None:
    root.make_default_output(rf.Sequential(rf.Linear(FEATURE, HIDDEN, with_bias=False))(data()))
    before = root.make_net().make_net_dict_raw()
    root.make_all_sub_networks_and_optimize()
    after = root.make_net().make_net_dict_raw()
    assert [options["class"] for options in before.values()] == ["variable", "random", "subnetwork", "copy"]
    assert [options["class"] for options in after.values()] == ["variable", "random", "copy", "dot"]
    assert before["output"]["from"] == "0/dot"
    assert after["output"]["from"] == "0"


def test_tensors_of_another_net_dict_are_an_error(root: Layer) -> None:
    x = data()
    with Layer.new_root() as other:
        other.make_default_output(rf.tanh(x))
        with pytest.raises(UserError, match="layer 'data:data': is part of another net dict"):
            other.make_net().make_net_dict_raw()


def test_templates_are_an_error(root: Layer) -> None:
    with pytest.raises(UserError, match="Data has to be registered, by register_extern_data"):
        as_recorded(Tensor("y", [FEATURE], "float32"))


def test_data_of_the_same_key_has_to_be_the_same(root: Layer) -> None:
    assert data() is data()
    with pytest.raises(UserError, match=r"extern data 'data': is .* already"):
        data(dtype="int32")


def test_arrays_become_constants(root: Layer) -> None:
    with rf.backend_ctx("numpy"):
        weights = rf.convert_to_tensor(numpy.arange(3, dtype="float32"), dims=[FEATURE])
    root.make_default_output(data() * weights)
    net_dict = root.make_net().make_net_dict_raw()
    numpy.testing.assert_array_equal(net_dict["constant"]["value"], [0, 1, 2])


def test_lengths_of_dims_come_from_layers(root: Layer) -> None:
    time = new_time()
    data(time)
    assert [x.raw_tensor.layer_dict["class"] for x in get_dim_deps(time + 1)] == ["length"]
    assert get_dim_deps(FEATURE) == []


def test_make_layer_asks_the_class_what_comes_out(root: Layer) -> None:
    out = make_layer({"class": "linear", "activation": None, "from": data(), "out_dim": HIDDEN})
    assert out.dims_set == {batch_dim, HIDDEN}
    with pytest.raises(ReturnnConstructTemplateException, match="Did you mean 'activation'"):
        make_layer({"class": "linear", "activaton": None, "from": data(), "out_dim": HIDDEN})


def test_debug_mode_finds_a_wrong_template_where_it_is_made(root: Layer) -> None:
    enable_debug_eager_mode()
    try:
        assert rf.tanh(data()).raw_tensor.debug_layer.dims_set == {batch_dim, FEATURE}
        wrong = Tensor("wrong", [batch_dim], "float32")
        with pytest.raises(ReturnnConstructTemplateException, match=r"layer 'copy': puts out .* expected to give"):
            make_layer({"class": "copy", "from": data()}, predefined_out_data=wrong)
    finally:
        disable_debug_eager_mode()


def test_errors_of_loops(root: Layer) -> None:
    x = data(new_time())
    loop = Loop()
    with pytest.raises(UserError, match=r"stack\(\) is only possible inside of the loop"):
        loop.stack(x)
    with pytest.raises(UserError, match="it is not known how many frames there are"), Loop():
        pass
    with pytest.raises(AttributeError, match="there is no state 'h'"):
        _ = loop.state.h
    with pytest.raises(UserError, match="the state 'h' has no initial value"), Loop() as other:
        other.state.h = other.unstack(x)
    third = Loop()
    third.state.h = rf.zeros([FEATURE])
    with pytest.raises(UserError, match="the state 'h' was not assigned"), third:
        third.unstack(x)
    fourth = Loop()
    fourth.state.h = rf.zeros([batch_dim, FEATURE])
    with fourth:
        fourth.state.h = inner = rf.tanh(fourth.unstack(x))
    root.make_default_output(inner)
    with pytest.raises(UserError, match=r"cannot be used outside of 'loop_\d'"):
        root.make_net().make_net_dict_raw()


def test_errors_of_conditions_and_masks(root: Layer) -> None:
    x = data()
    with pytest.raises(DtypeError, match=r"Cond: the condition .* is not bool"):
        Cond(rf.constant(1, dims=()))
    with pytest.raises(UserError, match=r"`cond\.false` was not set"), Cond(rf.constant(True, dims=())) as cond:
        cond.true = x
    with pytest.raises(UserError, match="MaskedComputation: is only possible inside of a loop"):
        MaskedComputation(x > 0)


def classes_of(value: Tensor) -> list[str]:
    """:return: the classes of the layers that compute the value, but for the module's own"""
    root = Layer.top().root
    root.make_default_output(value)
    net_dict = root.make_net().make_net_dict_raw()
    return [layer["class"] for layer in net_dict.values() if layer["class"] not in ("copy", "variable", "random")]


def test_convolution_is_a_layer_of_this_class(root: Layer) -> None:
    BehaviorVersion.set(24)
    time = new_time()
    filters = rf.constant(numpy.ones([3, 3, 4], "float32"), dims=[window := Dim(3, name="window"), FEATURE, HIDDEN])
    out, _ = rf.conv(
        data(time), in_dim=FEATURE, out_dim=HIDDEN, in_spatial_dims=[time], filter=filters, filter_size=[window],
        padding="same", strides=2, use_mask=False,
    )  # fmt: skip
    assert classes_of(out) == ["constant", "pad", "conv"]  # "same" of the layer would be another one


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x, time: rf.pool(x, mode="max", pool_size=2, in_spatial_dims=time, use_mask=False)[0], ["pool"]),
        (lambda x, time: rf.pad(x, axes=[time], padding=[(1, 2)])[0], ["pad"]),
        (lambda x, time: rf.gelu(x), ["activation"]),
        (lambda x, time: rf.safe_log(x), ["activation"]),
        (lambda x, time: rf.clip_by_value(x, 0.0, 1.0), ["constant", "combine", "constant", "combine"]),
        (lambda x, time: rf.lerp(x, x, 0.5), ["combine", "constant", "combine", "combine"]),
        (lambda x, time: rf.slice(x, axis=time, start=1, end=-1)[0], ["slice"]),
    ],
    ids=["pool", "pad", "gelu", "safe_log", "clip_by_value", "lerp", "slice"],
)
def test_what_a_layer_class_does_is_recorded_as_this(root: Layer, function: object, expected: list[str]) -> None:
    time = new_time()
    assert classes_of(function(data(time), time)) == expected  # type: ignore[operator]


def test_ctc_loss_is_a_layer(root: Layer) -> None:
    time, labels_dim = new_time(), Dim(None, name="labels", kind=Dim.Types.Spatial)
    labels = register_extern_data(Tensor("classes", [batch_dim, labels_dim], "int32", sparse_dim=FEATURE))
    loss = rf.ctc_loss(
        logits=data(time), targets=labels, input_spatial_dim=time, targets_spatial_dim=labels_dim, blank_index=2
    )
    classes = classes_of(loss)
    assert "ctc_loss" in classes
    assert "eval" not in classes


def test_assertion_is_a_layer_that_is_always_made(root: Layer) -> None:
    x = data()
    assert_(x > 0, "not positive")
    root.make_default_output(x)
    layer = root.make_net().make_net_dict_raw()["assert"]
    assert layer["is_output_layer"]
    assert "not positive" in layer["eval"]


def test_assertion_in_a_loop_is_an_error(root: Layer) -> None:
    loop = Loop(max_seq_len=3)
    loop.state = rf.State(value=rf.zeros([batch_dim]))
    data()
    with pytest.raises(DimError, match="assert_: 'too small': a net dict cannot check this inside of a loop"), loop:
        assert_(loop.state.value > 0, "too small")


def test_checkpoints_are_told_to_have_no_effect(root: Layer, monkeypatch: pytest.MonkeyPatch) -> None:
    said = io.StringIO()
    monkeypatch.setattr(effects, "log", types.SimpleNamespace(v2=said))
    monkeypatch.setattr(effects, "_is_told", False)
    for _ in range(2):
        with rf.gradient_checkpoint_scope():
            rf.tanh(rf.zeros([FEATURE]))
    assert said.getvalue().count("gradient_checkpoint_scope: has no effect in a net dict") == 1


def test_name_scope_of_a_place_is_an_option_of_the_layer(root: Layer) -> None:
    out = rf.tanh(data())
    out.raw_tensor.custom_layer_name_scope = "/other"
    root.make_default_output(out)
    assert root.make_net().make_net_dict_raw()["tanh"]["name_scope"] == "/other"


def test_hooks_are_told_which_layers_are_left_out(root: Layer) -> None:
    x = data()
    kept, unused = rf.tanh(x), rf.exp(x)
    told: list[str] = []
    for out in (kept, unused):
        out.raw_tensor.tensor_remove_unused_cleanup_hooks.append(lambda tensor: told.append(tensor.raw_tensor.name))
    root.make_default_output(kept)
    for _ in range(2):
        root.make_net().make_net_dict_raw()
    assert told == ["exp"]


def test_layer_that_has_to_be_accessible_from_outside(root: Layer) -> None:
    x = data(new_time())
    loop = Loop()
    loop.state = rf.State(value=rf.zeros([batch_dim, FEATURE]))
    with loop:
        loop.state.value = loop.state.value + loop.unstack(x)
        loop.state.value.raw_tensor.require_global_access = True
        frames = loop.stack(loop.state.value)
    root.make_default_output(frames)
    with pytest.raises(UserError, match="require_global_access is set, but it cannot be named from the root"):
        root.make_net().make_net_dict_raw()


def test_batch_of_the_data_is_known(root: Layer) -> None:
    assert root.global_batch is None
    data()
    assert root.global_batch is not None
    assert root.global_batch.is_global_batch()
