"""Net dicts of configs with `get_model` and `train_step`: what an option `get_network` returns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy
import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.config import Config, global_config_ctx
from returnn.datasets.generating import Task12AXDataset
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.tf.engine import Engine
from returnn.tf.frontend_layers import get_net_dict
from returnn.tf.graph_export import GraphMode, build_graph
from returnn.tf.network import TFNetwork
from returnn.util.errors import ConfigError

IN, OUT = Dim(9, name="in"), Dim(2, name="out")
TIME = Dim(None, name="time", kind=Dim.Types.Spatial)


class Model(rf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = rf.Linear(IN, OUT)
        self.linear.weight.initial = numpy.arange(18, dtype="float32").reshape(9, 2) / 10

    def __call__(self, x: Tensor) -> Tensor:
        return self.linear(rf.dropout(x, 0.5))


def get_model(*, epoch: int, step: int, **_kwargs: Any) -> Model:
    return Model()


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    loss = rf.cross_entropy(
        estimated=model(extern_data["data"]), target=extern_data["classes"], axis=OUT, estimated_type="logits"
    )
    ctx = rf.get_run_ctx()
    ctx.mark_as_loss(loss, "ce", scale=0.5, use_normalized_loss=True)
    ctx.mark_as_loss(rf.reduce_max(loss, axis=loss.dims), "worst", as_error=True)


def forward_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    rf.get_run_ctx().mark_as_default_output(rf.softmax(model(extern_data["data"]), axis=OUT))


def config(**options: Any) -> Config:
    extern_data = {
        "data": {"dim_tags": [batch_dim, TIME, IN], "dtype": "float32"},
        "classes": {"dim_tags": [batch_dim, TIME], "sparse_dim": OUT, "dtype": "int32"},
    }
    functions = {"get_model": get_model, "train_step": train_step, "forward_step": forward_step}
    return Config({"extern_data": extern_data, "behavior_version": 24, **functions, **options})


def test_losses_of_train_step_are_layers_with_losses() -> None:
    with global_config_ctx(config()):
        net_dict = get_net_dict(epoch=1, step=0)
    assert net_dict["ce"]["loss"] == "as_is"
    assert net_dict["ce"]["loss_scale"] == 0.5
    assert net_dict["ce"]["loss_opts"] == {"use_normalized_loss": True}
    assert net_dict["worst"]["loss_opts"] == {"as_error": True}
    assert net_dict["train_flag"] == {"class": "train_flag"}
    classes = [options["class"] for options in net_dict.values()]
    assert "cond" in str(net_dict)
    assert classes.count("variable") == 2


def test_forward_step_gives_the_output() -> None:
    cfg = config(task="forward")
    with global_config_ctx(cfg):
        net_dict = get_net_dict(epoch=1, step=0)
    assert "ce" not in net_dict
    x = numpy.random.RandomState(1).normal(size=(2, 3, 9)).astype("float32")
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        network = TFNetwork(config=cfg, train_flag=False)
        network.construct_from_dict(net_dict)
        session.run(tf.compat.v1.global_variables_initializer())
        data = network.extern_data.data["data"]
        feed = {data.raw_tensor: x, data.dims[1].dyn_size: [3, 2]}
        batch = data.dims[0].dyn_size
        if batch is not None and batch.op.type.startswith("Placeholder"):
            feed[batch] = 2
        got = session.run(network.get_default_output_layer().output.copy_as_batch_major().raw_tensor, feed)
    logits = x @ (numpy.arange(18, dtype="float32").reshape(9, 2) / 10)
    expected = numpy.exp(logits) / numpy.exp(logits).sum(-1, keepdims=True)
    numpy.testing.assert_allclose(got, expected, rtol=1e-5)


def test_training_by_get_model_learns(tmp_path: Path) -> None:
    dataset = Task12AXDataset(num_seqs=30)
    dataset.init_seq_order(epoch=1)
    cfg = config(
        backend="tensorflow-net-dict", num_epochs=3, batch_size=200, model=str(tmp_path / "net"), learning_rate=0.05,
        optimizer={"class": "adam"}, task="train",
    )  # fmt: skip
    with global_config_ctx(cfg):
        engine = Engine(cfg)
        engine.init_train_from_config(cfg, train_data=dataset)
        engine.train()
        first, last = (_train_score(engine.learning_rate_control.epoch_data[epoch].error) for epoch in (1, 3))
        names = {param.op.name for param in engine.network.get_params_list()}
    assert last < first
    assert names == {"linear/weight", "linear/bias"}


def pooled_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    x = rf.replace_dim(extern_data["data"], in_dim=extern_data["data"].feature_dim, out_dim=IN)[0]
    logits = model(x)
    logits = rf.reduce_mean(logits, axis=[dim for dim in logits.dims if dim not in (batch_dim, OUT)])
    rf.softmax(logits, axis=OUT).mark_as_default_output()


def test_dims_of_data_that_the_config_does_not_name_are_those_of_the_network() -> None:
    """Descriptions have new dims whenever they are read, which the net dict has to keep."""
    described = {"data": {"dim": 9}, "more": {"dim": 3, "sparse": True}}
    cfg = config(extern_data=described, task="forward", forward_step=pooled_step, forward_output_layer=None)
    with global_config_ctx(cfg):
        exported = build_graph(cfg, GraphMode())
        assert cfg.typed_dict["extern_data"] == described  # as before
    (output,) = exported.outputs.values()
    x = numpy.random.RandomState(1).normal(size=(2, 3, 9)).astype("float32")
    with exported.graph.as_default(), tf.compat.v1.Session() as session:
        session.run(tf.compat.v1.global_variables_initializer())
        feed = {exported.inputs["data"]: x, exported.inputs["data, lengths of axis 1"]: [3, 2]}
        feed[exported.inputs["size of the batch"]] = 2
        got = session.run(output, feed)
    logits = x @ (numpy.arange(18, dtype="float32").reshape(9, 2) / 10)
    logits = numpy.stack([logits[0].mean(0), logits[1, :2].mean(0)])
    numpy.testing.assert_allclose(got, numpy.exp(logits) / numpy.exp(logits).sum(-1, keepdims=True), rtol=1e-5)


def test_net_dict_has_the_data_of_the_config_only_where_dims_are_not_named() -> None:
    with global_config_ctx(config()):
        assert "#config" not in get_net_dict(epoch=1, step=0)


def _train_score(scores: dict[str, float]) -> float:
    return next(value for name, value in scores.items() if name.startswith("train") and "worst" not in name)


def test_functions_that_are_missing_are_an_error() -> None:
    with global_config_ctx(config(get_model=None)), pytest.raises(ConfigError, match="option 'get_model' is required"):
        get_net_dict(epoch=1, step=0)
