"""
Batch normalization (Ioffe & Szegedy 2015), for each entry of the feature dim, over all other dims.

The running mean and variance are parameters which no gradient changes. The names and shapes of the parameters have
changed over the years, see `param_version`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.tensor import Tensor
from returnn.tf.frontend_low_level import side_effects
from returnn.tf.layers.core.floors.layer_rec import LayerRec
from returnn.tf.layers.core.mean_of_frames import keep_for_mean, mean_of_frames
from returnn.tf.layers.core.reuse_params import variable_to_change
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.errors import ConfigError
from returnn.util.not_specified import NotSpecified

Unset = type[NotSpecified]


class LayerBatchNorm(LayerRec):
    """The part of `LayerBase` about batch normalization."""

    def batch_normalized(
        self,
        data: Tensor,
        use_shift: bool = True,
        use_std: bool = True,
        use_sample: float = 0.0,
        force_sample: bool = False,
        momentum: float | Unset = NotSpecified,
        epsilon: float = 1e-3,
        update_sample_only_in_training: bool | Unset = NotSpecified,
        delay_sample_update: bool | Unset = NotSpecified,
        param_version: int | Unset = NotSpecified,
        gamma_init: Any = 1.0,
        beta_init: Any = 0.0,
        masked_time: bool | Unset = NotSpecified,
    ) -> Tensor:
        """
        :param data: [..., F]
        :param use_shift: whether there is a trained `beta` [F], which is added
        :param use_std: whether there is a trained `gamma` [F], which it is multiplied by
        :param use_sample: in training, use this much of the running mean and variance, and the rest from the batch
        :param force_sample: so also outside of training, where else there is only the running mean and variance
        :param momentum: how much of the batch goes into the running values. Default: 0.1; 0.99 before version 12
        :param epsilon: added to the variance
        :param update_sample_only_in_training: the running values change only then. Default: since behavior version 12
        :param delay_sample_update: they change after the step; otherwise before they are used. Default: since 12
        :param param_version: 0: names with those of the layer, shape (1, 1, F); 1: short names; 2: names with "v2_",
            shape (F,). Default: 2; 0 before behavior version 12
        :param gamma_init: initial value of `gamma`
        :param beta_init: initial value of `beta`
        :param masked_time: padded frames do not count. Has to be given since behavior version 12, before: True
        :return: [..., F], normalized
        """
        norm = _BatchNorm(
            layer=self,
            data=data,
            use_sample=use_sample,
            force_sample=force_sample,
            momentum=_default(momentum, 0.1, 0.99),
            epsilon=epsilon,
            only_in_training=_default(update_sample_only_in_training, True, False),
            delay=_default(delay_sample_update, True, False),
            version=_default(param_version, 2, 0),
            masked=_is_masked(self, data, masked_time),
        )
        norm.declare_update()
        output = norm.normalized()
        if use_std:
            output = output * norm.parameter("gamma", gamma_init)
        if use_shift:
            output = output + norm.parameter("beta", beta_init)
        return output.copy_transpose(data.dims)

    @functools.wraps(batch_normalized)
    def batch_norm(self, *args: Any, **options: Any) -> tf.Tensor:
        """:return: the same as raw tensor, as classes on raw tensors expect it"""
        with self.network.construction.compute_scope(self, "batch_norm"):
            return self.batch_normalized(*args, **options).raw_tensor

    def after_loop(self, totals: dict[str, Tensor]) -> None:
        """Changes the running mean and variance, by the mean over all frames of all loops."""
        super().after_loop(totals)
        for name in totals:
            variable = variable_to_change(self, name)
            if variable is None:
                continue
            new = mean_of_frames(totals, name, variable)
            assign = functools.partial(variable.assign, new, read_value=False)
            if tf.compat.v1.get_default_graph().building_function:
                side_effects.write(variable, assign)  # the condition around the loops sees to it that it runs
            else:
                self.network.register_post_control_dependencies([assign()])


@dataclass(frozen=True)
class _BatchNorm:
    """One use of batch normalization."""

    layer: LayerRec
    data: Tensor
    use_sample: float
    force_sample: bool
    momentum: float
    epsilon: float
    only_in_training: bool
    delay: bool
    version: int
    masked: bool

    def __post_init__(self) -> None:
        if self.version not in (0, 1, 2):
            raise ConfigError(f"{self.layer.where()}: 'param_version': {self.version}. Possible: 0, 1, 2.")
        if self.data.feature_dim is None:
            raise ConfigError(f"{self.layer.where()}: batch normalization needs a feature dim, {self.data} has none.")

    def normalized(self) -> Tensor:
        """:return: data, with mean 0 and variance 1"""
        running = [
            self.parameter(name, initial, trainable=False) for name, initial in (("mean", 0.0), ("variance", 1.0))
        ]
        in_training = rf.get_run_ctx().train_flag
        if self.only_in_training and in_training is False and not self.force_sample:
            mean, variance = running
        else:
            batch = self._mean_and_variance()
            running = self._updated(running, batch, in_training if self.only_in_training else True)
            share = self._share_of_running(in_training)
            mean, variance = (self._mixed(a, b, share) for a, b in zip(running, batch, strict=True))
        return (self.data - mean) * rf.rsqrt(variance + self.epsilon)

    def parameter(self, name: str, initial: Any, trainable: bool | None = None) -> Tensor:
        """:return: [F]: parameter of this name"""
        feature = self.data.feature_dim
        assert feature is not None
        if self.version == 2:
            return self.layer.parameter(
                self._full_name(name), [feature], initial=initial, trainable=trainable, noise=trainable is not False
            )
        own = [dim for dim in self.data.dims if not dim.is_beam_dim()]  # of a search, which has the same parameters
        dims = [dim if dim == feature else self.layer.new_dim(f"one{i}", 1) for i, dim in enumerate(own)]
        param = self.layer.parameter(
            self._full_name(name), dims, initial=initial, trainable=trainable, noise=trainable is not False
        )
        flat = Tensor(name, dims=[feature], dtype=param.dtype)
        if param.raw_tensor is not None:
            flat.raw_tensor = tf.reshape(param.raw_tensor, [feature.get_dim_value()])
        return flat

    def _full_name(self, name: str) -> str:
        own = self.layer.name.replace("/", "_")
        prefix = (f"{own}_{own}_output_", "", "v2_")[self.version]
        return f"batch_norm/{prefix}{name}"

    def _mean_and_variance(self) -> tuple[Tensor, Tensor]:
        axes = [dim for dim in self.data.dims if dim != self.data.feature_dim]
        mean = rf.reduce_mean(self.data, axis=axes, use_mask=self.masked)
        return mean, rf.reduce_mean(rf.squared_difference(self.data, mean), axis=axes, use_mask=self.masked)

    def _share_of_running(self, in_training: bool | Tensor) -> float | Tensor:
        """:return: how much the running mean and variance count: all outside of training"""
        if self.force_sample or in_training is True:
            return self.use_sample
        if in_training is False:
            return 1.0
        return rf.where(in_training, self.use_sample, 1.0)

    def _mixed(self, running: Tensor, batch: Tensor, share: float | Tensor) -> Tensor:
        if isinstance(share, Tensor) or 0 < share < 1:
            return running * share + batch * (1.0 - share)
        return running if share else batch

    def _updated(self, running: list[Tensor], batch: tuple[Tensor, Tensor], update: bool | Tensor) -> list[Tensor]:
        """:return: the running values to use; they are changed now, or after the step"""
        if update is False or running[0].raw_tensor is None:
            return running
        return [
            self._updated_one(r, b, update, name)
            for r, b, name in zip(running, batch, ("mean", "variance"), strict=True)
        ]

    def declare_update(self) -> None:
        """Says what a frame of a loop keeps, while dims are inferred."""
        train_flag = rf.get_run_ctx().train_flag
        if rf.get_selected_backend() == "template" and self._is_updated_in_loop(
            not self.only_in_training or train_flag
        ):
            feature = self.data.feature_dim
            assert feature is not None
            for name in ("mean", "variance"):
                template = Tensor(name, [feature], self.data.dtype)
                keep_for_mean(self.layer, self._full_name(name), template, source=self.data)

    def _is_updated_in_loop(self, update: bool | Tensor) -> bool:
        return update is not False and self.layer.is_inside()

    def _updated_one(self, running: Tensor, batch: Tensor, update: bool | Tensor, name: str) -> Tensor:
        new = running + rf.stop_gradient(batch - running) * self.momentum
        if isinstance(update, Tensor):
            new = rf.where(update, new, running)
        variable = self._variable(name)
        if self._is_updated_in_loop(update):
            keep_for_mean(self.layer, self._full_name(name), new, source=self.data)
            return running if self.delay else new

        def assign() -> tf.Operation:
            return variable.assign(tf.reshape(new.raw_tensor, variable.shape), read_value=False)

        if tf.compat.v1.get_default_graph().building_function:
            side_effects.write(variable, assign)  # the condition sees to it that it runs
            return running if self.delay else new
        changed = assign()
        self.layer.network.register_post_control_dependencies([changed])  # nothing may need the new value
        if self.delay:
            return running
        with tf.control_dependencies([changed]):
            new.raw_tensor = tf.identity(new.raw_tensor)
        return new

    def _variable(self, name: str) -> tf.Variable:
        full_name = self._full_name(name)
        variable = variable_to_change(self.layer, full_name)
        if variable is None:
            raise ConfigError(
                f"{self.layer.where()}: reuse_params: training changes {full_name!r}, so it has to come from a "
                "parameter, and not from values that are computed.\n"
                "  With 'layer_output', give a layer of class 'variable', with 'trainable': False."
            )
        return variable


def _default(given: Any, new: Any, old: Any) -> Any:
    if given is not NotSpecified:
        return given
    return new if BehaviorVersion.get() >= 12 else old


def _is_masked(layer: LayerRec, data: Tensor, given: bool | Unset) -> bool:
    if given is not NotSpecified:
        return bool(given)
    if any(dim.need_masking() for dim in data.dims):
        BehaviorVersion.require(
            False,
            f"{layer.where()}: batch normalization: 'masked_time' has to be given.\n"
            "  True: padded frames do not count; False: they do, as if they were frames of the sequence.",
            12,
        )
    return True
