"""Marking a tensor as output or loss of the current step, and promises about its dims."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from returnn.tensor._frontend import operations
from returnn.tensor.dim import Dim, VerifyOutShapeException
from returnn.tensor.marked_dim import ImplicitDim, ImplicitDynSizeDim, ImplicitSparseDim, MarkedDim, OptionalDim
from returnn.tensor.tensor_graph import TensorGraph

if TYPE_CHECKING:
    from typing_extensions import Self


class TensorOutputs(TensorGraph):
    """The floor of `Tensor` about what it is made for."""

    def mark_as_loss(
        self,
        name: str,
        *,
        scale: float | None = 1.0,
        as_error: bool = False,
        use_normalized_loss: bool = False,
        use_flatten_frames: bool = True,
        custom_inv_norm_factor: Self | None = None,
    ) -> None:
        """Makes it a loss of the current training step, see `returnn.frontend.run_ctx.RunCtx.mark_as_loss`."""
        operations().get_run_ctx().mark_as_loss(
            name=name,
            loss=self,
            scale=scale,
            as_error=as_error,
            use_normalized_loss=use_normalized_loss,
            use_flatten_frames=use_flatten_frames,
            custom_inv_norm_factor=custom_inv_norm_factor,
        )

    def mark_as_output(self, name: str, *, shape: Sequence[Dim] | None = None) -> None:
        """
        Makes it an output of the current step.

        :param name: of the output
        :param shape: order of the axes
        """
        operations().get_run_ctx().mark_as_output(self, name, dims=shape)

    def mark_as_default_output(self, *, shape: Sequence[Dim] | None = None) -> None:
        """Makes it the output named "output" of the current step; `shape` is the order of its axes."""
        operations().get_run_ctx().mark_as_default_output(self, shape=shape)

    @property
    def dim_tags_set_implicit_only_wrapped(self) -> set[ImplicitDim]:
        """The dims that the content depends on without having them as axes."""
        result: set[ImplicitDim] = set()
        if self.sparse_dim is not None:
            result.add(ImplicitSparseDim(self.sparse_dim))
        for dim in self.dims:
            lengths = dim.dyn_size_ext if dim.size is None and not dim.is_batch_dim() else None
            if lengths is not None:
                result.update(ImplicitDynSizeDim(d) for d in lengths.dims if d not in self.dims)
        return result

    @property
    def dim_tags_set_implicit_only(self) -> set[Dim]:
        """The dims that the content depends on without having them as axes."""
        return {marked.tag for marked in self.dim_tags_set_implicit_only_wrapped}

    @property
    def dim_tags_set_implicit(self) -> set[Dim]:
        """The dims of the axes, and those that the content depends on."""
        return set(self.dims) | self.dim_tags_set_implicit_only

    def verify_out_shape(
        self, out_shape: Collection[Dim | MarkedDim], allow_missing_implicit_dims: bool = False
    ) -> None:
        """
        :param out_shape: the dims that the tensor promises to have, in any order, and implicit ones as `ImplicitDim`;
            `OptionalDim` for those which it may have
        :param allow_missing_implicit_dims: implicit dims need not be mentioned
        :raises VerifyOutShapeException: if it has others
        """
        wanted = set(out_shape)
        optional = {d.tag for d in wanted if isinstance(d, OptionalDim)}
        implicit = {d.tag for d in wanted if isinstance(d, ImplicitDim)}
        explicit = {d for d in wanted if isinstance(d, Dim)}
        missing: list[Any] = sorted(explicit - set(self.dims))
        unexpected: list[Any] = sorted(set(self.dims) - explicit - optional)
        own_implicit = self.dim_tags_set_implicit_only
        missing += [ImplicitDim(d) for d in sorted(implicit - own_implicit)]
        if not allow_missing_implicit_dims:
            unexpected += [ImplicitDim(d) for d in sorted(own_implicit - implicit - explicit - optional)]
        if missing or unexpected:
            raise VerifyOutShapeException(
                f"{self}: the dims are not those of out_shape {sorted(map(str, wanted))}.\n"
                f"  Missing: {', '.join(map(str, missing)) or 'none'}. "
                f"Not expected: {', '.join(map(str, unexpected)) or 'none'}."
            )
