"""Another dtype."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.copy import CopyLayer


class CastLayer(CopyLayer):
    """The values of the source in another dtype. Labels stay labels if they stay integers."""

    layer_class = "cast"

    def __init__(self, dtype: str, **kwargs: Any) -> None:
        """
        :param dtype: such as "float32", "int32", "bool"
        """
        super().__init__(**kwargs)
        self.dtype = dtype

    def compute(self, source: Tensor) -> Tensor:
        """:return: the same dims"""
        return rf.cast(super().compute(source), self.dtype)
