"""A network in float64, as `default_float_dtype` says: everything that a training step computes has this dtype."""

import numpy
import pytest

from returnn.util.errors import ConfigError
from tests.tf.network.old_config import ConfigNet

CONFIG = """
default_float_dtype = "float64"
extern_data = {
    "data": {"dim": 6, "shape": (None, 6)},
    "classes": {"dim": 5, "shape": (None,), "sparse": True, "available_for_inference": True},
}
network = {}
"""
CLASSES = {"class": "softmax", "from": "data", "n_out": 5, "target": "classes"}
OUTPUTS = {
    "cross entropy": {**CLASSES, "loss": "ce"},
    "mean squared error": {**CLASSES, "loss": "mse"},
    "binary cross entropy": {**CLASSES, "loss": "bin_ce", "activation": "sigmoid"},
    "mean absolute error": {**CLASSES, "loss": "mean_l1"},
    "output as loss": {**CLASSES, "loss": "as_is"},
    "sampled loss": {**CLASSES, "loss": "sampling_loss", "loss_opts": {"num_sampled": 3, "use_full_softmax": False}},
    "scale, norm and constraints": {
        **CLASSES, "loss": "ce", "loss_scale": 0.3, "loss_opts": {"use_normalized_loss": True}, "L2": 0.1, "darc1": 0.1,
        "spatial_smoothing": 0.1, "param_variational_noise": 0.1, "dropout": 0.1, "batch_norm": True,
    },
    "positional encoding": {"class": "positional_encoding", "add_to_input": True, "from": "data", "loss": "as_is"},
    "self-attention": {
        "class": "self_attention", "from": "data", "num_heads": 2, "total_key_dim": 4, "n_out": 4, "loss": "as_is",
    },
    "twod_lstm": {"class": "twod_lstm", "from": ["data", "data"], "n_out": 3, "loss": "as_is"},
    **{
        f"unit {unit}": {"class": "rec", "unit": unit, "from": "data", "n_out": 4, "loss": "as_is"}
        for unit in ("nativelstm2", "lstmblock", "standardlstm", "gru", "rhn")
    },
    "loop": {"class": "rec", "from": "data", "loss": "as_is", "unit": {
        "s": {"class": "rnn_cell", "unit": "lstmblock", "from": ["data:source", "prev:s"], "n_out": 4},
        "output": {"class": "combine", "kind": "add", "from": ["s", "prev:output"], "n_out": 4}}},
}  # fmt: skip


@pytest.mark.parametrize("name", OUTPUTS)
def test_output_loss_and_gradients_are_float64(name):
    net = ConfigNet(CONFIG, network={"output": OUTPUTS[name]}, with_loss=True, train_flag=True)
    assert net.net.get_layer("output").output.dtype == "float64"
    loss, gradients = net.run([net.loss, net.gradients])
    assert [x.dtype.name for x in (loss, *gradients)] == ["float64"] * (1 + len(gradients))
    assert all(numpy.isfinite(x).all() for x in (loss, *gradients))


def test_unknown_dtype_is_an_error():
    with pytest.raises(
        ConfigError, match=r"^option 'default_float_dtype': got 'float46', but expected one .*\n.*'float64'"
    ):
        ConfigNet(CONFIG.replace("float64", "float46"), network={"output": CLASSES})
