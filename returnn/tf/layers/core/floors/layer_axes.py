"""How a layer finds the dims that its options describe, and tells its own dims apart from them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

from returnn.tensor import Dim, Tensor
from returnn.tensor.dim import single_step_dim
from returnn.tensor.tensor_axes import describes_any_number
from returnn.tf.layers.core.floors.layer_core import LayerCore
from returnn.tf.layers.core.layer_dims import Description, LayerDims, dim_in_place_of
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.layer_errors import naming_option
from returnn.util.errors import ConfigError, DimError
from returnn.util.not_specified import NotSpecified


class LayerAxes(LayerCore):
    """
    The part of `LayerBase` about axis descriptions such as "T", "F", "static:-1", and about new dims beside others.

    Inside of a loop, a description means a dim of one frame. Where the layer is moved out of the loop and sees all
    frames at once, "T" still has to mean the same dim, and not the one of the loop. So what was found for one frame is
    remembered for all frames.
    """

    def new_dim(
        self,
        key: str,
        size: int | None = None,
        *,
        kind: Any = Dim.Types.Spatial,
        auto_generated: bool | None = None,
        vocab: Any = None,
    ) -> Dim:
        """
        :param key: what it is for, such as "window"
        :param size: None if dynamic
        :param kind: of the dim
        :param auto_generated: whether dims of the same size and kind are equal to it. Default: if it has a fixed size
        :param vocab: labels
        :return: a dim that belongs to this layer: the same one in each run of `compute`
        """
        name = f"{self.get_absolute_name()}:{key}"
        auto_generated = size is not None if auto_generated is None else auto_generated
        return self.own_dims.made(
            key, size, lambda: Dim(size, name=name, kind=kind, auto_generated=auto_generated, vocab=vocab)
        )

    @property
    def own_dims(self) -> LayerDims:
        """The dims that belong to this layer, in all networks where it is made."""
        return self.network.dims_of_layers.of(self.get_absolute_name())

    def dims_of(
        self,
        source: Tensor,
        axes: Any,
        *,
        option: str | None = None,
        optional: bool = False,
        batch_dim_axis: int | None = None,
    ) -> list[Dim]:
        """
        :param source: tensor that has the dims
        :param axes: description or several, see `returnn.tensor.tensor_axes`
        :param option: of the layer which has the description, for errors
        :param optional: whether it is fine that the source lacks the dim
        :param batch_dim_axis: numbers count the axes of the tensor with the batch axis here. Default: in front
        :return: the dims, each once; empty also for a description such as "spatial", which is about any number of them
        :raises DimError: if a description fits no dim of the source
        """
        with naming_option(option):
            return self._dims_of(source, axes, option=option, optional=optional, batch_dim_axis=batch_dim_axis)

    def _dims_of(self, source: Tensor, axes: Any, *, option: str | None, **how: Any) -> list[Dim]:
        axes = self._as_in(source, axes)
        return self.same_as_in_frame(option, axes, lambda: find_dims(source, axes, **how))

    def same_as_in_frame(self, option: str | None, axes: Any, find: Callable[[], list[Dim]]) -> list[Dim]:
        """
        :param option: of the layer which has the description
        :param axes: the description, `None` if these are the dims that are meant without one
        :param find: finds them in the source
        :return: the dims; where the layer was moved out of a loop, those which were found for a single frame
        """
        if not any(_is_in_loop(net) for net in self.network.get_network_hierarchy()):
            return find()
        parts = axes if isinstance(axes, (list, tuple)) else [axes]
        key = option, tuple(axis if isinstance(axis, (str, int)) else "dim" for axis in parts)
        self._asked_for[key] += 1
        description = Description(*key, number=self._asked_for[key])
        described = self.own_dims.described
        if not self.sees_all_frames or description not in described:
            described[description] = find()
        return list(described[description])

    def _as_in(self, source: Tensor, axes: Any) -> Any:
        """:return: descriptions, where a dim whose lengths are over a merged dim in the source is what it is there"""
        if isinstance(axes, (list, tuple)):
            return [self._as_in(source, axis) for axis in axes]
        return dim_in_place_of(self.network.dims_of_layers, axes, source) if isinstance(axes, Dim) else axes

    @property
    def sees_all_frames(self) -> bool:
        """Whether it was moved out of a loop, so that what it gets can have the dim of the loop, or lack it."""
        return any(network.over_rec_time_dim is not None for network in self.network.get_network_hierarchy())

    def dim_of(self, source: Tensor, axis: Any, *, option: str | None = None) -> Dim:
        """
        :param source: tensor that has the dim
        :param axis: description, see `dims_of`
        :param option: of the layer which has the description, for errors
        :return: the dim
        :raises DimError: if it describes no dim of the source, or several
        """
        with naming_option(option):
            dims = self._dims_of(source, axis, option=option)
            if len(dims) == 1:
                return dims[0]
            if not dims:
                return source.get_dim_tag_from_description(axis)  # raises, with the dims that are there
            if isinstance(axis, Dim):
                return source.get_dim_tag_from_description(self._as_in(source, axis))  # by its priority, or raises
            raise DimError(f"{source}: the axis {axis!r} is ambiguous, it could be {', '.join(map(str, dims))}.")

    def sequence_dim_of(self, source: Tensor, axis: Any, *, option: str | None = None) -> tuple[Dim, bool]:
        """
        For layers which go over the frames of a sequence, and inside of a loop over its frames.

        :param source: tensor that has the dim, or one frame of it
        :param axis: description; `single_step_dim` means the loop around
        :param option: of the layer which has the description, for errors
        :return: the dim; whether the source is a single frame of it
        :raises DimError: if it describes no dim of the source, or several, and does not mean the loop around
        """
        dims = [] if axis is single_step_dim else self.dims_of(source, axis, option=option, optional=True)
        if len(dims) == 1:
            return dims[0], False
        for network in reversed(self.network.get_network_hierarchy()):
            loop_dim = network.inside_rec_time_dim or network.over_rec_time_dim
            if loop_dim is not None and not dims and axis in (loop_dim, single_step_dim, "T", "time"):
                return loop_dim, network.inside_rec_time_dim is not None
        return self.dim_of(source, axis, option=option), False

    def feature_dim_of(self, source: Tensor, *, or_sparse_dim: bool = False) -> Dim:
        """
        :param source: which needs a feature dim
        :param or_sparse_dim: labels are fine as well
        :return: the feature dim of the source; of labels, the dim that they are of
        :raises ConfigError: if there is none
        """
        dim = source.feature_dim_or_sparse_dim if or_sparse_dim else source.feature_dim
        if dim is None:
            raise ConfigError(f"{self.where()}: the source {source} has no feature dim.")
        return dim

    def output_feature_dim(self, default: Dim | int | None = None) -> Dim:
        """
        :param default: dim or size if the config gives neither `n_out` nor `out_dim`
        :return: the feature dim of the output
        :raises ConfigError: if it is not given, and there is no default
        """
        if self._out_dim is not None:
            self._check_size_of_out_dim()
            return self._out_dim
        n_out: Any = self._n_out
        if n_out is NotSpecified or n_out is None:
            n_out = self._out_type.get("dim", default) if isinstance(self._out_type, dict) else default
        if n_out is None:
            raise ConfigError(f"{self.where()}: the option 'n_out' or 'out_dim' is required.")
        if isinstance(n_out, Dim):
            return n_out
        if n_out < 1:
            raise ConfigError(f"{self.where()}: option 'n_out' has to be at least 1, not {n_out}.")
        return self.new_dim_beside("feature-dense", n_out, self.dims_beside_feature(), kind=Dim.Types.Feature)

    @property
    def has_given_feature_dim(self) -> bool:
        """Whether the config says what the feature dim of the output is."""
        return self._out_dim is not None or self._n_out not in (NotSpecified, None)

    def _check_size_of_out_dim(self) -> None:
        n_out, out_dim = self._n_out, self._out_dim
        if n_out not in (NotSpecified, None) and out_dim is not None and n_out != out_dim.dimension:
            raise ConfigError(f"{self.where()}: 'n_out' is {n_out}, but 'out_dim' is {out_dim}.")

    def new_dim_beside(
        self, key: str, size: int | None, dims: Collection[Dim], *, kind: Any = Dim.Types.Spatial
    ) -> Dim:
        """
        :param key: what it is for
        :param size: None if dynamic
        :param dims: what the output has beside the new dim
        :param kind: of the dim
        :return: see `LayerBase.new_dim`; another one than all of `dims`, although dims of the same size can be equal
        """
        new = self.new_dim(key, size, kind=kind)
        return self.new_dim(f"{key}:own", size, kind=kind, auto_generated=False) if new in dims else new

    def new_dims_of_size_one(self, key: str, dims: Sequence[Dim], *, beside: Collection[Dim] = ()) -> list[Dim]:
        """
        :param key: what they are for
        :param dims: other dims
        :param beside: what the output has beside the new dims
        :return: for each a dim of size 1 and of the same kind; different ones
        """
        new: list[Dim] = []
        for i, dim in enumerate(dims):
            new.append(self.new_dim_beside(f"{key}-{i}", 1, [*beside, *new], kind=dim.kind))
        return new

    def dims_of_shape(self, shape: Sequence[Dim | int], *, last_is_feature: bool) -> list[Dim]:
        """
        :param shape: dims, or sizes
        :param last_is_feature: whether the last one is a feature dim, if it is a size
        :return: the dims
        """
        dims: list[Dim] = []
        for i, size in enumerate(shape):
            is_feature = last_is_feature and i == len(shape) - 1
            kind = Dim.Types.Feature if is_feature else Dim.Types.Spatial
            dims.append(size if isinstance(size, Dim) else self.new_dim_beside(f"axis{i}", size, dims, kind=kind))
        for dim in dims:
            use_data_with(dim, network=self.network)
        return dims

    def dims_beside_feature(self) -> list[Dim]:
        """:return: the dims of the sources that stay where the features become other ones"""
        outputs = [source.output for source in self.sources]
        return [dim for x in outputs for dim in x.dims if dim != (self.in_dim or x.feature_dim)]

    def with_distinct_dims(self, output: Tensor) -> Tensor:
        """
        :param output: of the layer. It may have two dims of which only the sizes are known, and which are equal
        :return: output, where these are different ones
        """
        for axis, dim in enumerate(output.dims):
            if dim.size is not None and dim.auto_generated and dim in output.dims[:axis]:
                new = self.new_dim(f"axis {axis}:own", dim.size, kind=dim.kind, auto_generated=False)
                roles = {role: getattr(output, role) for role in ("feature_dim_axis", "time_dim_axis")}
                raw = output.raw_tensor
                output = output.copy_template_replace_dim_tag(axis, new)
                output.raw_tensor = raw
                for role, of_axis in roles.items():
                    setattr(output, role, of_axis)
        return output

    def new_dim_like(self, key: str, dim: Dim) -> Dim:
        """
        :param key: what it is for
        :param dim: another dim
        :return: a dim of this layer as long as the other one, see `LayerBase.new_dim`
        """
        new = self.new_dim(key, dim.size, kind=dim.kind, auto_generated=False)
        if new.size is None and new.dyn_size is None:
            new.take_lengths_of(dim)
        return new


def _is_in_loop(network: Network) -> bool:
    return network.inside_rec_time_dim is not None or network.over_rec_time_dim is not None


def use_data_with(dim: Dim, *, network: Network) -> None:
    """Sees to it that the lengths of a dim of data are there, even if no layer looks at the data."""
    root = network.get_root_network()
    keys = [key for key, data in root.extern_data.data.items() if dim in data.dims]
    if not keys or dim.size is not None or dim.is_batch_dim() or root.get_used_data_keys().intersection(keys):
        return
    keys.sort(key=lambda key: not root.extern_data.data[key].available_for_inference)
    network.get_extern_data(keys[0])


def find_dims(source: Tensor, axes: Any, *, optional: bool = False, batch_dim_axis: int | None = None) -> list[Dim]:
    """:return: see `LayerAxes.dims_of`"""
    if _has_number(axes) and source.have_batch_axis():
        source = source.copy_template()
        beams = [dim for dim in source.dims if dim.is_beam_dim()]  # part of the batch, as the config sees it
        for beam in beams:
            source = source.copy_template_excluding_axis(source.dims.index(beam))
        source = source.copy_with_batch_dim_axis(batch_dim_axis or 0)
    found = [source.dims[i] for i in source.get_axes_from_description(axes)]
    for axis in () if optional else _each(axes):
        if not describes_any_number(axis) and not source.get_axes_from_description(axis):
            source.get_axis_from_description(axis)  # raises, with the dims that are there
    return found


def _each(axes: Any) -> list[Any]:
    """:return: the single descriptions"""
    if not isinstance(axes, (list, tuple, set, frozenset)):
        return [axes]
    return [axis for some in axes for axis in _each(some)]


def _has_number(axes: Any) -> bool:
    if isinstance(axes, (list, tuple, set, frozenset)):
        return any(_has_number(axis) for axis in axes)
    return isinstance(axes, int)
