"""What somebody sees who makes a mistake in a layer: which layer, what is wrong, and what went into it."""

import pytest

from returnn.log import log
from returnn.util.errors import ConfigError
from tests.tf.network.old_config import ConfigNet

HEAD = """
extern_data = {"data": {"dim": 6, "shape": (None, 6)}, "classes": {"dim": 5, "shape": (None,), "sparse": True}}
import tensorflow as tf
from returnn.tf.layers.basic import LinearLayer, _ConcatInputLayer, register_layer_class
"""
DATA = "'data' has [B, T|time:data[B], F|feature:data(6)]."


def error_of(text="", **options):
    with pytest.raises(ConfigError) as info:
        ConfigNet(HEAD + text, **options)
    message = str(info.value)
    assert message.startswith("layer '")
    assert len(message.splitlines()) <= 5
    return info.value


def message_of(text="", **options):
    return str(error_of(text, **options))


MISTAKES = {
    "unknown activation": (
        {"class": "linear", "n_out": 3, "activation": "rellu"},
        ["there is no activation function 'rellu'", "Did you mean", "'relu'"],
    ),
    "unknown initializer": (
        {"class": "linear", "n_out": 3, "forward_weights_init": "glorot"},
        ["there is no initializer 'glorot'", "Did you mean 'glorot_"],
    ),
    "wrong argument of an initializer": (
        {"class": "linear", "n_out": 3, "forward_weights_init": "glorot_uniform(sigma=1)"},
        ["initializer 'glorot_uniform': got an unexpected keyword argument 'sigma'.\n  Possible: seed, dtype."],
    ),
    "another number of classes than the target has": (
        {"class": "softmax", "n_out": 7, "loss": "ce", "target": "classes"},
        ["loss 'ce': the output has 7 classes, the target has 5 labels."],
    ),
    "text where a number belongs": ({"class": "linear", "n_out": "3"}, ["'n_out' has to be an integer, not '3'"]),
    "number as a source": (
        {"class": "copy", "from": [3]},
        ["option 'from' has to be the name of a layer, or a list of names, not 3."],
    ),
    "wrong dims in dot": (
        {"class": "dot", "from": ["data", "other"], "reduce": "F"},
        ["has 3 entries", "has 6", DATA, "'other' has [B, T|"],
    ),
    "syntax of eval": ({"class": "eval", "eval": "source(0) +"}, ["'source(0) +': SyntaxError: invalid syntax"]),
    "unknown name in eval": ({"class": "eval", "eval": "sourc(0)"}, ["NameError: name 'sourc' is not defined"]),
    "wrong shapes in eval": (
        {"class": "eval", "eval": "tf.matmul(source(0), tf.zeros((3, 4)))"},
        [
            "ValueError: Dimensions must be equal, but are 6 and 3",
            "MatMul', BatchMatMulV2, input shapes [?,?,6], [3,4])",
        ],
    ),
    "wrong number of axes in eval": (
        {"class": "eval", "eval": "tf.reduce_sum(source(0), axis=-1)"},
        ["the result has 2 axes, expected ", "Give out_type."],
    ),
    "wrong option of out_type": (
        {"class": "eval", "eval": "source(0)", "out_type": {"dtyp": "int32"}},
        ["option 'out_type': there is no option 'dtyp'", "Did you mean 'dtype'"],
    ),
    "unknown axis": (
        {"class": "reduce", "mode": "mean", "axis": "stag:encoder"},
        ["there is no axis 'stag:encoder'", DATA],
    ),
    "another number of windows": (
        {"class": "conv", "n_out": 3, "filter_size": (3, 3), "padding": "same"},
        ["the window has 2 dims", "'in_spatial_dims'"],
    ),
    "shared parameters of another shape": (
        {"class": "linear", "n_out": 4, "reuse_params": "other"},
        ["reuse_params: 'W' of 'other' has the shape (6, 3), (6, 4) is wanted here."],
    ),
    "dtypes": (
        {"class": "combine", "kind": "add", "from": ["data", "data:classes"]},
        ["add: the dtypes float32 and int32 differ", DATA],
    ),
    "loss that is no name": (
        {"class": "loss", "loss_": {"class": "ce"}},
        ["a loss is given by its name, a str, not {'class': 'ce'}"],
    ),
    "unknown loss": ({"class": "softmax", "n_out": 5, "loss": "cee"}, ["there is no loss 'cee'", "Did you mean 'ce'"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes(name):
    options, words = MISTAKES[name]
    layers = {
        "x": {"from": "data", "is_output_layer": True, **options},
        "other": {"class": "linear", "from": "data", "n_out": 3},
        "output": {"class": "copy", "from": "data"},
    }
    message = message_of(network=layers, with_loss="loss" in options)
    assert message.startswith(f"layer 'x' (class '{options['class']}')")
    for word in words:
        assert word in message


def test_layer_that_is_no_dict():
    message = message_of(network={"x": "data", "output": {"class": "copy", "from": "x"}})
    assert message == "layer 'x': expected a dict of options, got 'data'."


def test_names_are_shown_as_they_are_written():
    unit = {"output": {"class": "combine", "kind": "add", "from": ["data:source", "base:encoderr"]}}
    layers = {"output": {"class": "rec", "from": "encoder", "unit": unit}, "encoder": {"class": "copy", "from": "data"}}
    message = message_of(network=layers)
    assert message == "layer 'output/output': there is no layer 'base:encoderr'.\n  Did you mean 'base:encoder'?"
    unit["output"]["from"] = ["data:source", "prev:outputt"]
    message = message_of(network=layers)
    assert message == "layer 'output/output': there is no layer 'prev:outputt'.\n  Did you mean 'prev:output'?"


def test_concat_with_its_own_past():
    unit = {"output": {"class": "concat", "from": [("data:source", "F"), ("prev:output", "F")]}}
    message = message_of(network={"output": {"class": "rec", "from": "data", "unit": unit}})
    assert message.startswith("layer 'output/output': its dims contradict those of its own past.\n  From 'prev:output'")


# Code of users.

OWN = """
class Own(_ConcatInputLayer):
    layer_class = "own"
    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        CODE
    @classmethod
    def get_out_data_from_opts(cls, sources, **kwargs):
        return sources[TEMPLATE].output.copy_template()

register_layer_class(Own)
network = {"output": {"class": "own", "from": "data"}}
"""


def own_error(code, template="0"):
    return message_of(OWN.replace("CODE", code).replace("TEMPLATE", template))


def test_assertion_in_own_class():
    message = own_error("assert self.input_data.dim == 7, 'expected 7'")
    where = "in <config string>, line 11, in __init__"
    assert message == f"layer 'output' (class 'own'): AssertionError: expected 7\n  {where}\n  {DATA}"


def test_own_class_sets_no_output():
    assert own_error("pass").endswith("`__init__` has to set `self.output.placeholder`.")


def test_own_class_sets_output_of_other_shape():
    message = own_error("self.output.placeholder = tf.zeros((3, 4))")
    assert "(class 'own')" in message
    assert "the value has the shape (3, 4), which does not fit." in message


def test_wrong_template_of_own_class():
    message = own_error("pass", template="1")
    assert "IndexError: list index out of range\n  in <config string>, line 14, in get_out_data_from_opts" in message


def test_function_in_eval():
    text = """
def project(source, **kwargs):
    return tf.matmul(source(0), tf.zeros((7, 3)))

network = {"output": {"class": "eval", "from": "data", "eval": project}}
"""
    message = message_of(text)
    assert "layer 'output' (class 'eval'): ValueError: Dimensions must be equal, but are 6 and 7" in message
    assert "\n  in <config string>, line 8, in project\n" in message


def test_error_in_a_loop_names_the_layer_in_it():
    unit = {"output": {"class": "eval", "from": "data:source", "eval": "source(0) @ tf.zeros((7, 3))"}}
    message = message_of(network={"output": {"class": "rec", "from": "data", "unit": unit}})
    assert message.startswith("layer 'output/output' (class 'eval'): eval 'source(0) @ tf.zeros((7, 3))': ValueError: ")


def test_error_in_loss():
    text = """
from returnn.tf.layers.base import Loss
class Own(Loss):
    class_name = "own"
    def get_value(self):
        return self.reduce_func(self.output_flat @ tf.zeros((7, 3)))

network = {"output": {"class": "softmax", "n_out": 5, "from": "data", "loss": Own, "target": "classes"}}
"""
    message = message_of(text, with_loss=True)
    assert message.startswith("layer 'output' (class 'softmax'): loss 'own': ValueError: ")
    assert "Dimensions must be equal, but are 5 and 7" in message
    assert "line 11, in get_value\n" in message
    assert "'classes' has [B, T|" in message


def test_cause_is_kept_and_the_traceback_is_in_the_log(monkeypatch):
    written = []
    monkeypatch.setattr(log.v5, "write", lambda text: written.append(text))
    error = error_of(OWN.replace("CODE", "{}['key']").replace("TEMPLATE", "0"))
    assert isinstance(error.__cause__, KeyError)
    assert "Traceback (most recent call last)" in "".join(written)
    assert "KeyError: 'key'" in "".join(written)
