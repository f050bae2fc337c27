"""Options of a config that print or check the output of each layer, in each step."""

import numpy
import pytest
import tensorflow as tf

from returnn.tf.layers.elementwise.combine import EvalLayer
from tests.tf.network.old_config import ConfigNet

CONFIG = """
extern_data = {"data": {"dim": 6, "shape": (None, 6)}}
network = {"log": {"class": "eval", "from": "data", "eval": "tf.math.log(source(0))"}, "output": {
    "class": "linear", "n_out": 2, "from": "log"}}
"""
POSITIVE = numpy.ones((3, 7, 6), "float32")


def run(option, data=POSITIVE):
    return ConfigNet(CONFIG + option).run(values={"data": data})


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("debug_print_layer_output = True", ["layer 'log': ", "shape: [3 7 6]", "values: [[[0 0 0"]),
        ("debug_print_layer_output = {'summarize': 1}", ["layer 'output': ", "values: [[[0"]),
        ("debug_print_layer_output_shape = True", ["layer 'output': ", "shape: [3 7 2]"]),
    ],
)
def test_prints(option, words, capfd):
    plain = run("")
    assert "layer '" not in capfd.readouterr().err
    numpy.testing.assert_array_equal(run(option), plain)
    printed = capfd.readouterr().err
    for word in words:
        assert word in printed


@pytest.mark.parametrize(("value", "infinite_is_fine", "fails"), [(-1, True, True), (0, True, False), (0, False, True)])
def test_values_that_are_not_finite(value, infinite_is_fine, fails, monkeypatch):
    monkeypatch.setattr(EvalLayer, "allow_inf_in_output", infinite_is_fine)
    config = ConfigNet(CONFIG + "debug_add_check_numerics_on_output = True")
    bad = POSITIVE.copy()
    bad[1, 2, 3] = value
    config.run("log", values={"data": POSITIVE})
    if not fails:
        config.run("log", values={"data": bad})
        return
    with pytest.raises(tf.errors.InvalidArgumentError, match="layer 'log' has NaN or infinite values in its output"):
        config.run("log", values={"data": bad})


def test_values_that_do_not_fit_their_lengths():
    run("debug_runtime_sanity_checks = True")
    with pytest.raises(tf.errors.InvalidArgumentError):
        run("debug_runtime_sanity_checks = True", data=POSITIVE[:, :6])
