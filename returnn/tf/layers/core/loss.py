"""
`Loss`: what the output of a layer is compared by with a target.

A built-in loss says what it is per frame (`value_per_frame`, `error_per_frame`); it is summed over all valid frames of
all sequences. A loss class of a user can instead compute the sum itself, in `get_value` and `get_error`, from raw
tensors: `output_flat`, `target_flat` and so on have all valid frames in one axis, and `reduce_func` sums up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, ClassVar

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_targets import LayerTargets
from returnn.tf.layers.core.frames_of_target import with_dims_of, with_lengths_of
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.layers.options.broadcasting import matched_by_size
from returnn.tf.layers.options.layer_options import options_of
from returnn.tf.util.activations import OutputWithActivation
from returnn.util.errors import ConfigError, nearest_hint


class Loss:
    """A loss. See the head of this module. It is a sum over frames; `scale` and norm factor come on top."""

    class_name: ClassVar[str | tuple[str, ...] | None] = None
    recurrent: ClassVar[bool] = False  # whether it is about sequences, not single frames
    has_values_of_frames: ClassVar[bool] = True  # otherwise, a sequence has a single value
    need_target: ClassVar[bool] = True
    has_perplexity: bool = False  # it is the negative log probability of the target

    def __init__(
        self,
        base_network: Network,
        use_flatten_frames: bool = True,
        use_normalized_loss: bool = False,
        custom_norm_factor: float | Callable[..., Any] | None = None,
        custom_inv_norm_factor: Any = None,
        scale: float = 1.0,
        _check_output_before_softmax: bool | None = None,
    ) -> None:
        """
        :param base_network: the network that the layer is in
        :param use_flatten_frames: whether raw tensors get all valid frames in one axis
        :param use_normalized_loss: the objective has the mean over the frames, instead of the sum
        :param custom_norm_factor: number, or function of this loss, instead of 1 / number of frames
        :param custom_inv_norm_factor: layer whose output, summed up, is one over the norm factor; or the number
        :param scale: factor in the objective
        :param _check_output_before_softmax: not used any more
        """
        self.base_network = base_network
        self.use_flatten_frames = use_flatten_frames
        self.use_normalized_loss = use_normalized_loss
        self.custom_norm_factor = custom_norm_factor
        self.custom_inv_norm_factor = custom_inv_norm_factor
        self.scale = scale
        self.layer: LayerTargets | None = None
        self.output: Tensor
        self.target: Tensor | None = None
        self.output_with_activation: OutputWithActivation | None = None
        self._reduce_func: Callable[[Any], Any] | None = None

    # What a loss class defines.

    def takes_probabilities(self) -> bool:
        """:return: whether it computes the logarithm of the output, which has to be positive"""
        return False

    def value_per_frame(self) -> Tensor | None:
        """:return: [B, T]: the loss of each frame; without frames for losses on whole sequences. None: no loss."""
        raise TypeError(f"{type(self).__name__} defines neither value_per_frame nor get_value")

    def error_per_frame(self) -> Tensor | None:
        """:return: [B, T]: 1 for each frame where the output has its maximum elsewhere than the target"""
        if self.target is None or self.output.feature_dim is None:
            return None
        if not self.target.sparse and (self.target.feature_dim is None or self.target.dim != self.output.dim):
            return None
        # A loss on sequences leaves the target as it is, but here it counts frame by frame.
        target = self._target_of_frames(self.target) if self.recurrent else self.target
        label = target if target.sparse else rf.reduce_argmax(target, axis=target.feature_dim)
        best = rf.cast(rf.reduce_argmax(self.output, axis=self.output.feature_dim), label.dtype)
        return rf.cast(rf.compare_bc(best, "!=", label), "float32")

    @classmethod
    def get_auto_output_layer_dim(cls, target_dim: Dim) -> Dim:
        """:return: feature dim of the layer, for a target with this dim"""
        return target_dim

    @classmethod
    def get_default_target(cls, extern_data: Any) -> str | None:
        """:return: key of the target, if the config does not say"""
        return extern_data.default_target

    @classmethod
    def transform_config_dict(cls, d: dict[str, Any], network: Network, get_layer: Callable[[str], Any]) -> None:
        """Turns names of layers in the options into layers, in place."""
        if isinstance(d.get("custom_inv_norm_factor"), str):
            d["custom_inv_norm_factor"] = get_layer(d["custom_inv_norm_factor"])

    # What a loss class can use.

    def require_target(self) -> Tensor:
        """
        :return: the target
        :raises ConfigError: if there is none
        """
        if self.target is None:
            raise ConfigError(f"{self.where()}: a target is required (option 'target').")
        return self.target

    def require_axis(self) -> Dim:
        """
        :return: the feature dim of the output
        :raises ConfigError: if it has none
        """
        if self.output.feature_dim is None:
            raise ConfigError(f"{self.where()}: the output {self.output} has no feature dim.")
        return self.output.feature_dim

    def dense_target(self) -> Tensor:
        """
        :return: [B, T, F]: the target; class labels as one-hot vectors. [B, T] if the output has no feature dim either
        :raises ConfigError: if there is none, or one with another feature dim than the output
        """
        target = self.require_target()
        if self.output.feature_dim is None and target.feature_dim is None and not target.sparse:
            return rf.cast(target, self.output.dtype)
        axis = self.require_axis()
        dense = rf.one_hot(target) if target.sparse else rf.cast(target, self.output.dtype)
        if axis not in dense.dims:
            raise ConfigError(
                f"{self.where()}: the output {self.output} and the target {target} have different feature dims."
            )
        return dense

    def over_features(self, x: Tensor, *, mode: str) -> Tensor:
        """
        :param x: [B, T, F], or [B, T] if the output has no feature dim
        :param mode: "sum" or "mean"
        :return: [B, T]
        """
        axis = self.output.feature_dim
        return x if axis is None else rf.reduce(x, mode=mode, axis=axis, use_mask=False)

    # How it is used.

    def init(
        self,
        output: Tensor,
        output_with_activation: OutputWithActivation | None = None,
        target: Tensor | None = None,
        layer: LayerTargets | None = None,
    ) -> None:
        """
        :param output: of the layer
        :param output_with_activation: the same before its activation function, if there is one
        :param target: what to compare with
        :param layer: the layer
        """
        self.output = output
        self.output_with_activation = output_with_activation
        self.layer = layer
        target = None if target is None else _with_batch_of(target, output, self.where())
        self.target = target if target is None or self.recurrent else self._target_of_frames(target)
        self.__dict__.pop("_flat", None)

    def _target_of_frames(self, target: Tensor) -> Tensor:
        """:return: target with the dims of the output, where sizes or lengths say that they are the same"""
        output, where = self.output, self.where()
        target = _label_of_each_frame(target, output, self.layer, where)
        target = with_dims_of(target, output, where)
        features = [x.feature_dim for x in (output, target) if x.feature_dim is not None]
        _, target = matched_by_size([output, target], apart=features)
        return _with_feature_of(target, output)

    def init_by_layer(self, layer: LayerTargets, layer_output_template: Tensor | None = None) -> None:
        """
        :param layer: its output is compared with its target
        :param layer_output_template: the output to use instead of the one of the layer
        """
        output = layer.output if layer_output_template is None else layer_output_template
        target = layer.get_target_value()
        self.init(output=output, output_with_activation=layer.output_before_activation, target=target, layer=layer)

    def where(self) -> str:
        """:return: the loss, as an error message begins with it"""
        return f"{self.layer.where() if self.layer else 'loss'}: loss {self.class_name!r}"

    def get_value(self) -> Any:
        """:return: raw scalar, the sum of the loss; None if there is none"""
        value = self.value_per_frame()
        return None if value is None else self.reduce(value)

    def get_error(self) -> Any:
        """:return: raw scalar, the sum of the error; None if there is none"""
        error = self.error_per_frame()
        return None if error is None else self.reduce(error)

    def reduce(self, value: Tensor) -> Any:
        """:return: raw sum over all valid frames, or what `reduce_func` makes of them"""
        if self._reduce_func in (self.sum_of_sequences, self.mean_of_sequences):
            return self._reduce_func(value)
        if self._reduce_func is not None:
            raw = value.get_placeholder_flattened() if self.use_flatten_frames else value.raw_tensor
            return self._reduce_func(raw)
        if value.dtype == "bool":
            value = rf.cast(value, "float32")
        if not value.dims:
            return value.raw_tensor
        return rf.reduce_sum(value, axis=value.dims, use_mask=_has_own_lengths(value)).raw_tensor

    def reduce_func(self, loss: Any) -> Any:
        """
        :param loss: raw tensor: one value per frame
        :return: raw scalar, the sum; or what the user of the loss wants of it
        """
        return tf.reduce_sum(loss) if self._reduce_func is None else self._reduce_func(loss)

    def reduce_to_batch(self, loss: Tensor | Any, normalize: bool) -> Any:
        """
        :param loss: one value per frame, as raw tensor; as `Tensor`, it can also be [B], or [B, T, ...]
        :param normalize: the sum of a sequence is divided by the number of its frames
        :return: raw tensor (B,)
        """
        value = loss if isinstance(loss, Tensor) else self.unflattened(loss)
        if value.dtype == "bool":
            value = rf.cast(value, "float32")
        axes = [dim for dim in value.dims if not dim.is_batch_dim()]
        total = rf.reduce_sum(value, axis=axes, use_mask=_has_own_lengths(value)) if axes else value
        if not normalize or not value.have_batch_axis():
            return total.raw_tensor
        num_frames = self.num_frames_of_sequences(value.get_batch_dim_tag())
        return tf.math.divide_no_nan(total.raw_tensor, tf.cast(num_frames, total.raw_tensor.dtype))

    def sum_of_sequences(self, loss: Tensor | Any) -> Any:
        """
        :param loss: one value per frame
        :return: raw tensor (B,): the sum of each sequence. As `reduce_func`, it also gets values [B, T, ...]
        """
        return self.reduce_to_batch(loss, normalize=False)

    def mean_of_sequences(self, loss: Tensor | Any) -> Any:
        """
        :param loss: one value per frame
        :return: raw tensor (B,): the mean of each sequence. As `reduce_func`, it also gets values [B], or [B, T, ...]
        """
        return self.reduce_to_batch(loss, normalize=True)

    def get_normalization_factor(self) -> Any:
        """:return: raw scalar, by which the sum becomes a mean: 1 / number of valid frames"""
        if self.custom_norm_factor is not None:
            factor = self.custom_norm_factor
            return factor(self=self, output=self.output, layer=self.layer) if callable(factor) else factor
        if isinstance(self.custom_inv_norm_factor, (int, float)):
            return 1.0 / self.custom_inv_norm_factor
        if self.custom_inv_norm_factor is not None:
            inverse = self.custom_inv_norm_factor.output
            total = rf.reduce_sum(inverse, axis=inverse.dims) if inverse.dims else inverse
            return tf.math.reciprocal(tf.cast(total.raw_tensor, tf.float32))
        dims = self._dims_that_count()
        if not dims:
            return 1.0
        count = rf.num_elements_of_shape(dims)
        count = count.raw_tensor if isinstance(count, Tensor) else count
        return tf.math.reciprocal(tf.maximum(tf.cast(count, tf.float32), 1.0))

    def num_frames_of_sequences(self, batch: Dim) -> Any:
        """
        :param batch: the batch dim
        :return: raw (B,): the number of valid frames of each sequence; a scalar for all of them together, if the factor
            by which a sum becomes a mean is not about frames
        """
        dims = self._dims_that_count()
        others = [dim for dim in dims if dim != batch]
        given = self.custom_norm_factor is not None or self.custom_inv_norm_factor is not None
        if given or batch not in dims:
            return tf.math.reciprocal(tf.cast(self.get_normalization_factor(), tf.float32))
        ones = rf.ones([batch, *others], dtype="float32")
        return (rf.reduce_sum(ones, axis=others) if others else ones).raw_tensor

    def dims_of_frames(self) -> list[Dim]:
        """:return: the dims which count as frames: batch, and all with sequences of different lengths"""
        return [d for d in self._with_frames().dims if d.is_batch_dim() or d.is_beam_dim() or d.is_dynamic_seq_length()]

    def _dims_that_count(self) -> list[Dim]:
        """:return: the dims by whose frames a sum becomes a mean: those, and a time dim of fixed size"""
        dims = self.dims_of_frames()
        frames = self._with_frames()
        time_dim = frames.get_time_dim_tag() if dims and frames.have_time_axis() else None
        return dims if time_dim is None or time_dim in dims else [*dims, time_dim]

    def _with_frames(self) -> Tensor:
        """:return: the tensor whose frames count"""
        return self.output

    # Raw tensors, for loss classes of users.

    @property
    def loss_norm_factor(self) -> Any:
        """Same as `get_normalization_factor()`."""
        return self.get_normalization_factor()

    @property
    def output_seq_lens(self) -> Any:
        """Raw lengths (B,) of the output."""
        return self.output.get_sequence_lengths()

    @property
    def target_seq_lens(self) -> Any:
        """Raw lengths (B,) of the target."""
        assert self.target is not None
        return self.target.get_sequence_lengths()

    @cached_property
    def _flat(self) -> dict[str, Any]:
        flat: dict[str, Any] = {"output": self._flatten(self.output)}
        if self.target is not None:
            flat["target"] = self._flatten(self.target)
        act = self.output_with_activation
        if act is not None and act.x is not None:
            before = self.output.copy_template()
            before.raw_tensor = act.x
            flat["before"] = self._flatten(before)
        return flat

    @property
    def output_flat(self) -> Any:
        """Raw output: (number of valid frames, F)."""
        return self._flat["output"]

    @property
    def target_flat(self) -> Any:
        """Raw target: (number of valid frames,), or (number of valid frames, F)."""
        return self._flat.get("target")

    @property
    def output_before_softmax_flat(self) -> Any:
        """Raw output before its activation function: (number of valid frames, F)."""
        return self._flat.get("before")

    def _flatten(self, x: Tensor) -> Any:
        """:return: raw, with the frames in the order of those of the output, whatever the order of axes is"""
        frames = [dim for dim in self.dims_of_frames() if dim in x.dims]
        x = x.copy_transpose([*frames, *(dim for dim in x.dims if dim not in frames)])
        if not self.use_flatten_frames:
            return x.copy_as_bt_or_tb_major().raw_tensor if x.have_time_axis() else x.raw_tensor
        return x.get_placeholder_flattened()

    def unflattened(self, raw: Any) -> Tensor:
        """:return: one value per frame, from a raw tensor with all valid frames in one axis"""
        dims = sorted(self.dims_of_frames(), key=lambda dim: not dim.is_batch_dim())  # as they are flattened
        packed = Dim(None, name="frames", kind=Dim.Types.Batch)
        values = Tensor("loss", dims=[packed], dtype="float32", raw_tensor=raw)
        masks = [dim.get_mask(dim_order=dims) for dim in dims if dim.need_masking()]
        if not masks:
            return Tensor(
                "loss", dims=dims, dtype="float32", raw_tensor=tf.reshape(raw, [d.get_dim_value() for d in dims])
            )
        return rf.masked_scatter(values, mask=masks[0], dims=dims, in_dim=packed)

    def with_reduce_func(self, reduce_func: Callable[[Any], Any] | None) -> Loss:
        """Sets what sums up the frames, and returns itself."""
        self._reduce_func = reduce_func
        return self


def make_loss(loss_class: type[Loss], options: Mapping[str, Any], *, network: Network, where: str) -> Loss:
    """
    :param loss_class: class of the loss
    :param options: as in `loss_opts`, with layers in place of their names
    :param network: the network that the layer is in
    :param where: how an error message begins
    :raises ConfigError: if there is no such option, or a required one is missing
    """
    known = options_of(loss_class)  # type: ignore[arg-type]  # mypy takes `__hash__` of the class for its own
    where = f"{where}: loss {loss_class.class_name!r}"
    for name in options:
        if name not in known:
            hint = nearest_hint(name, [option for option in known if not option.startswith("_")])
            raise ConfigError(f"{where}: there is no option {name!r}.\n  {hint}")
        known[name].check(options[name], where=where)
    missing = [name for name, o in known.items() if o.is_required and name not in (*options, "self", "base_network")]
    if missing:
        raise ConfigError(f"{where}: the option {missing[0]!r} is required, in 'loss_opts'.")
    return loss_class(base_network=network, **options)


def _label_of_each_frame(target: Tensor, output: Tensor, layer: LayerTargets | None, where: str) -> Tensor:
    """
    A layer of a time step can have a whole sequence in each frame, as a copy of data from outside of the loop does. As
    target of frames, it has one label for each of them, whether that layer was moved out of the loop or not.

    :return: target without the dim of that sequence
    :raises ConfigError: if it has sequences, the output has none, and it is in no loop
    """
    own = [d for d in target.dims if d not in output.dims and d.is_dynamic_seq_length()]
    loop_dim = None if layer is None else layer.network.get_inside_rec_time_dim(inside_loop=False)
    frames = [d for d in output.dims if d.is_dynamic_seq_length() and not d.is_batch_dim() and d not in target.dims]
    if not own or frames:
        return target  # then it is known which dims belong together, or it is said elsewhere
    if loop_dim is None or len(own) > 1:
        raise ConfigError(
            f"{where}: the target {target} has sequences over {own[0]}, the output {output} has none.\n"
            "  For one label of each sequence, reduce the target, or use one layer with frames in both."
        )
    is_frame = loop_dim not in output.dims
    index = layer.network.get_rec_step_info().index if is_frame else rf.range_over_dim(loop_dim)
    target = with_lengths_of(target, own[0], loop_dim, where=where)
    return rf.gather(target, indices=index, axis=own[0], clip_to_valid=True)


def _with_feature_of(target: Tensor, output: Tensor) -> Tensor:
    """:return: target with the feature dim of the output, if it has the same size"""
    own, axis = target.feature_dim_or_sparse_dim, output.feature_dim
    if own is None or axis is None or own == axis or own.dimension != axis.dimension or axis in target.dims:
        return target
    if target.sparse:
        return rf.set_sparse_dim(target, axis)
    return rf.replace_dim(target, in_dim=own, out_dim=axis)[0]


def _with_batch_of(target: Tensor, output: Tensor, where: str) -> Tensor:
    """
    :return: target with the batch of the output: repeated for each hypothesis, if that has several for each sequence.
        Batches of the frames of all sequences, made of data of two keys, are as long as each other.
    """
    if not (output.have_batch_axis() and target.have_batch_axis()):
        return target
    batch, merged = target.get_batch_dim_tag(), output.get_batch_dim_tag()
    if batch in output.dims or merged in target.dims:
        return target
    if batch not in merged.axis_split_info():
        return rf.replace_dim(with_lengths_of(target, batch, merged, where=where), in_dim=batch, out_dim=merged)[0]
    num = merged.get_dim_value_tensor() // batch.get_dim_value_tensor()
    index = rf.combine_bc(rf.range_over_dim(merged), "//", num).copy_with_roles(sparse_dim=batch)
    repeated = rf.gather(target, indices=index, axis=batch)
    for dim in [dim for dim in repeated.dims if dim.need_masking()]:
        lengths = dim.get_size_tensor()
        if batch in lengths.dims:
            new = Dim(rf.gather(lengths, indices=index, axis=batch), name=dim.name)
            repeated, _ = rf.replace_dim(repeated, in_dim=dim, out_dim=new)
    return repeated


def _has_own_lengths(value: Tensor) -> bool:
    """:return: whether it is known which frames are padded; not if lengths are those of sequences that are not there"""
    masked = [dim.get_size_tensor() for dim in value.dims if dim.need_masking() and dim.is_dim_known()]
    return all(dim in value.dims for lengths in masked for dim in lengths.dims)
