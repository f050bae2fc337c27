"""What happens to a gradient before the update: the options, from the config and from `updater_opts` of a layer."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields, replace

from returnn.config import Config
from returnn.config.options import Options
from returnn.util.errors import ConfigError, check_known

LAYER_UPDATER_OPTIONS = (
    "accum_grad_multiple_step",
    "debug_grad_summaries",
    "global_norm_tag",
    "grad_norm_to_clip_to_zero",
    "gradient_clip",
    "gradient_clip_avg_norm",
    "gradient_clip_global_norm",
    "gradient_clip_global_norm_tag",
    "gradient_clip_norm",
    "gradient_nan_inf_filter",
    "gradient_noise",
    "maximize_grad_norm",
    "optimizer",
    "tags",
)


@dataclass(frozen=True)
class GradientOptions:
    """
    Numbers of 0 are switched off.

    :param maximize_grad_norm: adds the gradient of `-maximize_grad_norm * norm`, with the norm of all gradients
    :param gradient_nan_inf_filter: entries that are not finite become 0
    :param accum_grad_multiple_step: update once in so many steps, with the sum of their gradients
    :param gradient_noise: standard deviation of the noise that is added (normal, cut off at two of them)
    :param gradient_clip: largest absolute value of an entry
    :param gradient_clip_norm: largest L2 norm of the gradient of a variable
    :param gradient_clip_avg_norm: the same for the L2 norm divided by the number of entries
    :param gradient_clip_global_norm: largest L2 norm of all gradients together
    :param grad_norm_to_clip_to_zero: gradients are 0 in a step where the L2 norm of all together is above
    :param global_norm_tag: take norms of all gradients together over the variables with this tag alone (`tags`)
    :param gradient_clip_global_norm_tag: the same, for `gradient_clip_global_norm` alone
    :param debug_grad_summaries: write the norm, the largest entry and a histogram of each gradient as summary
    """

    maximize_grad_norm: float = Options.maximize_grad_norm.default
    gradient_nan_inf_filter: bool = Options.gradient_nan_inf_filter.default
    accum_grad_multiple_step: int = Options.accum_grad_multiple_step.default
    gradient_noise: float = Options.gradient_noise.default
    gradient_clip: float = Options.gradient_clip.default
    gradient_clip_norm: float = Options.gradient_clip_norm.default
    gradient_clip_avg_norm: float = Options.gradient_clip_avg_norm.default
    gradient_clip_global_norm: float = Options.gradient_clip_global_norm.default
    grad_norm_to_clip_to_zero: float = Options.grad_norm_to_clip_to_zero.default
    global_norm_tag: str | None = None
    gradient_clip_global_norm_tag: str | None = None
    debug_grad_summaries: bool = False

    @classmethod
    def from_config(cls, config: Config, base: GradientOptions | None = None) -> GradientOptions:
        """
        :param config: options by name
        :param base: holds where the config has nothing
        :raises ConfigError: if a number is below 0, or a function
        """
        given = {
            field.name: getattr(config.options, field.name)
            for field in fields(cls)
            if base is None or config.has(field.name)
        }
        if callable(given.get("accum_grad_multiple_step")):
            raise ConfigError(
                "option 'accum_grad_multiple_step': with TensorFlow, it has to be a number.\n"
                "  A function is possible with PyTorch."
            )
        if "global_norm_tag" in given and base is not None and not base.gradient_clip_global_norm_tag:
            given["gradient_clip_global_norm_tag"] = config.options.gradient_clip_global_norm_tag
        return replace(base or cls(), **given)

    def num_accum_steps(self) -> int:
        """:return: at least 1"""
        return max(self.accum_grad_multiple_step, 1)


@dataclass(frozen=True)
class VariableOptions:
    """What holds for one variable. `optimizer` and `tags` come from `updater_opts` of its layer alone."""

    gradient: GradientOptions
    optimizer: object = None  # as the option `optimizer` of the config; None: the default one
    tags: tuple[str, ...] = ()
    where: str = "config"


def options_of_layer(updater_opts: Mapping[str, object], base: GradientOptions, *, layer: str) -> VariableOptions:
    """
    :param updater_opts: of the layer
    :param base: from the config
    :param layer: name, for error messages
    :raises ConfigError: if there is no such option
    """
    where = f"layer {layer!r}: updater_opts"
    for name in updater_opts:
        check_known("option", name, LAYER_UPDATER_OPTIONS, where=where)
    try:
        gradient = GradientOptions.from_config(Config(updater_opts), base)
    except ConfigError as exc:
        raise ConfigError(f"{where}: {exc}") from exc
    tags = updater_opts.get("tags", ())
    return VariableOptions(
        gradient=gradient,
        optimizer=updater_opts.get("optimizer"),
        tags=(tags,) if isinstance(tags, str) else tuple(tags),
        where=where,
    )


def check_tag(tag: str, known: Collection[str], *, option: str) -> None:
    """:raises ConfigError: if no layer has that tag"""
    check_known("tag", tag, known, where=f"option {option!r}")
