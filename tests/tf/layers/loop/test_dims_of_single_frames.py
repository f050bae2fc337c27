"""Layers that are moved out of a loop take the dims which they would see in a single frame."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from tests.fuzz.grammar import Net
from tests.fuzz.running import Result, run

_BRANCH = {
    "s": {"class": "rnn_cell", "unit": "lstm", "from": ["data", "prev:y"], "n_out": 3},
    "y": {"class": "linear", "from": "s", "n_out": 3, "activation": "tanh"},
    "output": {"class": "copy", "from": "y"},
}
FRAMES: dict[str, dict[str, Any]] = {
    # the default of the convolution is one dim in a frame, and would be two in all frames
    "split": {"class": "split_dims", "axis": "F", "dims": (2, -1), "from": "data:source"},
    "conv": {"class": "conv", "from": "split", "filter_size": (2,), "padding": "same", "n_out": 5},
    "pool": {"class": "pool", "from": "split", "pool_size": (2,), "mode": "max", "padding": "same"},
    # what comes from outside lacks the frames
    "joined": {"class": "concat", "from": [("base:mean", "F"), ("data:source", "F")]},
    # a whole sequence over the frames of the loop, which is not the frame of it
    "sub": {"class": "subnetwork", "from": "base:enc", "subnetwork": {
        "output": {"class": "linear", "from": "data", "n_out": 6, "activation": "tanh"},
    }},
    "all": {"class": "combine", "kind": "mul", "from": ["sub", "data:source"]},
    "sum": {"class": "reduce", "from": "all", "axis": "T", "mode": "sum"},
}  # fmt: skip


def _result(unit: dict[str, Any], *, move_out: bool, fetched: Sequence[str] | None = None) -> Result:
    """:return: all layers of a time step, or some, with the parameters, their gradients, ..."""
    fetched = list(unit) if fetched is None else fetched
    net = Net(Random(1), 21)
    net.extern_data["data"] = {"dim": 6, "shape": (None, 6)}
    net.layers["enc"] = {"class": "linear", "from": "data", "n_out": 6, "activation": "tanh"}
    net.layers["mean"] = {"class": "reduce", "from": "enc", "axis": "T", "mode": "mean"}
    net.layers["rest"] = {"class": "slice", "from": "enc", "axis": "T", "slice_start": 1}
    net.layers["length"] = {"class": "length", "from": "enc"}
    frames = {name: {**layer, **({"is_output_layer": True} if name in fetched else {})} for name, layer in unit.items()}
    net.layers["loop"] = {"class": "rec", "from": "data", "unit": frames, "optimize_move_layers_out": move_out}
    net.layers["output"] = {"class": "copy", "from": "loop"}
    return run(net, [f"loop/{name}" for name in fetched])


@pytest.mark.filterwarnings("ignore")  # names that TensorFlow deprecates are part of the language of configs
def test_defaults_of_options_mean_dims_of_a_frame():
    unit = {**FRAMES, "output": {"class": "copy", "from": "sum"}}
    inside, outside = (_result(unit, move_out=move_out) for move_out in (False, True))
    assert not inside.differences(outside)


def _local_attention(**slice_options: Any) -> dict[str, Any]:
    """:return: time step which attends to some frames of the data, from its own frame on"""
    return {
        "s": {"class": "rnn_cell", "unit": "lstm", "from": ["data:source", "prev:s"], "n_out": 6},
        "first": {"class": "eval", "from": ":i", "eval": "tf.maximum(source(0) - 1, 0)"},
        "number": {"class": "eval", "from": ":i", "eval": "source(0) % 3 + 1"},
        "frames": {"class": "slice_nd", "from": "base:data:data", "start": "first", **slice_options},
        "energy": {"class": "dot", "from": ["frames", "s"], "reduce": "F"},
        "weights": {"class": "softmax_over_spatial", "from": "energy"},
        "att": {"class": "generic_attention", "weights": "weights", "base": "frames"},
        "output": {"class": "linear", "from": ["att", "s"], "n_out": 5, "activation": "tanh"},
    }


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("size", [3, None, "number"])
def test_attention_to_some_frames(size):
    unit = _local_attention(size=size)
    fetched = ["output", "att", "s", *(["frames", "energy", "weights"] if size == 3 else [])]
    inside, outside = (_result(unit, move_out=move_out, fetched=fetched) for move_out in (False, True))
    assert not inside.differences(outside)


# A frame has no time dim there, all frames have the one of the loop.
LENGTHS_OF_A_FRAME = {
    "number": {"class": "eval", "from": "base:length", "eval": "tf.maximum(source(0) - 1, 1)"},
    "lengths": {"class": "combine", "from": ["number", ":i"], "kind": "minimum"},
    "scaled": {"class": "combine", "from": ["base:rest", "data:source"], "kind": "mul"},
    "masked": {"class": "seq_len_mask", "from": "scaled", "seq_len_source": "lengths", "mask_value": 0.0},
    "output": {"class": "reduce", "from": "masked", "axis": "T", "mode": "sum"},
}


@pytest.mark.filterwarnings("ignore")
def test_lengths_that_a_frame_has():
    fetched = ["lengths", "output"]
    inside, outside = (_result(LENGTHS_OF_A_FRAME, move_out=move_out, fetched=fetched) for move_out in (False, True))
    assert not inside.differences(outside)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("move_out", [False, True])
def test_features_of_products_without_a_dim_of_the_second_source(move_out):
    unit = {
        "v": {"class": "linear", "from": "data:source", "n_out": 3, "activation": None},
        "parts": {"class": "split_dims", "axis": "F", "dims": (2, 3), "from": "data:source"},
        "product": {
            "class": "dot", "from": ["parts", "v"], "red1": "F", "red2": "F", "var1": "static:0", "var2": None,
            "add_var2_if_empty": True,
        },
        "output": {"class": "linear", "from": "product", "n_out": 4},
    }  # fmt: skip
    found = _result(unit, move_out=move_out, fetched=["output"]).arrays
    assert found["out:loop/output"].shape[-2:] == (2, 4)  # the layer behind it maps the dim of size 1


# Layers inside which make a dim with another length in each frame: what they need, and what sees the dim.
_SUM = {"class": "reduce", "mode": "sum", "axis": "T"}
DIMS_OF_A_FRAME: dict[str, dict[str, Any]] = {
    "number of frames of a loop": {
        "length": {"class": "length", "from": "inner"},
        "output": {"class": "combine", "kind": "add", "from": ["length", "base:length"]},
    },
    "sum over a loop": {"output": {**_SUM, "from": "inner"}},
    "dim computed from it": {
        "window": {"class": "slice", "axis": "T", "slice_start": 1, "from": "inner"},
        "features": {"class": "linear", "n_out": 3, "activation": "tanh", "from": "window"},
        "output": {**_SUM, "from": "features"},
    },
    "slice": {
        "frames": {"class": "slice_nd", "from": "base:data:data", "start": ":i", "size": "number"},
        "features": {"class": "linear", "n_out": 3, "activation": "tanh", "from": "frames"},
        "output": {**_SUM, "from": "features"},
    },
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("layers", DIMS_OF_A_FRAME.values(), ids=DIMS_OF_A_FRAME)
def test_dims_whose_length_is_made_in_each_frame(layers):
    unit = {
        "number": {"class": "eval", "from": ":i", "eval": "source(0) % 3 + 1"},
        "inner": {
            "class": "rec", "from": [], "max_seq_len": 5, "unit": {
                "output": {"class": "combine", "kind": "add", "from": ["prev:output", "base:data:source"]},
                "step": {"class": "copy", "from": ":i"},
                "end": {"class": "compare", "from": ["step", "base:number"], "kind": "greater_equal"},
            },
        },
        **layers,
    }  # fmt: skip
    inside, outside = (_result(unit, move_out=move_out, fetched=["output"]) for move_out in (False, True))
    assert not inside.differences(outside)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("taken", [True, False])
def test_branch_with_state_that_is_never_taken(taken):
    unit: dict[str, Any] = {
        "flag": {"class": "constant", "value": taken, "dtype": "bool"},
        "cond": {
            "class": "cond",
            "condition": "flag",
            "true_layer": {"class": "subnetwork", "from": ["data:source", "prev:output"], "subnetwork": _BRANCH},
            "false_layer": {"class": "linear", "from": "data:source", "n_out": 3, "activation": None},
        },
        "output": {"class": "copy", "from": "cond"},
    }
    inside, outside = (_result(unit, move_out=move_out) for move_out in (False, True))
    del inside.arrays["out:loop/flag"], outside.arrays["out:loop/flag"]
    assert not inside.differences(outside)


@pytest.mark.filterwarnings("ignore")
def test_search_has_no_loss_about_its_frames_where_these_are_the_same_for_all_hypotheses():
    net = Net(Random(1), 21)
    net.extern_data["data"] = {"dim": 6, "shape": (None, 6)}
    net.extern_data["classes"] = {"dim": 4, "sparse": True, "available_for_inference": False}
    net.layers["mean"] = {"class": "reduce", "from": "data", "axis": "T", "mode": "mean"}
    unit = {
        "prob": {"class": "softmax", "from": "base:mean", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    net.layers["loop"] = {"class": "rec", "from": [], "target": "classes", "unit": unit, "max_seq_len": 5}
    net.layers["output"] = {"class": "decide", "from": "loop", "target": "classes"}
    assert not [name for name in run(net, ["output"], search=True).arrays if name.startswith("loss:")]
