"""The text of a config loads without the package, and gives the same network."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.tensor.dim_rules import at_most, padded_dim, twin
from returnn.tf.frontend_layers import Layer, ReturnnDimTagsProxy, register_extern_data
from returnn.util.errors import UserError

ROOT = Path(__file__).parents[3]
FEATURE = Dim(3, name="feature", kind=Dim.Types.Feature)
HIDDEN = Dim(4, name="feature", kind=Dim.Types.Feature)

COMPUTE = """
import sys

import numpy
import tensorflow as tf

from returnn.config import Config
from returnn.tf.network import TFNetwork

tf1 = tf.compat.v1




def compute(options):
    with tf.Graph().as_default(), tf1.Session() as session:
        network = TFNetwork(config=Config({"behavior_version": 24, **options}), train_flag=False)
        network.construct_from_dict(options["network"])
        session.run(tf1.global_variables_initializer())
        data = network.extern_data.data["data"]
        value = numpy.random.RandomState(1).normal(size=(2, 5, 3)).astype("float32")
        feed = {data.raw_tensor: value, data.dims[1].dyn_size: numpy.array([5, 3], "int32")}
        batch = data.dims[0].dyn_size
        if batch is not None and batch.op.type.startswith("Placeholder"):
            feed[batch] = 2
        output = network.get_default_output_layer().output
        return session.run(output.raw_tensor, feed)
"""
MAIN = """
config = {}
exec(open(sys.argv[1]).read(), config)
numpy.save(sys.argv[2], compute({key: config[key] for key in ("extern_data", "network")}))
assert "returnn.tf.frontend_layers" not in sys.modules
"""


class Model(rf.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = rf.Linear(FEATURE, HIDDEN)
        self.linear.weight.initial = numpy.arange(12, dtype="float32").reshape(3, 4) / 10
        self.lstm = rf.LSTM(HIDDEN, HIDDEN, with_bias=False)
        self.lstm.ff_weight.initial = self.lstm.rec_weight.initial = 0.1

    def __call__(self, x: Tensor, time: Dim) -> Tensor:
        x, time = rf.pad(self.linear(x), axes=[time], padding=[(1, 2)], value=0.5)[0], 1 + time + 2
        x, time = rf.window(x, spatial_dim=time, window_dim=Dim(2, name="window"), padding="valid", stride=2)
        x = rf.reduce_max(x, axis=next(dim for dim in x.dims if dim.name == "window"))
        x, _ = self.lstm(x, spatial_dim=time, state=self.lstm.default_initial_state(batch_dims=[batch_dim]))
        return rf.where(rf.sequence_mask(time), x, -float("inf"), allow_broadcast_all_sources=True)


def recorded() -> tuple[Layer, Model]:
    time = Dim(None, name="time", kind=Dim.Types.Spatial)
    with rf.backend_ctx("returnn_layers_tf"), Layer.new_root() as root:
        x = register_extern_data(Tensor("data", [batch_dim, time, FEATURE], "float32", feature_dim=FEATURE))
        model = Model()
        root.make_default_output(model(x, time))
    return root, model


def test_text_gives_the_same_network_without_the_package(tmp_path: Path) -> None:
    root, model = recorded()
    text = root.get_returnn_config(root_module=model).get_complete_py_code_str()
    (tmp_path / "my.config").write_text(text)
    (tmp_path / "main.py").write_text(COMPUTE + MAIN)
    command = [sys.executable, str(tmp_path / "main.py"), str(tmp_path / "my.config"), str(tmp_path / "out.npy")]
    subprocess.run(command, check=True, timeout=300, env={**os.environ, "PYTHONPATH": str(ROOT)})
    names: dict = {}
    exec(COMPUTE, names)
    expected = names["compute"](root.get_returnn_config(root_module=model).get_config_raw_dict())
    numpy.testing.assert_allclose(numpy.load(tmp_path / "out.npy"), expected, rtol=1e-5)
    assert numpy.isfinite(expected).any()


def test_text_is_always_the_same() -> None:
    texts = []
    for _ in range(2):
        root, model = recorded()
        texts.append(root.get_returnn_config(root_module=model).get_complete_py_code_str())
    assert texts[0] == texts[1]
    assert "feature_dim = Dim(3, name='feature', kind=Dim.Types.Feature)\n" in texts[0]
    assert "feature_dim_0 = Dim(4, name='feature', kind=Dim.Types.Feature)\n" in texts[0]


def test_parameters_have_to_belong_to_the_model() -> None:
    root, _ = recorded()
    with pytest.raises(UserError, match=r"parameter 'linear\.weight': does not belong to the model"):
        root.get_returnn_config(root_module=rf.Linear(FEATURE, HIDDEN))


def test_functions_cannot_be_written() -> None:
    root, model = recorded()
    root.extra_net_dict["extra"] = {"class": "eval", "from": "data", "eval": len}
    with pytest.raises(UserError, match=r"network\['extra'\]\['eval'\]: <built-in function len> cannot be written"):
        root.get_returnn_config(root_module=model).get_complete_py_code_str()


@pytest.mark.parametrize(
    "make",
    [
        lambda time: time,
        lambda time: 2 * time + 1,
        lambda time: 1 + time.sub_left(3),
        lambda time: (time + 1).ceildiv_right(3) * FEATURE,
        lambda time: (time // 2) * time,
        lambda time: (FEATURE * time).div_right(time),
        lambda time: padded_dim(time),
        lambda time: at_most(time, 4) + 2,
        lambda time: twin(time),
        lambda time: batch_dim,
    ],
)
def test_code_of_a_dim_gives_this_dim(make) -> None:
    time = Dim(Tensor("lengths", [batch_dim], "int32"), name="time", kind=Dim.Types.Spatial)
    dim = make(time)
    dims = ReturnnDimTagsProxy()
    proxy = dims.collect_dim_tags_and_transform_config({"dim": dim})["dim"]
    names = {"batch_dim": batch_dim, "padded_dim": padded_dim, "at_most": at_most, "twin": twin}
    names.update({name: ref.dim for name, ref in dims.dim_refs_by_name.items()})
    assert eval(repr(proxy), names) == dim


def test_sets_and_marks_have_an_order() -> None:
    dims = ReturnnDimTagsProxy(reserved_names={"feature_dim"})
    config = dims.collect_dim_tags_and_transform_config({"shape": {FEATURE, HIDDEN}})
    assert repr(config) == "{'shape': {feature_dim_0, feature_dim_1}}"
    assert dims.copy().py_code_str() == dims.py_code_str()
