"""Layer classes and options that net dicts had once: what they are today, or what to write instead."""

from __future__ import annotations

from typing import Any

from returnn.util.errors import ConfigError

_OWN_FUNCTION = "a function of the config in a layer 'eval', or a layer class of its own, computes it"

_INSTEAD_OF_CLASS = {
    "allophone_state_idx_parser": "'eval' with `//` and `%` splits an index; or a layer class of your own",
    "associative_lstm": "'rec' with another unit, as 'nativelstm2'",
    "downsample": "'pool', with 'pool_size' for the factor and 'mode' for the method",
    "fast_bw_factored": _OWN_FUNCTION,
    "gauss_weighting": "'gauss_window_attention' weights the frames around a location",
    "hmm_factorization": _OWN_FUNCTION,
    "name_axis": "'reinterpret_data' with 'set_dim_tags' gives an axis a dim with another name",
    "neural_transducer": "a 'rec' with 'masked_computation' and 'unmask' in its subnetwork is a transducer",
    "official_resnet": "'conv', 'batch_norm', 'activation', 'combine' (kind \"add\") and 'pool' are its blocks",
    "sampled_logits": "the loss 'sampling_loss' of a layer 'linear' takes the logits of some labels alone",
    "sampling": "'choice' takes labels; 'rand_int' and 'random' make random numbers",
    "self_attention_share_kv": "'linear' for keys and values, 'cum_concat', 'dot', 'softmax_over_spatial', 'dot'",
}

_PRIORS = "a layer 'accumulate_mean' from this one has the mean of its output"
_INSTEAD_OF_OPTION = {
    **{("softmax", name): _PRIORS for name in ("compute_priors", "compute_priors_exp_average", "output_path")},
    ("softmax", "sprint_opts"): "it goes into 'loss_opts', of the loss 'sprint'",
    ("softmax", "ce_smoothing"): "a second layer with the loss 'ce'; 'loss_scale' says how much each of them counts",
    ("softmax", "loss_like_ce"): (
        "leave it out: it said what is shown. With the loss 'via_layer', that is the loss of 'error_signal_layer'"
    ),
    ("batch_norm", "axes"): "leave it out: the mean is over all axes but the one of the features",
    ("rec", "sampling"): "'choice' in a subnetwork takes labels at random, with 'random_sample_scale'",
    ("unmask", "skip_initial"): (
        "leave it out: the first frame that is left is the first one that is repeated, if the mask begins with it"
    ),
}

# How it was computed on a GPU. The values are the same.
_NEEDLESS_OPTIONS = {"batch_norm": ("fused", "fused_bn")}


def install(past: Any) -> None:
    """
    :param past: `returnn.tf.layers.options.past.PAST`, to which they are added
    """
    past.instead_of_class.update(_INSTEAD_OF_CLASS)
    past.instead_of_option.update(_INSTEAD_OF_OPTION)
    past.renamed_classes.update({"reverse_sequence": "slice", "upsample": "resize"})
    past.translations.update({"reverse_sequence": _as_slice, "upsample": _as_resize})
    past.translations.update(dict.fromkeys(_NEEDLESS_OPTIONS, _without_needless_options))


def _as_slice(desc: dict[str, Any]) -> dict[str, Any]:
    """Each sequence from its last frame to the first."""
    return {"axis": "T", **desc, "class": "slice", "slice_step": -1}


def _as_resize(desc: dict[str, Any]) -> dict[str, Any]:
    """Each frame `factor` times."""
    if desc.get("time_like_last_source"):
        raise ConfigError(
            "option 'time_like_last_source' is no more.\n"
            "  Behind the layer, write 'reinterpret_data' with 'size_base', the layer with the lengths."
        )
    desc.pop("time_like_last_source", None)
    return {"axis": "T", **desc, "class": "resize", "kind": "nn"}


def _without_needless_options(desc: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in desc.items() if name not in _NEEDLESS_OPTIONS[desc["class"]]}
