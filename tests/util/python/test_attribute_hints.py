import importlib
import types

import pytest

import returnn.frontend as rf
import returnn.frontend.decoder.transformer
import returnn.frontend.encoder.conformer
from returnn.tensor import Tensor
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
