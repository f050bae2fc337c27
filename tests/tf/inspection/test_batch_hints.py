"""What `++task check` says of layers whose frames depend on the other sequences of the batch."""

import pytest

from tests.tf.inspection.test_check import run


def windows_hint(tmp_path, capsys, *, before=None, **layer):
    network = {
        "before": {"from": "data", **(before or {"class": "copy"})},
        "pooled": {"from": "before", **layer},
        "output": {"class": "linear", "n_out": 2, "from": "pooled"},
    }
    found = {"extern_data": {"data": {"dim": 9}}, "network": network, "behavior_version": 30}
    assert run(tmp_path, "\n".join(f"{key} = {value!r}" for key, value in found.items())) == 0
    out = capsys.readouterr().out
    assert out.endswith("\nno errors\n")
    return [line for line in out.splitlines() if line.startswith("hint:")]


@pytest.mark.parametrize(
    "layer",
    [
        {"class": "pool", "mode": "avg", "pool_size": [3], "padding": "same"},
        {"class": "pool", "mode": "max", "pool_size": [4], "padding": "SAME"},
        {"class": "conv", "filter_size": (5,), "strides": (2,), "padding": "same", "n_out": 3},
    ],
    ids=str,
)
def test_windows_that_depend_on_the_batch(layer, tmp_path, capsys):
    (hint,) = windows_hint(tmp_path, capsys, **layer)
    assert hint.startswith(
        "hint: layer 'pooled': with 'padding' \"same\" and strides, the longest sequence of the batch"
    )
    assert windows_hint(tmp_path, capsys, **{**layer, "padding": "same_static", "use_time_mask": True}) == []
    assert windows_hint(tmp_path, capsys, **{**layer, "padding": "valid"}) == []


@pytest.mark.parametrize(
    "layer",
    [
        {"class": "conv", "filter_size": (5,), "padding": "same", "n_out": 3},
        {"class": "pool", "mode": "max", "pool_size": [3], "in_spatial_dims": ["F"], "padding": "same"},  # always 9
    ],
    ids=str,
)
def test_windows_that_do_not_depend_on_the_batch(layer, tmp_path, capsys):
    assert windows_hint(tmp_path, capsys, **layer) == []


@pytest.mark.parametrize("layer", [
    {"class": "pool", "mode": "avg", "pool_size": [2], "padding": "same"},  # begins at the first frame, always
    {"class": "pool", "mode": "max", "pool_size": [3], "strides": 1, "padding": "same"},
])  # fmt: skip
def test_windows_that_see_padding(layer, tmp_path, capsys):
    (hint,) = windows_hint(tmp_path, capsys, **layer)
    assert hint.startswith("hint: layer 'pooled': windows at the end of a sequence see frames beyond it")
    assert windows_hint(tmp_path, capsys, **layer, use_time_mask=True) == []
    assert windows_hint(tmp_path, capsys, **{**layer, "padding": "valid"}) == []


CONV = {"class": "conv", "filter_size": (3,), "padding": "same", "n_out": 3}


@pytest.mark.parametrize("layer", [
    {}, {"padding": "same_static"}, {"padding": 1}, {"class": "transposed_conv", "filter_size": (5,), "strides": 2},
    {"filter_size": (2,), "padding": "same_static", "strides": 2}, {"filter_size": (3, 1), "before": "image"},
], ids=str)  # fmt: skip
def test_convolutions_that_see_padding(layer, tmp_path, capsys):
    layer = {**CONV, "before": {"class": "linear", "n_out": 4, "activation": "relu"}, **layer}
    if layer["before"] == "image":
        layer["before"] = {
            "class": "eval",
            "eval": "tf.expand_dims(source(0), -1) + 1",
            "out_type": {"shape": (None, 9, 1)},
        }
    (hint,) = windows_hint(tmp_path, capsys, **layer)
    assert hint.startswith("hint: layer 'pooled': windows at the end of a sequence see frames beyond it")
    assert windows_hint(tmp_path, capsys, **{**layer, "use_time_mask": True}) == []


@pytest.mark.parametrize(("before", "layer"), [
    ({"class": "linear", "n_out": 4, "activation": "relu"}, {"padding": "valid"}),
    ({"class": "linear", "n_out": 4, "activation": "relu"}, {"filter_size": (1,)}),
    ({"class": "linear", "n_out": 4, "activation": "relu"}, {"class": "transposed_conv", "strides": 2}),
    ({"class": "rec", "unit": "lstm", "n_out": 4}, {}),
    ({"class": "split_dims", "axis": "F", "dims": (-1, 1)}, {"filter_size": (3, 3)}),
    ({"class": "combine", "kind": "add", "from": ["data", "data"]}, {}),
    ({"class": "dropout", "dropout": 0.1}, {}),
    ({"class": "subnetwork", "subnetwork": {"output": {"class": "copy", "from": "data"}}}, {}),
], ids=str)  # fmt: skip
def test_convolutions_where_padding_cannot_matter(before, layer, tmp_path, capsys):
    assert windows_hint(tmp_path, capsys, before=before, **{**CONV, **layer}) == []


def test_the_end_is_seen_where_a_bias_or_a_vector_is_added(tmp_path, capsys):
    for before in (
        {"class": "combine", "kind": "add", "from": ["data", "data"], "with_bias": True},
        {"class": "seq_len_mask", "mask_value": 1.0},
        {"class": "batch_norm", "masked_time": True},
    ):
        assert len(windows_hint(tmp_path, capsys, before=before, **CONV)) == 1
    assert windows_hint(tmp_path, capsys, before={"class": "seq_len_mask", "mask_value": 0.0}, **CONV) == []
