"""Dims of the same size are the same in elementwise operations, as configs give sizes and no dims."""

import numpy
import pytest

from returnn.tensor import Dim
from returnn.util.errors import ConfigError
from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of

OWN_DIMS = {
    "dim:4": Dim(4, name="own height", kind=Dim.Types.Spatial),
    "F": Dim(6, name="own features", kind=Dim.Types.Feature),
}
NAMED = {"class": "reinterpret_data", "set_dim_tags": OWN_DIMS, "from": "data:image"}
PAIR = ["data:image", "named"]
OPERATIONS = {
    "combine": {"class": "combine", "kind": "mul", "from": PAIR},
    "compare": {"class": "compare", "kind": "less", "from": PAIR},
    "eval": {"class": "eval", "eval": "source(0) - 2 * source(1)", "from": PAIR},
    "switch": {"class": "switch", "condition": "is_positive", "true_from": "named", "false_from": "data:image"},
    "stack": {"class": "stack", "from": PAIR},
    "copy": {"class": "copy", "from": PAIR},
    "concat": {"class": "concat", "from": [("data:image", "T"), ("named", "T")]},
    "vector": {"class": "combine", "kind": "add", "from": ["named", "data:vec"]},
}


def results(named):
    net = {"named": named, **OPERATIONS}
    net["is_positive"] = {"class": "compare", "kind": "greater", "value": 0, "from": "data:image"}
    return LayerNet(net, fetch=tuple(OPERATIONS)).run(batch_of())


@pytest.fixture(scope="module")
def both_results():
    return results(NAMED), results({"class": "copy", "from": "data:image"})


@pytest.mark.parametrize("name", OPERATIONS)
def test_dims_of_own_names_are_like_those_that_layers_make(both_results, name):
    own, made = both_results
    numpy.testing.assert_array_equal(own[name], made[name])


def outer(**options):
    columns = {"class": "reinterpret_data", "set_dim_tags": {"F": Dim(6, name="column")}, "from": "data:vec"}
    rows = {"class": "reinterpret_data", "set_dim_tags": {"F": Dim(6, name="row")}, "from": "data:vec"}
    product = {"class": "combine", "kind": "mul", "from": ["rows", "columns"], **options}
    return LayerNet({"rows": rows, "columns": columns, "product": product}, fetch=("product",))


def test_dims_of_own_names_stay_apart_if_no_source_needs_to_have_all_dims():
    vec = batch_of()["vec"]
    numpy.testing.assert_array_equal(outer().run(batch_of())["product"], vec * vec)
    product = outer(allow_broadcast_all_sources=True).run(batch_of())["product"]
    numpy.testing.assert_array_equal(product, vec[:, :, None] * vec[:, None, :])


def test_dims_with_lengths_are_never_the_same_just_because_of_their_size():
    with pytest.raises(ConfigError, match="the dims do not match"):
        LayerNet({"sum": {"class": "combine", "kind": "add", "from": ["data", "data:image"]}})


def test_out_type_of_an_eval_can_say_which_of_the_dims_is_the_feature_dim():
    code = "tf.cast(source(0), tf.float32) * source(1)"
    out_type = {"dtype": "float32", "sparse": False, "dim": 6}
    net = {"scaled": {"class": "eval", "eval": code, "from": ["data:ids", "same_time"], "out_type": out_type}}
    net["same_time"] = {"class": "reinterpret_data", "size_base": "data:ids", "from": "data"}
    batch = batch_of()
    result = LayerNet(net).run(batch)["scaled"]
    for scaled, ids, x, length in zip(result, batch["ids"], batch["data"], LENGTHS, strict=True):
        numpy.testing.assert_allclose(scaled[:length], (ids[:, None] * x)[:length])
