"""Convolution and pooling say whether a sequence gets what it gets alone: compared with what it gets."""

import itertools

import numpy
import pytest

from tests.tf.layers.layer_net import LENGTHS, LayerNet, batch_of, one_of

ZEROS = {"float32": 0, "int32": 0}
BEFORE = {
    "data": {"class": "copy"},
    "linear": {"class": "linear", "n_out": 4, "activation": "sigmoid"},
    "rec": {"class": "rec", "unit": "lstm", "n_out": 4, "direction": -1},
    "masked": {"class": "seq_len_mask", "mask_value": 0.0, "from": "linear"},
    "bias": {"class": "combine", "kind": "add", "from": ["rec", "linear"]},
    "sum": {"class": "combine", "kind": "add", "from": ["rec", "masked"]},
    "vector": {"class": "combine", "kind": "add", "from": ["data", "data:vec"], "allow_broadcast_all_sources": True},
    "joined": {"class": "copy", "from": ["rec", "masked"]},
    "joined_with_vector": {"class": "copy", "from": ["rec", "data:vec"]},
    "split": {"class": "split_dims", "axis": "F", "dims": (-1, 1), "from": "rec"},
    "merged": {"class": "merge_dims", "axes": "static", "from": "split"},
    "inside": {"class": "subnetwork", "from": "rec", "subnetwork": {"output": {"class": "copy", "from": "data"}}},
}
WINDOWS = {
    f"{kind}_{size}_{stride}_{padding}": {"class": kind, size_option: [size], "strides": stride, "padding": padding}
    | more
    for (kind, size_option, more), size, stride, padding in itertools.product(
        (
            ("conv", "filter_size", {"n_out": 3}),
            ("transposed_conv", "filter_size", {"n_out": 3}),
            ("pool", "pool_size", {"mode": "avg"}),
        ),
        (1, 2, 3, 5),
        (1, 2, 3),
        ("same", "same_static", "valid"),
    )
    if not (kind == "transposed_conv" and padding == "same_static")
}


def differing(net_dict):
    """:return: by layer, whether some sequence gets something else in a batch; and whether the layer says so"""
    net = LayerNet(net_dict)
    batch = batch_of(padding=ZEROS)
    together = net.run(batch)
    alone = [net.run(one_of(batch, i), [length]) for i, length in enumerate(LENGTHS)]
    found = {}
    for name in net_dict:
        layer = net.net.get_layer(name)
        differs = any(
            not numpy.allclose(together[name][i][tuple(map(slice, one[name].shape[1:]))], one[name][0], atol=1e-5)
            for i, one in enumerate(alone)
        )
        found[name] = differs, layer.sees_padding or layer.depends_on_longest
    return found


@pytest.mark.parametrize("source", ["data", "linear"])
def test_windows_of_all_kinds(source):
    windows = {name: {**window, "from": source} for name, window in WINDOWS.items()}
    found = differing({"linear": {**BEFORE["linear"], "from": "data"}, **windows})
    silent = [name for name, (differs, said) in found.items() if differs and not said]
    assert silent == []
    assert [name for name, (differs, said) in found.items() if said and not differs] == []


def test_use_time_mask_makes_them_independent():
    windows = {
        name: {**window, "from": "linear", "use_time_mask": True}
        for name, window in WINDOWS.items()
        if window["padding"] != "same" or window["class"] == "transposed_conv"
    }
    found = differing({"linear": {**BEFORE["linear"], "from": "data"}, **windows})
    assert set(found.values()) == {(False, False)}


def test_what_is_before():
    layers = {name: {"from": "data", **layer} for name, layer in BEFORE.items() if name != "data"}
    conv = {"class": "conv", "filter_size": [3], "in_spatial_dims": ["T"], "padding": "same", "n_out": 3}
    convs = {f"conv_{name}": {**conv, "from": name} for name in BEFORE}
    found = differing({**layers, **convs})
    found = {name: found[f"conv_{name}"] for name in BEFORE}
    seeing = ("linear", "bias", "vector", "joined_with_vector")
    assert found == {name: (name in seeing, name in seeing) for name in BEFORE}
