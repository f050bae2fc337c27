"""Options about the dims of what several sources, or one, give to a layer."""

import pytest
import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import construct


def output_of(desc):
    with tf.Graph().as_default(), rf.backend_ctx("tf"):
        return construct({"output": desc}).get_layer("output").output


def feature_dim(size):
    return Dim(size, name="given", kind=Dim.Types.Feature)


@pytest.mark.parametrize("option", ["in_dim", "out_dim"])
@pytest.mark.parametrize(
    "desc",
    [
        {"class": "copy"},
        {"class": "dropout", "dropout": 0.1},
        {"class": "batch_norm", "masked_time": True},
        {"class": "layer_norm"},
        {"class": "pool", "mode": "max", "pool_size": [2], "padding": "same"},
    ],
    ids=lambda desc: desc["class"],
)
@pytest.mark.parametrize("sources", [["data"], ["data", "data:vec"]], ids=len)
def test_feature_dim_of_the_source_can_be_given(option, desc, sources):
    dim = feature_dim(6 * len(sources))
    assert output_of({**desc, "from": sources, option: dim}).feature_dim == dim


@pytest.mark.parametrize("option", ["in_dim", "out_dim"])
def test_feature_dim_of_another_size(option):
    with pytest.raises(ConfigError) as info:
        output_of({"class": "copy", "from": "data", option: feature_dim(7)})
    assert f"option '{option}': given(7) is not a dim of the source 'data'" in str(info.value)


def test_labels_cannot_be_dropped():
    message = (
        r"option 'dropout': the source 'data:ids' .* has labels, of which none can be dropped.\n.*'dropout' behind"
    )
    with pytest.raises(ConfigError, match=message):
        output_of({"class": "linear", "from": "data:ids", "n_out": 3, "dropout": 0.1})
