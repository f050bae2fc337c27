"""Dims merged into one, and split again."""

import numpy
import pytest

from returnn.tf.util.data import FeatureDim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, WITH_TIME, LayerNet, batch_of

IS_FRAME = numpy.arange(max(LENGTHS))[None] < numpy.array(LENGTHS)[:, None]


@pytest.mark.parametrize("behavior_version", [0, 5, 6, 30])
@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize("axes", [["B", "T"], "BT"])
def test_batch_and_time_are_merged_as_they_are_split(axes, time_major, behavior_version):
    net_dict = {
        "flat": {"class": "merge_dims", "axes": axes, "from": "data"},
        "twice": {"class": "eval", "eval": "source(0) * 2", "from": "flat"},
        "again": {"class": "split_batch_time", "base": "data", "from": "twice"},
    }
    net = LayerNet(net_dict, fetch=("again",), time_major=time_major, behavior_version=behavior_version)
    batch = batch_of(padding={"float32": 0.0, "int32": 0})
    axes_in_memory = {key: value.swapaxes(0, 1) if key in WITH_TIME else value for key, value in batch.items()}
    out = net.run(axes_in_memory if time_major else batch)["again"]
    numpy.testing.assert_array_equal(out[IS_FRAME], 2 * batch["data"][IS_FRAME])


@pytest.mark.parametrize("axes", ["except_time", "static", ["static"]])
def test_nothing_to_merge(axes):
    net_dict = {
        "one": {"class": "reduce", "mode": "max", "axis": "F", "from": "data"},
        "same": {"class": "merge_dims", "axes": axes, "from": "one"},
    }
    out = LayerNet(net_dict, fetch=("one", "same")).run(batch_of(padding={"float32": 0.0, "int32": 0}))
    numpy.testing.assert_array_equal(out["same"], out["one"])


@pytest.mark.parametrize(
    ("options", "dims"),
    [({"axes": []}, r"\[\]"), ({"axes": "static", "out_dim": FeatureDim("merged", None)}, "'static'")],
)
def test_no_dims_for_a_merged_one(options, dims):
    net_dict = {
        "one": {"class": "reduce", "mode": "max", "axis": "F", "from": "data"},
        "same": {"class": "merge_dims", "from": "one", **options},
    }
    with pytest.raises(ConfigError, match=f"layer 'same' .*: option 'axes': {dims} are no dims of the source"):
        LayerNet(net_dict, fetch=("same",))
