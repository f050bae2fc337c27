"""Losses that compare vectors, and outputs that are a loss themselves."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.loss import Loss
from returnn.util.errors import ConfigError


class MeanSquaredError(Loss):
    """Mean over the feature dim of the squared difference. Class labels as target are taken as one-hot vectors."""

    class_name = "mse"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        difference = rf.squared_difference(self.output, self.dense_target())
        return rf.reduce_mean(difference, axis=self.require_axis(), use_mask=False)


class L1Loss(Loss):
    """Sum over the feature dim of the absolute difference."""

    class_name = "l1"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        difference = rf.abs(self.output - self.dense_target())
        return rf.reduce_sum(difference, axis=self.require_axis(), use_mask=False)


class MeanL1Loss(Loss):
    """Mean over the feature dim of the absolute difference."""

    class_name = "mean_l1"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        difference = rf.abs(self.output - self.dense_target())
        return rf.reduce_mean(difference, axis=self.require_axis(), use_mask=False)


class AsIsLoss(Loss):
    """The output is the loss: its sum over all dims, without padding."""

    class_name = "as_is"
    need_target = False

    def __init__(self, as_error: bool = False, **kwargs: Any) -> None:
        """
        :param as_error: it is the error, and there is no loss
        """
        super().__init__(**kwargs)
        self._as_error = as_error

    def value_per_frame(self) -> Tensor | None:
        """:return: the output"""
        return None if self._as_error else rf.cast(self.output, "float32")

    def error_per_frame(self) -> Tensor | None:
        """:return: the output, if it is the error"""
        return rf.cast(self.output, "float32") if self._as_error else None


class DeepClusteringLoss(Loss):
    """
    Deep clustering (Hershey et al. 2016): embeddings of the bins of one source are brought near to each other.

    The output has an embedding for each bin, one behind the other in the feature dim. The target says for each bin
    which source it belongs to. `|V V^T - Y Y^T|^2 = |V^T V|^2 - 2 |V^T Y|^2 + |Y^T Y|^2`, over all bins of all frames.
    """

    class_name = "deep_clustering"

    def __init__(self, embedding_dimension: int, nr_of_sources: int, **kwargs: Any) -> None:
        """
        :param embedding_dimension: size of an embedding
        :param nr_of_sources: number of sources
        """
        super().__init__(**kwargs)
        self._embedding_dim = Dim(embedding_dimension, name="embedding", kind=Dim.Types.Feature)
        self._source_dim = Dim(nr_of_sources, name="sources", kind=Dim.Types.Feature)

    def value_per_frame(self) -> Tensor:
        """:return: a scalar"""
        axis, target = self.require_axis(), self.require_target()
        bins = axis.div_right(self._embedding_dim)
        embeddings = rf.split_dims(self.output, axis=axis, dims=[bins, self._embedding_dim])
        embeddings = rf.normalize_l2(embeddings, axis=self._embedding_dim)
        if target.feature_dim is None or target.feature_dim.dimension != bins.dimension:
            raise ConfigError(
                f"{self.where()}: the output has {bins.dimension} embeddings, but the target is {target}.\n"
                "  The target has the number of the source for each embedding in its feature dim."
            )
        labels, _ = rf.replace_dim(target, in_dim=target.feature_dim, out_dim=bins)
        sources = rf.one_hot(rf.set_sparse_dim(rf.cast(labels, "int32"), self._source_dim))
        return (
            self._squared_norm_of_product(embeddings, embeddings)
            - self._squared_norm_of_product(embeddings, sources) * 2.0
            + self._squared_norm_of_product(sources, sources)
        )

    def error_per_frame(self) -> None:
        """:return: there is none"""
        return

    @staticmethod
    def _squared_norm_of_product(a: Tensor, b: Tensor) -> Tensor:
        common = [dim for dim in a.dims if dim in b.dims and dim != a.feature_dim]
        product = rf.matmul(a, b, reduce=common)
        return rf.reduce_sum(rf.square(product), axis=product.dims)


class TripletLoss(Loss):
    """
    Triplet loss (Schroff et al. 2015, "FaceNet"): two vectors with the same label are nearer than two with others.

    The output has the vectors of anchor, positive and negative example, one behind the other in the feature dim.
    """

    class_name = "triplet_loss"
