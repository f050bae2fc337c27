"""Layers which change dims or pick values, inside of a loop."""

import numpy
import pytest

from tests.tf.layers.layer_net import LayerNet, batch_of
from tests.tf.layers.shape_cases import CASES

# Their source is what the loop has in each frame: {B, T, F} or {B, T, 4, F}, where T is not the dim of the loop.
# CTC looks at whole sequences of scores [B, T, classes], with no further dim.
NOT_HERE = ("split", "length", "range_in_axis", "ctc_decode")
NAMES = [
    name
    for name, desc in CASES.items()
    if desc.get("from") in ("data", "data:image")
    and desc["class"] not in ("split", "length", "range_in_axis", "ctc_decode")
]
SOURCES = {"data": "data_of_frame", "data:image": "image_of_frame"}


def loop(**options):
    unit = {
        "frame": {"class": "cast", "dtype": "float32", "from": "data:source"},
        "data_of_frame": {"class": "combine", "kind": "mul", "from": ["base:data", "frame"]},
        "image_of_frame": {"class": "combine", "kind": "mul", "from": ["base:data:image", "frame"]},
        "bucket": CASES["bucket"] | {"from": "data_of_frame"},
        "output": {"class": "copy", "from": "frame"},
    }
    for name in NAMES:
        desc = CASES[name] | {"from": SOURCES[CASES[name]["from"]]}
        unit[name] = {k: "base:data:number" if v == "data:number" else v for k, v in desc.items()}
        if "declare_same_sizes_as" in desc:
            layers = desc["declare_same_sizes_as"].items()
            unit[name]["declare_same_sizes_as"] = {number: SOURCES.get(layer, layer) for number, layer in layers}
        unit[f"{name}_float"] = {"class": "cast", "dtype": "float32", "from": name}
        axes = "except_batch"
        unit[f"{name}_sum"] = {"class": "reduce", "mode": "sum", "axis": axes, "from": f"{name}_float"}
        unit[f"{name}_sum"]["is_output_layer"] = True
    return {"class": "rec", "from": "data:ids", "unit": unit, **options}


@pytest.fixture(scope="module")
def results():
    net = {"inside": loop(optimize_move_layers_out=False), "moved": loop()}
    sums = {f"{where}_{name}": {"class": "copy", "from": f"{where}/{name}_sum"} for where in net for name in NAMES}
    return LayerNet({**net, **sums}, fetch=tuple(sums)).run(batch_of())


@pytest.mark.parametrize("name", NAMES)
def test_moving_layers_out_of_the_loop_changes_nothing(results, name):
    inside, moved = results[f"inside_{name}"], results[f"moved_{name}"]
    assert numpy.isfinite(inside).all()
    numpy.testing.assert_allclose(moved, inside, rtol=1e-4, atol=1e-5)
