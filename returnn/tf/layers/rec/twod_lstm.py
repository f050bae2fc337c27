"""`TwoDLSTMLayer`: LSTM over the frames of a source and of a target."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Dim, Tensor
from returnn.tf.frontend_low_level.kernels.twod_lstm_scan import POOLINGS, pool_source_axis, twod_lstm_scan
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.rec.units.sequence_frames import common_dims
from returnn.util.errors import ConfigError, check_known

STATE_NAMES = ("c", "h")  # of each source frame


class TwoDLSTMLayer(LayerBase):
    """
    LSTM over two axes: each target frame goes over all source frames, and sees what the one before it saw there. See
    `returnn.tf.frontend_low_level.kernels.twod_lstm_scan`.

    Two sources: source [S, ..., F_s], and target [T, ..., F_t], or one frame of it inside of a loop. Output
    [T, ..., F], pooled over the source. Parameters `W` [F_s + F_t, 5 F], `b` [5 F], and the recurrent `V_h` along the
    source and `V_v` along the target, [F, 5 F].
    """

    layer_class = "twod_lstm"
    recurrent = True

    def __init__(
        self,
        pooling: str = "last",
        unit_opts: dict[str, Any] | None = None,
        forward_weights_init: Any = None,
        recurrent_weights_init: Any = None,
        bias_init: Any = None,
        **kwargs: Any,
    ) -> None:
        """
        :param pooling: how a target frame becomes one vector: "last" source frame, "max" or "avg" over all of them
        :param unit_opts: options of the unit, of which there are none
        :param forward_weights_init: initial value of `W`
        :param recurrent_weights_init: initial value of `V_h` and `V_v`
        :param bias_init: initial value of `b`
        """
        super().__init__(**kwargs)
        self.pooling = pooling
        self.forward_weights_init = forward_weights_init or "glorot_uniform"
        self.recurrent_weights_init = recurrent_weights_init or "glorot_uniform"
        self.bias_init = 0.0 if bias_init is None else bias_init
        check_known("pooling", pooling, POOLINGS, where=self.where())
        if unit_opts:
            raise ConfigError(f"{self.where()}: option 'unit_opts': there is no option {next(iter(unit_opts))!r}.")
        if len(self.sources) != 2:
            raise ConfigError(f"{self.where()}: two sources are needed, source and target; got {len(self.sources)}.")

    def compute(self, source: Tensor, target: Tensor) -> Tensor:
        """:return: [T, ..., F]"""
        out_dim = self.output_feature_dim()
        source_dim = self._source_dim(source)
        target_dim, is_frame = self.sequence_dim_of(target, "T")
        inner = [source_dim, target_dim, source.feature_dim, target.feature_dim]
        others = common_dims([source, target], without=inner)
        weights = self._parameters(source.feature_dim, target.feature_dim, out_dim)
        row = Tensor("row", dims=[source_dim, *others, out_dim], dtype=source.dtype, feature_dim=out_dim)
        before = [self.previous_state(key, row) for key in STATE_NAMES] if is_frame else None
        dims = [*others, out_dim] if is_frame else [target_dim, *others, out_dim]
        out = Tensor("output", dims=dims, dtype=source.dtype, feature_dim=out_dim)
        if rf.get_selected_backend() == "template":
            new = {key: row.copy_template() for key in STATE_NAMES}
        else:
            source_rows = _rows(source, source_dim, others)
            target_rows = _rows(target, None if is_frame else target_dim, others)
            zeros = tf.zeros(tf.stack([*tf.unstack(tf.shape(source_rows)[:2]), out_dim.dimension]), source_rows.dtype)
            c0, h0 = (_rows(x, source_dim, others) for x in before) if before else (zeros, zeros)
            c, h = twod_lstm_scan(**self._projected(source_rows, target_rows, weights), c=c0, h=h0)
            pooled = pool_source_axis(h, self._mask(source_dim, others, source_rows), self.pooling)
            out.raw_tensor = _split(pooled[0] if is_frame else pooled, out.dims)
            new = {}
            for key, value in (("c", c), ("h", h)):
                new[key] = row.copy_template()
                new[key].raw_tensor = _split(value[-1], row.dims)
        for key, value in new.items() if is_frame else ():
            self.new_state(key, value)
        return out

    # Documented helpers.

    @classmethod
    def helper_extra_outputs(cls, batch_dim: Any, src_length: Any, features: Any) -> dict[str, Any]:
        """
        :param batch_dim: raw size of the batch, with the beam
        :param src_length: raw number of source frames, of the longest sequence
        :param features: size of the output
        :return: "c" and "h": raw state before the first target frame, (S, B, F) each
        """
        shape = [src_length, batch_dim, features]
        return {key: tf.zeros(shape, rf.get_default_float_dtype()) for key in STATE_NAMES}

    @classmethod
    def get_rec_initial_extra_outputs(
        cls, batch_dim: Any, n_out: int, sources: Sequence[LayerBase], **kwargs: Any
    ) -> dict[str, Any]:
        """:return: state before the first target frame, see `helper_extra_outputs`. The first source has its frames"""
        frames = sources[0].output.get_time_dim_tag().get_dim_value()
        return cls.helper_extra_outputs(batch_dim=batch_dim, src_length=frames, features=n_out)

    @classmethod
    def get_rec_initial_extra_outputs_shape_invariants(
        cls, rec_layer: Any, n_out: int, sources: Sequence[LayerBase], **kwargs: Any
    ) -> dict[str, Any]:
        """:return: shapes of the state, by name"""
        return {key: tf.TensorShape([None, None, n_out]) for key in STATE_NAMES}

    def _source_dim(self, source: Tensor) -> Dim:
        loop = self.network.get_inside_rec_time_dim(inside_loop=False)
        dims = [dim for dim in source.dims if dim.kind in (Dim.Types.Spatial, None) and dim != loop]
        if len(dims) != 1:
            raise ConfigError(f"{self.where()}: the first source has to have one time dim of its own, not {source}.")
        return dims[0]

    def _parameters(self, source: Dim | None, target: Dim | None, out_dim: Dim) -> dict[str, Tensor]:
        """:return: by name"""
        if source is None or target is None:
            raise ConfigError(f"{self.where()}: both sources need a feature dim.")
        sizes = [dim.dimension for dim in (source, target)]
        both = self.new_dim("in", sum(sizes), kind=Dim.Types.Feature, auto_generated=False)
        gates = self.new_dim("gates", 5 * out_dim.dimension, kind=Dim.Types.Feature, auto_generated=False)
        return {
            "W": self.parameter("W", [both, gates], initial=self.forward_weights_init),
            "b": self.parameter("b", [gates], initial=self.bias_init),
            "V_h": self.parameter("V_h", [out_dim, gates], initial=self.recurrent_weights_init),
            "V_v": self.parameter("V_v", [out_dim, gates], initial=self.recurrent_weights_init),
        }

    def _projected(self, source: tf.Tensor, target: tf.Tensor, weights: dict[str, Tensor]) -> dict[str, tf.Tensor]:
        """:return: arguments of `twod_lstm_scan`"""
        raw = {name: value.raw_tensor for name, value in weights.items()}
        for_source, for_target = tf.split(raw["W"], [source.shape[-1], target.shape[-1]])
        return {
            "source": tf.tensordot(source, for_source, 1) + raw["b"],
            "target": tf.tensordot(target, for_target, 1),
            "weights_h": raw["V_h"],
            "weights_v": raw["V_v"],
        }

    @staticmethod
    def _mask(source_dim: Dim, others: Sequence[Dim], rows: tf.Tensor) -> tf.Tensor:
        """:return: (S, N), 1 for frames of the source"""
        if not source_dim.need_masking():
            return tf.ones(tf.shape(rows)[:2], rows.dtype)
        mask = source_dim.get_mask(dim_order=[source_dim, *others])
        raw = mask.copy_compatible_to_dims_raw([source_dim, *others], unbroadcast=True)
        return tf.reshape(tf.cast(raw, rows.dtype), tf.shape(rows)[:2])


def _rows(x: Tensor, axis: Dim | None, others: Sequence[Dim]) -> tf.Tensor:
    """:return: (axis, N, F); axis of size 1 if there is none. Padded frames are 0"""
    if axis is not None and axis not in x.dims:
        x = rf.expand_dim(x, axis)
    if axis is not None and axis.need_masking():
        x = x.copy_masked(0, dims=[axis])
    first = [] if axis is None else [axis]
    raw = x.copy_compatible_to_dims_raw([*first, *others, x.feature_dim], unbroadcast=True)
    size = 1 if axis is None else axis.get_dim_value()
    return tf.ensure_shape(tf.reshape(raw, [size, -1, x.feature_dim.dimension]), [None, None, x.feature_dim.dimension])


def _split(raw: tf.Tensor, dims: Sequence[Dim]) -> tf.Tensor:
    """:return: raw tensor with these axes"""
    return tf.reshape(raw, [dim.get_dim_value() for dim in dims])
