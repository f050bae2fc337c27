"""Random values inside of loops."""

import numpy
import pytest

from tests.tf.layers.layer_net import LayerNet, batch_of

NORMAL = {"class": "random", "distribution": "normal", "mean": 0.0, "stddev": 1.0, "shape": [2]}
STATE = {"init": {"class": "random_state_init", "seed": 3}, "counter": {"class": "variable", "shape": (3,)}}
STATE["counter"].update(init_by_layer="init", dtype="int64", trainable=False)
NEW_IN_EACH_FRAME = {
    "normal": NORMAL,
    "seed": {**NORMAL, "seed": 4},
    "integers": {"class": "rand_int", "maxval": 1000000, "shape": [2]},
    "state_of_variable": {**NORMAL, "explicit_state": "base:counter"},
}
THE_SAME = {
    "static": {**NORMAL, "static": True, "seed": 4},
    "state": {**NORMAL, "explicit_state": "base:init"},
    "state_not_updated": {**NORMAL, "explicit_state": "base:counter", "auto_update_state": False},
}


@pytest.fixture(scope="module")
def frames():
    """:return: by name, (T, 2), of the longest sequence"""

    def loop(desc):
        number = {"class": "cast", "dtype": "float32", "from": "random"}
        zero = {"class": "eval", "eval": "source(0) * 0", "from": "sum"}
        total = {"class": "reduce", "mode": "sum", "axis": "F", "from": "data:source"}
        out = {"class": "combine", "kind": "add", "from": ["zero", "number"], "allow_broadcast_all_sources": True}
        unit = {"random": desc, "number": number, "sum": total, "zero": zero, "output": out}
        return {"class": "rec", "from": "data", "unit": unit}

    loops = {name: loop(desc) for name, desc in {**NEW_IN_EACH_FRAME, **THE_SAME}.items()}
    result = LayerNet({**STATE, **loops}, fetch=tuple(loops)).run(batch_of())
    return {name: value[0] for name, value in result.items()}


@pytest.mark.parametrize("name", NEW_IN_EACH_FRAME)
def test_each_frame_has_new_values(frames, name):
    assert len(numpy.unique(frames[name], axis=0)) == len(frames[name])


@pytest.mark.parametrize("name", THE_SAME)
def test_values_that_only_depend_on_seed_or_state_are_the_same_in_all_frames(frames, name):
    assert frames[name].any()
    assert len(numpy.unique(frames[name], axis=0)) == 1
