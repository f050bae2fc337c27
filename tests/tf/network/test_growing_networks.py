"""Parameters of a network get into a larger one, as in pretraining: each part of a parameter keeps its values."""

import numpy
import pytest

from tests.tf.network.old_config import ConfigNet

TEXT = """
extern_data = {"data": {"dim": 6}}
network = {
    "a": {"class": "linear", "activation": "tanh", "n_out": %(n)s, "from": "data"},
    "b": {"class": "linear", "activation": "tanh", "n_out": %(n)s, "from": "data"},
    "joined": {"class": "linear", "activation": None, "n_out": 3, "from": ["a", "b"]},
    "lstm": {"class": "rec", "unit": "%(unit)s", "n_out": %(n)s, "from": ["data", "a"]},
    "output": {"class": "linear", "activation": None, "n_out": 3, "from": "lstm"},
}
network["joined"]["is_output_layer"] = True
"""


@pytest.mark.parametrize("unit", ["nativelstm2", "lstmblock", "standardlstm", "gru"])
def test_with_the_rest_zero_a_larger_network_computes_the_same(unit):
    small, large = (ConfigNet(TEXT % {"n": n, "unit": unit}) for n in (2, 5))
    with small.graph.as_default():
        params = small.net.get_params_serialized(small.session)
    with large.graph.as_default():
        values = large.net.get_param_values_dict(large.session)
        for layer in values.values():
            for name in layer:
                layer[name] = numpy.zeros_like(layer[name])
        large.net.set_param_values_by_dict(values, session=large.session)
        large.net.set_params_by_serialized(params, large.session, copy_param_mode="subset")
    expected, actual = small.run(["joined", "output"]), large.run(["joined", "output"])
    numpy.testing.assert_allclose(actual[0], expected[0], rtol=1e-5, atol=1e-6)
    numpy.testing.assert_allclose(actual[1], expected[1], rtol=1e-5, atol=1e-6)
