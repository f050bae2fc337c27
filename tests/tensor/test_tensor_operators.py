"""Tensors as conditions of Python."""

import logging

import numpy
import pytest

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor, batch_dim
from returnn.util.errors import DimError
from returnn.util.system.warn_once import forget_shown

frames = Dim(3, name="frames")


def scalar(value):
    return Tensor("scalar", [], str(numpy.asarray(value).dtype), raw_tensor=numpy.asarray(value))


def array(values):
    return Tensor("array", [frames], str(numpy.asarray(values).dtype), raw_tensor=numpy.asarray(values))


def test_a_test_for_none_of_old_code_is_true_and_is_warned_of_once(caplog):
    forget_shown()
    lengths = Dim(Tensor("lengths", [batch_dim], "int32"), name="time").dyn_size_ext
    with caplog.at_level(logging.ERROR, logger="returnn"):
        for tensor in (lengths, array([0, 0, 0]), array([0.0, 0.0, 0.0])):
            assert tensor, f"{tensor} has no lengths"
    (text,) = [record.getMessage() for record in caplog.records]
    assert "a tensor with dims, used as True or False, is True, whatever is in it. To test for None: `x is not" in text


@pytest.mark.parametrize("tensor", [
    array([1, 2, 3]) == 2,
    Tensor("mask", [batch_dim], "bool"),
], ids=str)  # fmt: skip
def test_what_compares_each_entry_is_no_condition(tensor):
    with pytest.raises(DimError, match="cannot be used as True or False, it is not a scalar"):
        bool(tensor)


def test_scalars_are_their_values():
    assert scalar(2)
    assert not scalar(0)
    assert scalar(2) > scalar(1)
    assert not rf.reduce_all(array([1, 2, 3]) == 2, axis=frames)
    with pytest.raises(DimError, match="it has no value yet"):
        bool(Tensor("scalar", [], "int32"))
