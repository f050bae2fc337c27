"""What a layer class says of its output, for sources that were only described: nobody has given lengths yet."""

from __future__ import annotations

import pytest

from returnn.tensor import Tensor as Data
from returnn.tf.layers.base import InternalLayer, LayerBase
from returnn.tf.layers.basic import get_layer_class, register_layer_class
from returnn.tf.network import ExternData, TFNetwork
from tests.tf.by_hand.scripts import make_scope, tf1

NETWORK = TFNetwork(extern_data=ExternData({"data": {"shape": (None, 4)}}))


def described(name: str, **options) -> InternalLayer:
    return InternalLayer(name=name, network=NETWORK, output=Data(name=name, **options))


SOURCE = described("source", shape=(None, 4))
PLACES = described("places", shape=(None,), dtype="int32")
TEMPLATES = {
    "length": ({}, ()),
    "seq_len_mask": ({"mask_value": 0}, (None, 4)),
    "slice_nd": ({"start": None, "size": 2}, (2, 4)),
    "flatten_batch": ({}, (4,)),
    "time_chunking": ({"chunk_size": 2, "chunk_step": 1}, (None, 4)),
    "resize": ({"axis": "T", "factor": 2}, (None, 4)),
    "postfix_in_time": ({"postfix": 1.0}, (None, 4)),
    "shift_axis": ({"axis": "T", "amount": 1}, (None, 4)),
    "repeat": ({"repetitions": PLACES}, (None, None, 4)),
    "scatter_nd": ({"position": PLACES, "position_axis": "T", "output_dim_via_time_from": SOURCE}, (None, None, 4)),
    "unmask": ({"mask": described("mask", shape=(None,), dtype="bool")}, (None, 4)),
    "relative_positional_encoding": ({"n_out": 4}, (None, None, 4)),
}


@pytest.mark.parametrize("name", sorted(TEMPLATES))
def test_templates_need_no_lengths(name):
    options, shape = TEMPLATES[name]
    output = get_layer_class(name).get_out_data_from_opts(name=name, network=NETWORK, sources=[SOURCE], **options)
    assert tuple(dim.dimension for dim in output.dims if not dim.is_batch_dim()) == shape


class ScaleByVariable(LayerBase):
    """An own class which makes its variable without `var_creation_scope`."""

    layer_class = "scale_by_variable"

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        source = self.sources[0].output
        scale = self.add_param(tf1.get_variable("scale", shape=(source.dim,)))
        self.output.placeholder = source.placeholder * scale

    @classmethod
    def get_out_data_from_opts(cls, name, sources, **kwargs):
        return sources[0].output.copy_template(name=name)


def test_variables_of_an_own_class_are_named_after_the_layer():
    register_layer_class(ScaleByVariable)
    own = {"class": "scale_by_variable"}
    with make_scope():
        network = TFNetwork(extern_data=ExternData({"data": {"dim": 4}}))
        network.construct_from_dict(
            {
                "a": {**own, "from": "data"},
                "sub": {"class": "subnetwork", "from": "a", "subnetwork": {"output": {**own, "from": "data"}}},
                "loop": {"class": "rec", "from": "sub", "unit": {"output": {**own, "from": "data:source"}}},
                "output": {**own, "from": "loop", "name_scope": "b"},
            }
        )
        names = sorted(param.op.name for param in network.get_params_list())
        assert names == ["a/scale", "b/scale", "loop/rec/output/scale", "sub/output/scale"]
        assert list(network.get_layer("a").params) == ["scale"]


def test_the_batch_has_a_size_though_no_layer_looks_at_the_data():
    unit = {
        "prob": {"class": "softmax", "from": "prev:output", "target": "classes"},
        "output": {"class": "choice", "from": "prob", "beam_size": 3, "target": "classes", "initial_output": 0},
        "end": {"class": "compare", "kind": "equal", "from": "output", "value": -1},
    }
    targets = {"dim": 6, "sparse": True, "available_for_inference": False}
    with make_scope() as session:
        network = TFNetwork(
            extern_data=ExternData({"data": {"dim": 4}, "classes": targets}), train_flag=False, search_flag=True
        )
        loop = {"class": "rec", "from": [], "target": "classes", "max_seq_len": 4, "unit": unit}
        network.construct_from_dict({"loop": loop, "output": {"class": "decide", "from": "loop"}})
        network.initialize_params(session)
        data = network.extern_data.data["data"]
        labels = session.run(network.get_layer("output").output.placeholder, {data.placeholder: [[[0.0] * 4]] * 2})
        assert labels.shape == (2, 4)
