"""Losses that compare vectors, and outputs that are a loss themselves."""

from __future__ import annotations

from typing import Any

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.loss import Loss
from returnn.util.errors import ConfigError
from returnn.util.texts.counted import counted


class MeanSquaredError(Loss):
    """Mean over the feature dim of the squared difference. Class labels as target are taken as one-hot vectors."""

    class_name = "mse"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        difference = rf.squared_difference(self.output, self.dense_target())
        return self.over_features(difference, mode="mean")


class L1Loss(Loss):
    """Sum over the feature dim of the absolute difference."""

    class_name = "l1"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        difference = rf.abs(self.output - self.dense_target())
        return self.over_features(difference, mode="sum")


class MeanL1Loss(Loss):
    """Mean over the feature dim of the absolute difference."""

    class_name = "mean_l1"

    def value_per_frame(self) -> Tensor:
        """:return: [B, T]"""
        difference = rf.abs(self.output - self.dense_target())
        return self.over_features(difference, mode="mean")


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
        return None if self._as_error else self._as_float()

    def error_per_frame(self) -> Tensor | None:
        """:return: the output, if it is the error"""
        return self._as_float() if self._as_error else None

    def _as_float(self) -> Tensor:
        return rf.cast(self.output, "float64" if self.output.dtype == "float64" else "float32")


class DeepClusteringLoss(Loss):
    """
    Deep clustering (Hershey et al. 2016): embeddings of the bins of one source are brought near to each other.

    The output has an embedding for each bin, one behind the other in the feature dim. The target says for each bin
    which source it belongs to. `|V V^T - Y Y^T|^2 = |V^T V|^2 - 2 |V^T Y|^2 + |Y^T Y|^2`, over all bins of all frames
    of a sequence.
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
        """:return: [B]"""
        axis, target = self.require_axis(), self.require_target()
        bins = axis.div_right(self._embedding_dim)
        embeddings = rf.split_dims(self.output, axis=axis, dims=[bins, self._embedding_dim])
        embeddings = _unit_length(embeddings, self._embedding_dim)
        if target.feature_dim is None or target.feature_dim.dimension != bins.dimension:
            raise ConfigError(
                f"{self.where()}: the output has {counted(bins.dimension, 'embedding')}, but the target is {target}.\n"
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
        """:return: [B]: of `a^T b`, for each sequence"""
        common = [dim for dim in a.dims if dim in b.dims and dim != a.feature_dim and not dim.is_batch_dim()]
        product = rf.matmul(a, b, reduce=common)
        return rf.reduce_sum(rf.square(product), axis=[dim for dim in product.dims if not dim.is_batch_dim()])


_TRIPLETS_OF_TWO_VIEWS = [(0, 4, 5), (1, 4, 2)]


class TripletLoss(Loss):
    """
    Triplet loss: vectors of the same label are brought together, those of different labels are kept apart.

    The output [B, 3 * F] has the vectors of an anchor, an example with the same label and one with another label, one
    behind the other; the target [B, 3] their labels. All pairs of vectors in the batch count, with the cosine
    distance d: `d(x, y)` if they have the same label, otherwise `max(0, margin - d(x, y))` (Hadsell et al. 2006).
    As recorded, label 0 and another one are half the same: the mean of both terms.

    With two views (He et al. 2017, "Multi-view recurrent neural acoustic word embeddings"), the output [B, 6 * F] has
    six vectors, 0 to 5. As recorded, the loss is the sum of that of the vectors 0, 4, 5 and that of 1, 4, 2, with the
    same labels; the vector 3 does not count.
    """

    class_name = "triplet_loss"

    def __init__(self, margin: float, multi_view_training: bool = False, **kwargs: Any) -> None:
        """
        :param margin: distance from which on vectors of different labels are far enough from each other
        :param multi_view_training: there are two views of the data
        """
        super().__init__(**kwargs)
        self.margin = margin
        self.multi_view_training = multi_view_training

    def value_per_frame(self) -> Tensor:
        """:return: [B]: the sum over the pairs of the three vectors of a sequence, each pair shared by both sides"""
        vectors, labels = self._vectors_and_labels()
        return sum((self._pairs(x, x, labels) for x in vectors[1:]), self._pairs(vectors[0], vectors[0], labels)) * 0.5

    def error_per_frame(self) -> None:
        """:return: there is none"""
        return

    def _vectors_and_labels(self) -> tuple[list[Tensor], Tensor]:
        """:return: for each triplet, vectors of length 1 [B, kind, F]; labels [B, kind]; kind: anchor, same, other"""
        axis, target = self.require_axis(), self.require_target()
        triplets = _TRIPLETS_OF_TWO_VIEWS if self.multi_view_training else [(0, 1, 2)]
        kind, *more = [dim for dim in target.dims if not dim.is_batch_dim()] or [None]
        num = 6 if self.multi_view_training else 3
        if axis.dimension is None or axis.dimension % num or more or kind is None or kind.dimension != 3:
            raise ConfigError(
                f"{self.where()}: the output has to have {counted(num, 'vector')}, the target 3 labels, one behind "
                "the other.\n"
                f"  Output: {self.output}, target: {target}."
            )
        place = Dim(num, name="place")
        vector = Dim(axis.dimension // num, name="vector", kind=Dim.Types.Feature)
        vectors = _unit_length(rf.split_dims(self.output, axis=axis, dims=[place, vector]), vector)
        places = [rf.convert_to_tensor(list(triplet), dims=[kind], sparse_dim=place) for triplet in triplets]
        return [rf.gather(vectors, indices=x, axis=place) for x in places], target

    def _pairs(self, x: Tensor, y: Tensor, labels: Tensor) -> Tensor:
        """:return: [B]: the sum over all pairs of a vector of the sequence in `x` and one of any sequence in `y`"""
        (batch,), (kind,) = (
            [dim for dim in labels.dims if dim.is_batch_dim() == is_batch] for is_batch in (True, False)
        )
        others = Dim(batch.get_dim_value_tensor() * 3, name="others")
        y, other_labels = (rf.merge_dims(t, dims=[batch, kind], out_dim=others)[0] for t in (y, labels))
        distance = 1.0 - rf.matmul(x, y, reduce=x.feature_dim or x.dims[-1], use_mask=False)
        same = _how_much_the_same(labels, other_labels)
        value = same * distance + (1.0 - same) * rf.relu(self.margin - distance)
        return rf.reduce_sum(value, axis=[kind, others], use_mask=False)


def _how_much_the_same(a: Tensor, b: Tensor) -> Tensor:
    """:return: for all pairs of labels: 1 for equal ones, 1/2 for 0 and another one, otherwise 0"""
    is_zero = [rf.compare(labels, "==", 0) for labels in (a, b)]
    equal, one_is_zero = rf.compare_bc(a, "==", b), rf.compare_bc(is_zero[0], "!=", is_zero[1])
    return rf.cast(equal, "float32") + rf.cast(one_is_zero, "float32") * 0.5


def _unit_length(x: Tensor, axis: Dim) -> Tensor:
    return x * rf.rsqrt(rf.reduce_sum(rf.square(x), axis=axis, use_mask=False) + 1e-12)
