"""What a layer can know about the run that it is part of."""

from __future__ import annotations

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.layers.core.no_sources import NoSourcesLayer


class TrainFlagLayer(NoSourcesLayer):
    """Whether this is training: a bool scalar."""

    layer_class = "train_flag"

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: scalar"""
        return rf.convert_to_tensor(rf.get_run_ctx().train_flag, dims=(), dtype="bool").copy()


class GlobalTrainStepLayer(NoSourcesLayer):
    """Number of the training step, over all epochs: an int64 scalar."""

    layer_class = "global_train_step"

    def compute(self, *_sources: Tensor) -> Tensor:
        """:return: scalar"""
        output = Tensor(self.name, dims=(), dtype="int64")
        if rf.get_selected_backend() != "template":
            output.raw_tensor = self.network.global_train_step
        return output
