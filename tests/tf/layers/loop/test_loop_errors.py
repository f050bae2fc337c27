"""What a loop says about a time step that cannot be: one message with the layer, the edge and the dims."""

import pytest

from returnn.tensor.dim import single_step_dim
from returnn.util.errors import ConfigError
from tests.tf.layers.rec.recurrent_net import construct, tf

LINEAR = {"class": "linear", "activation": None, "n_out": 4}
CELL = {"class": "rnn_cell", "unit": "gru", "n_out": 4}
FREE = {"from": [], "max_seq_len": 3}
END = "layer 'output/end': says whether a sequence has ended: it has to be [B], bool.\n  It is 'end' "
CASES = {
    "dims that depend on themselves": (
        {"a": {"class": "copy", "from": "prev:a"}, "output": {"class": "copy", "from": "a"}},
        {},
        "layer 'output/a': its dims cannot be inferred, as they depend on themselves.\n"
        "  Give 'n_out' or 'out_type', or a layer as 'initial_output': 'base:...'.",
    ),
    "dims that grow from frame to frame": (
        {"a": {"class": "concat", "from": [("prev:a", "F"), ("data:source", "F")]}, "output": {**LINEAR, "from": "a"}},
        {},
        "layer 'output/a': its dims contradict those of its own past.\n"
        "  From 'prev:a' with 'a' [B, F|27] follows 'a' [B, F|30].",
    ),
    "past of what is no layer of the time step": (
        {"output": {**LINEAR, "from": ["data:source", "prev:base:v"]}},
        {},
        "layer 'output/output': there is no 'prev:base:v', as 'base:v' is no layer of the time step.\n"
        "  Layers and data of the time step have a frame before, others not.",
    ),
    "past of the number of the step": (
        {"output": {"class": "cast", "dtype": "float32", "from": "prev::i"}},
        {},
        "layer 'output/output': there is no 'prev::i', as ':i' is no layer of the time step.\n"
        "  Layers and data of the time step have a frame before, others not.",
    ),
    "past of a layer that is not there": (
        {"output": {**LINEAR, "from": ["data:source", "prev:outpt"]}},
        {},
        "layer 'output/output': there is no layer 'prev:outpt'.\n  Did you mean 'prev:output'?",
    ),
    "initial output of another size": (
        {"output": {**LINEAR, "from": ["data:source", "prev:output"], "initial_output": "base:v"}},
        {},
        "layer 'output/output' (class 'InternalLayer'): the initial value 'v' [B, F|feature:vec(5)] "
        "does not fit 'output' [B, F|output/output:feature-dense(4)].",
    ),
    "initial output that is no layer": (
        {"output": {**LINEAR, "from": ["data:source", "prev:output"], "initial_output": "zeross"}},
        {},
        "layer 'output': there is no layer 'output/zeross'.",
    ),
    "initial state that is the one of each frame": (
        {
            "before": {"class": "copy", "from": "prev:s"},
            "s": {
                "class": "rec",
                "unit": "gru",
                "n_out": 4,
                "from": "data:source",
                "axis": single_step_dim,
                "initial_state": "before",
            },
            "output": {"class": "copy", "from": "s"},
        },
        {},
        "layer 'output/s' (class 'InternalLayer'): it begins with the layer 'before', which the loop computes in each"
        " frame.\n  Possible: a layer around the loop, 'base:...'. What a unit gets as its state in each frame is the"
        " option 'state'.",
    ),
    "end with features": (
        {"output": {**CELL, "from": "prev:output"}, "end": {"class": "compare", "from": "output", "value": 1}},
        FREE,
        END + "[B, F|output/output:feature-dense(4)] bool",
    ),
    "end that is no bool": (
        {
            "output": {**CELL, "from": "prev:output"},
            "end": {"class": "reduce", "mode": "sum", "axis": "F", "from": "output"},
        },
        FREE,
        END + "[B] float32.",
    ),
    "a reduction over the frames of the loop": (
        {"s": {**CELL, "from": "data:source"}, "output": {"class": "reduce", "mode": "sum", "axis": "T", "from": "s"}},
        {},
        "layer 'output/output' (class 'reduce'): option 'axis': 's' [B, F|output/s:feature-dense(4)]: "
        "there is no axis 'T'.\n"
        "  It has just these dims.\n"
        "  In the loop 'output' over time:data[B], layers see one frame.\n"
        "  's' has [B, F|output/s:feature-dense(4)].",
    ),
    "a backward layer over the frames of the loop": (
        {"output": {"class": "rec", "unit": "nativelstm2", "direction": -1, "n_out": 4, "from": "data:source"}},
        {},
        "layer 'output/output' (class 'rec'): direction -1: the source",
    ),
    "no length": (
        {"output": {**CELL, "from": "prev:output"}},
        {"from": []},
        "layer 'output' (class 'rec'): it is not known how many frames there are.",
    ),
    "no output": ({"s": LINEAR}, {}, "layer 'output' (class 'rec'): option 'unit': there is no layer 'output'"),
}


@pytest.mark.parametrize("name", CASES)
def test_error(name):
    unit, options, message = CASES[name]
    net_dict = {
        "v": {"class": "copy", "from": "data:vec"},
        "output": {"class": "rec", "from": "data", "unit": unit, **options},
    }
    with tf.Graph().as_default(), pytest.raises(ConfigError) as info:
        construct(net_dict)
    assert str(info.value).startswith(message), str(info.value)
    assert len(str(info.value).splitlines()) <= 5
