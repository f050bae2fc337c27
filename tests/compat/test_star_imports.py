import pytest


@pytest.mark.parametrize("module", ["returnn.tf.layers.basic", "returnn.tf.util.basic"])
def test_star_imports_hand_on_what_configs_take_from_them(module):
    names = {}
    exec(f"from {module} import *", names)
    expected = {"tf", "tf_compat", "numpy", "np", "contextlib", "Dict", "Optional", "Dim", "Data", "NotSpecified"}
    assert expected <= set(names)
