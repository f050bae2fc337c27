"""`TensorDict`, and random values for it."""

from __future__ import annotations

import numpy
import pytest

import returnn.frontend  # noqa: F401 - values need their backend
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.tensor.utils import (
    get_random_seq_lens_for_dyn_dims,
    tensor_dict_dims_random_seq_len_min_max,
    tensor_dict_fill_random_numpy_,
    tensor_fill_random_numpy_,
)
from returnn.util.errors import DimError


@pytest.fixture
def templates() -> TensorDict:
    batch_dim.reset_batch_and_raw()
    time = Dim(None, name="time", kind=Dim.Types.Spatial)
    classes = Dim(7, name="classes", kind=Dim.Types.Feature)
    return TensorDict(
        {
            "data": Tensor("data", [batch_dim, time, Dim(5, name="feature")], "float32"),
            "classes": {"dims": [batch_dim, time], "sparse_dim": classes, "dtype": "int32"},
        }
    )


def test_descriptions_become_templates(templates: TensorDict) -> None:
    assert templates["classes"].sparse_dim.size == 7
    assert templates["classes"].name == "classes"
    assert "data" in templates
    assert "other" not in templates
    assert TensorDict([templates["data"]])["data"] is templates["data"]
    with pytest.raises(TypeError, match="'x' should be a tensor"):
        TensorDict({"x": 5})


def test_random_values_fit(templates: TensorDict) -> None:
    tensor_dict_fill_random_numpy_(templates, rnd=3, dyn_dim_max_sizes={templates["data"].dims[1]: 4})
    for tensor in templates.data.values():
        tensor.sanity_check()
    assert templates["data"].raw_tensor.shape[1:] == (4, 5)
    assert templates["classes"].raw_tensor.max() < 7
    lengths = templates["data"].dims[1].dyn_size
    assert lengths.max() == 4
    assert lengths.min() >= 2


def test_random_values_are_the_same_for_the_same_seed() -> None:
    values = []
    for _ in range(2):
        batch_dim.reset_batch_and_raw()
        x = Tensor("x", [batch_dim, Dim(None, name="time"), Dim(3, name="f")], "float32")
        assert tensor_fill_random_numpy_(x, rnd=numpy.random.RandomState(5))
        assert not tensor_fill_random_numpy_(x)  # it has a value now
        values.append(x.raw_tensor)
    numpy.testing.assert_array_equal(*values)


def test_raw_tensors_and_back(templates: TensorDict) -> None:
    tensor_dict_fill_random_numpy_(templates)
    raw = templates.as_raw_tensor_dict()
    assert set(raw) == {"data", "data:size0", "data:size1", "classes", "classes:size0", "classes:size1"}
    assert set(templates.as_raw_tensor_dict(exclude_duplicate_dims=True, include_scalar_dyn_sizes=False)) == {
        "data", "data:size1", "classes",
    }  # fmt: skip
    assert templates.as_raw_tensor_dict(include_const_sizes=True)["data:size2"] == 5
    expected = {name: x.raw_tensor for name, x in templates.data.items()}
    templates.reset_content()
    assert all(x.raw_tensor is None for x in templates.data.values())
    templates.assign_from_raw_tensor_dict_(raw)
    for name, value in expected.items():
        numpy.testing.assert_array_equal(templates[name].raw_tensor, value)
    assert templates["data"].dims[1].dyn_size.tolist() == raw["data:size1"].tolist()


def test_missing_raw_tensors(templates: TensorDict) -> None:
    tensor_dict_fill_random_numpy_(templates)
    raw = templates.as_raw_tensor_dict()
    without_lengths = {key: value for key, value in raw.items() if not key.endswith("size1")}
    with pytest.raises(DimError, match=r"'data:size1' is missing, the lengths of time\[B\]"):
        templates.assign_from_raw_tensor_dict_(without_lengths)
    without_value = {key: value for key, value in raw.items() if key != "classes"}
    with pytest.raises(DimError, match=r"'classes' is missing. There are: classes:size0, "):
        templates.assign_from_raw_tensor_dict_(without_value)
    with pytest.raises(TypeError, match="'data' has the type ndarray, expected"):
        templates.as_raw_tensor_dict(expected_value_type=int)


def test_copy_template_and_all_dims(templates: TensorDict) -> None:
    tensor_dict_fill_random_numpy_(templates)
    copy = templates.copy_template()
    assert all(x.raw_tensor is None for x in copy.data.values())
    assert copy.all_dims() == list(templates["data"].dims)


def test_random_lengths(templates: TensorDict) -> None:
    dims, ranges = tensor_dict_dims_random_seq_len_min_max(templates, {"data": (2, 3)})
    assert [ranges[dim] for dim in dims] == [(2, 3)]
    assert list(tensor_dict_dims_random_seq_len_min_max(templates)[1].values()) == [(5, 15)]
    lengths = get_random_seq_lens_for_dyn_dims(dims, ranges, batch_size=50)[dims[0]]
    assert (lengths.min(), lengths.max(), lengths.shape) == (2, 3, (50,))
