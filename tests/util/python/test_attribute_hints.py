import importlib
import types

import pytest

import returnn.frontend as rf
import returnn.frontend.decoder.transformer
import returnn.frontend.encoder.conformer
from returnn.frontend.encoder.conformer import ConformerEncoder
from returnn.tensor import Dim, Tensor
from returnn.util.python.attribute_hints import attribute_hint


def _hint(get):
    with pytest.raises(AttributeError) as info:
        get()
    return attribute_hint(info.value)


@pytest.mark.parametrize(
    "made",
    [returnn.frontend.decoder.transformer.TransformerDecoder, returnn.frontend.encoder.conformer.ConformerEncoder],
)
def test_class_in_a_module_below(made):
    hint = _hint(lambda: getattr(rf, made.__name__))
    assert hint == f"It is in {made.__module__}: from {made.__module__} import {made.__name__}"


def test_near_names():
    assert "'reduce_sum'" in _hint(lambda: rf.reduce_sun)
    assert "'mark_as_loss'" in _hint(lambda: Tensor("x", [], "float32").mark_as_lss)
    assert _hint(lambda: rf.nothing_like_that_at_all) == ""


def test_other_exceptions_and_packages_have_none():
    assert attribute_hint(ValueError("x")) == attribute_hint(AttributeError("x")) == ""
    assert _hint(lambda: pytest.TransformerDecoder) == ""
    assert _hint(lambda: types.ModuleType("empty").anything) == ""


def test_modules_that_are_not_there():
    with pytest.raises(ModuleNotFoundError) as info:
        importlib.import_module("nothing_like_that.part")
    assert attribute_hint(info.value) == (
        "A package is installed by `pip install nothing_like_that`; the folder of a file has to be in `sys.path`."
    )
    with pytest.raises(ModuleNotFoundError) as info:
        importlib.import_module("types.nothing")
    assert attribute_hint(info.value) == ""


def _argument_hint(call):
    with pytest.raises(TypeError) as info:
        call()
    return attribute_hint(info.value)


def test_arguments_that_are_not_there():
    dim = Dim(8, name="feature")
    assert "'num_layers'" in _argument_hint(lambda: ConformerEncoder(dim, n_layers=2))
    assert _argument_hint(lambda: rf.ctc_loss(log_probs=1)).startswith("Possible: logits, logits_normalized, targets,")
    inner = _argument_hint(
        lambda: ConformerEncoder(
            dim, dim, input_layer=None, num_layers=1, num_heads=2, encoder_layer_opts={"conv_kernel": 5}
        )
    )
    assert "'conv_kernel_size'" in inner
    assert _argument_hint(lambda: len(1)) == ""
