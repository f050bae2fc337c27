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
        embeddings = _unit_length(embeddings, self._embedding_dim)
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
    Triplet loss: an anchor is nearer to examples with its label than to those with another one.

    `sum max(0, margin + d(anchor, same) - d(anchor, different))`, with the cosine distance d, over all pairs of
    examples in the batch (Schroff et al. 2015; He et al. 2017, "Multi-view recurrent neural acoustic word embeddings").

    The output [B, 3 * F] has the vectors of an anchor, an example with the same label and one with another label, one
    behind the other; the target [B, 3] their labels. With two views, the output [B, 6 * F] has these vectors of the
    first view and then those of the second one; an anchor of one view is compared with examples of the other one.
    """

    class_name = "triplet_loss"

    def __init__(self, margin: float, multi_view_training: bool = False, **kwargs: Any) -> None:
        """
        :param margin: how much nearer
        :param multi_view_training: there are two views of the data
        """
        super().__init__(**kwargs)
        self.margin = margin
        self.multi_view_training = multi_view_training

    def value_per_frame(self) -> Tensor:
        """:return: [B]: the part of each anchor"""
        vectors, labels, kind = self._vectors_and_labels()
        anchors, examples = ([0], [1, 2]) if not self.multi_view_training else ([0, 3], [4, 5, 1, 2])
        per_view = len(examples) // len(anchors)
        parts = [
            self._hinge(vectors, labels, kind, anchor, examples[view * per_view : (view + 1) * per_view])
            for view, anchor in enumerate(anchors)
        ]
        return sum(parts[1:], parts[0])

    def error_per_frame(self) -> None:
        """:return: there is none"""
        return

    def _vectors_and_labels(self) -> tuple[Tensor, Tensor, Dim]:
        """:return: vectors of length 1 [B, kind, F]; labels [B, kind]; kind: anchor, same, different"""
        axis, target, num = self.require_axis(), self.require_target(), 6 if self.multi_view_training else 3
        others = [dim for dim in target.dims if not dim.is_batch_dim()]
        if axis.dimension is None or axis.dimension % num or [dim.dimension for dim in others] != [3]:
            raise ConfigError(
                f"{self.where()}: the output has to have {num} vectors, the target 3 labels, one behind the other.\n"
                f"  Output: {self.output}, target: {target}."
            )
        kind = Dim(num, name="kind")
        vectors = rf.split_dims(self.output, axis=axis, dims=[kind, axis.div_left(kind)])
        if num == 6:
            target, _ = rf.concat((target, others[0]), (target, others[0]), out_dim=kind)
        else:
            target, _ = rf.replace_dim(target, in_dim=others[0], out_dim=kind)
        return _unit_length(vectors, axis.div_left(kind)), target, kind

    def _hinge(self, vectors: Tensor, labels: Tensor, kind: Dim, anchor: int, examples: list[int]) -> Tensor:
        """:return: [B]: for each anchor, the sum over all pairs of examples"""
        batch = self.output.get_batch_dim_tag()
        index = Dim(len(examples), name="example")
        chosen = rf.convert_to_tensor(examples, dims=[index], dtype="int32", sparse_dim=kind)
        a, a_label = (rf.gather(x, indices=anchor, axis=kind) for x in (vectors, labels))
        b, b_label = (rf.gather(x, indices=chosen, axis=kind) for x in (vectors, labels))
        (b, others), (b_label, _) = (rf.merge_dims(x, dims=[batch, index], out_dim=batch * index) for x in (b, b_label))
        distance = 1.0 - rf.matmul(a, b, reduce=a.feature_dim or a.dims[-1], use_mask=False)
        is_same = rf.cast(rf.compare_bc(a_label, "==", b_label), "float32")
        another, _ = rf.replace_dim(distance, in_dim=others, out_dim=(copy := Dim(others.dyn_size_ext, name="others")))
        is_other, _ = rf.replace_dim(1.0 - is_same, in_dim=others, out_dim=copy)
        hinge = rf.relu(rf.combine_bc(distance + self.margin, "-", another))
        counted = rf.combine_bc(rf.combine_bc(hinge, "*", is_same), "*", is_other)
        return rf.reduce_sum(counted, axis=[others, copy], use_mask=False)


def _unit_length(x: Tensor, axis: Dim) -> Tensor:
    return x * rf.rsqrt(rf.reduce_sum(rf.square(x), axis=axis, use_mask=False) + 1e-12)
