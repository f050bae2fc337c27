"""Parametrizations which regularize: dropout and noise on weights, in training."""

from __future__ import annotations

from returnn.frontend.cond import cond
from returnn.frontend.dropout import dropout
from returnn.frontend.module import Module
from returnn.frontend.parametrize import register_parametrization
from returnn.frontend.rand import random_normal
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Tensor


def weight_dropout(module: Module, param_name: str, *, drop_prob: float) -> Module:
    """
    Dropout on a weight (Wan et al. 2013, "Regularization of Neural Networks using DropConnect").

    :param module: has the parameter
    :param param_name: name of the attribute
    :param drop_prob: in [0, 1)
    :return: the module
    """
    return register_parametrization(module, param_name, WeightDropout(drop_prob))


def weight_noise(module: Module, param_name: str, *, std: float) -> Module:
    """
    Noise on a weight (Graves 2011, "Practical Variational Inference for Neural Networks").

    :param module: has the parameter
    :param param_name: name of the attribute
    :param std: standard deviation
    :return: the module
    """
    return register_parametrization(module, param_name, WeightNoise(std))


class WeightDropout:
    """See `weight_dropout`."""

    def __init__(self, drop_prob: float) -> None:
        """:param drop_prob: in [0, 1)"""
        self.drop_prob = drop_prob

    def __call__(self, param: Tensor) -> Tensor:
        """:return: param, in training with dropout"""
        return dropout(param, self.drop_prob, axis=list(param.dims))


class WeightNoise:
    """See `weight_noise`."""

    def __init__(self, std: float) -> None:
        """:param std: standard deviation"""
        self.std = std

    def __call__(self, param: Tensor) -> Tensor:
        """:return: param, in training with noise"""

        def noisy() -> Tensor:
            return param + random_normal(param.dims, dtype=param.dtype, stddev=self.std)

        train_flag = get_run_ctx().is_train_flag_enabled(func=WeightNoise.__call__)
        return cond(train_flag, noisy, lambda: param.copy())


__all__ = ["WeightDropout", "WeightNoise", "weight_dropout", "weight_noise"]
