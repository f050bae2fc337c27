"""Documented path of `returnn.engine.run.hyper_param_tuning`."""

from returnn.engine.run.hyper_param_tuning import (
    Eps,
    HyperParam,
    Individual,
    Optimization,
    TrainException,
    hash_int,
    hash_obj,
    hash_seq,
    hash_str_djb2,
)

__all__ = [
    "Eps", "HyperParam", "Individual", "Optimization", "TrainException", "hash_int", "hash_obj", "hash_seq",
    "hash_str_djb2",
]  # fmt: skip
