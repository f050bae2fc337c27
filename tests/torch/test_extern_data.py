"""Templates from the option `extern_data`, for code of a config."""

from __future__ import annotations

from returnn.tensor import Dim, batch_dim
from returnn.torch.data.extern_data import extern_data_template_from_config_opts


def test_templates_from_descriptions() -> None:
    labels = Dim(5, name="labels")
    descriptions = {"data": {"dim": 3}, "classes": {"dims": [batch_dim, Dim(None, name="time")], "sparse_dim": labels}}
    for found in (
        extern_data_template_from_config_opts(descriptions),
        extern_data_template_from_config_opts(extern_data_template_from_config_opts(descriptions)),
    ):
        assert found["data"].feature_dim is not None
        assert found["data"].feature_dim.dimension == 3
        assert (found["classes"].sparse_dim, found["classes"].dtype) == (labels, "int32")
