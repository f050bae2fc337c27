"""Options of optimizers with PyTorch that are not those of `torch.optim`, declared without it, for `--help`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any


class OwnOptions:
    """
    Options of all optimizers, beside those of the class.

    With `weight_decay` in the dict, biases, and the parameters of the modules in `weight_decay_modules_blacklist`, get
    none. Without it, all parameters get what the class has as its default, e.g. 0.01 for AdamW.
    """

    def __init__(
        self,
        weight_decay_modules_blacklist: Sequence[str | type] | None = None,
        learning_rate_multiplier: float = 1.0,
        learning_rate_multipliers_by_patterns: Mapping[str, float] | None = None,
        param_groups_custom: Callable[..., list[dict[str, Any]]] | None = None,
        weight_decay_custom_include_check: Callable[..., bool | None] | None = None,
    ) -> None:
        """
        :param weight_decay_modules_blacklist: modules whose own parameters get none of the `weight_decay` in the dict:
            classes, or their names, e.g. `["rf.Embedding", "torch.nn.LayerNorm"]`. By default, these are embeddings
            and normalizations (layer, batch, group, RMS), of `rf` and of `torch.nn`. Biases never get any. Without
            `weight_decay` in the dict, it is not used
        :param learning_rate_multiplier: factor of the learning rate
        :param learning_rate_multipliers_by_patterns: further factors for some parameters: pattern of their names, as
            `"encoder.*"`, to factor; the first pattern that fits counts
        :param param_groups_custom: a function `(*, model, rf_model, optimizer_class, optimizer_opts, **kwargs)` that
            returns the groups of parameters, in place of the blacklist and the patterns: dicts with `params` and
            options for these, such as `weight_decay` or `learning_rate_multiplier`. What is in no group is not
            trained. `rf_model` is None for a model of PyTorch itself
        :param weight_decay_custom_include_check: a function `(*, module, rf_module, full_param_name, param_name,
            **kwargs)`, asked for each parameter before the blacklist: whether it gets weight decay; None where the
            blacklist decides
        """
        self.weight_decay_modules_blacklist = weight_decay_modules_blacklist
        self.learning_rate_multiplier = learning_rate_multiplier
        self.learning_rate_multipliers_by_patterns = learning_rate_multipliers_by_patterns
        self.param_groups_custom = param_groups_custom
        self.weight_decay_custom_include_check = weight_decay_custom_include_check
