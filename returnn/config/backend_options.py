"""Which options are for which backends. Those that are not listed are for all."""

from __future__ import annotations

from collections.abc import Mapping

NET_DICT = "tensorflow-net-dict"
TENSORFLOW = "tensorflow"
TORCH = "torch"

_NETWORK = (
    "network", "get_network", "init_new_network_callback", "reinit_network_each_epoch", "conv_pad_seq_len_to_power",
    "param_dropout", "param_dropout_min_ndim", "param_variational_noise", "tf_native_ctc_zero_infinity",
    "restart_after_num_net_reinit", "pretrain", "pretrain_repetitions", "pretrain_construction_algo",
    "pretrain_copy_output_layer", "pretrain_greedy", "pretrain_learning_rate", "search_train_network_layers",
    "search_do_eval", "search_depends_on_batch", "search_shrinks_batch", "forward_use_search",
    "dataset_pipeline", "extra_updates", "global_norm_tag",
    "gradient_clip_global_norm_tag", "reset_updater_vars_mod_step", "store_metadata_mod_step", "store_tf_profile",
    "tf_run_options", "wrap_tf_session",
    "debug_print_layer_output", "debug_print_layer_output_shape", "debug_print_layer_output_template",
    "debug_runtime_sanity_checks", "debug_add_check_numerics_on_output", "debug_grad_summaries",
    "debug_objective_loss_summaries", "debug_unnormalized_loss_summaries", "debug_rec_layer", "debug_shell_in_runner",
    "explain_file", "explain_mode",
    "tf_log_memory_usage", "optimize_move_layers_out",
    "debug_shell_in_runner_step",
)  # fmt: skip
_GRAPH = (
    "tf_session_opts", "momentum", "adam", "nadam", "adadelta", "adagrad", "rmsprop",
    "optimizer_epsilon", "optimizer_use_locking", "maximize_grad_norm", "debug_add_check_numerics_ops",
    "debug_save_updater_vars", "tf_amp", "tf_jit", "distributed_tf", "use_horovod", "horovod_reduce_type",
    "horovod_dataset_distribution", "horovod_avg_grad", "horovod_scale_lr", "horovod_param_sync_step",
    "horovod_param_sync_time_diff",
)  # fmt: skip
_FUNCTIONS = ("get_model", "train_step", "forward_step", "model_outputs")
_MODEL = (
    "use_tensorboard",
    "forward_auto_split_batch_on_oom",
)
_TORCH = (
    "torch_amp", "torch_compile", "torch_distributed", "torch_dataloader_opts", "torch_checkpoint_format",
    "torch_log_memory_usage", "torch_profile", "reset_dev_memory_caches", "load_model_post_hooks",
    "apply_cleanup_old_models_to_optim_states", "num_allowed_consec_invalid_gradient_steps",
)  # fmt: skip

BACKENDS_OF: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(_NETWORK, (NET_DICT,)),
    **dict.fromkeys(_GRAPH, (NET_DICT, TENSORFLOW)),
    **dict.fromkeys(_FUNCTIONS, (NET_DICT, TORCH, TENSORFLOW)),
    **dict.fromkeys(_MODEL, (TORCH, TENSORFLOW)),
    **dict.fromkeys(_TORCH, (TORCH,)),
}

# How a run is watched, and where it runs. Settings that are shared by configs of several backends have them.
CHANGE_NO_RESULT = frozenset({
    "reset_dev_memory_caches", "store_metadata_mod_step", "store_tf_profile", "tf_log_memory_usage", "tf_run_options",
    "tf_session_opts", "torch_log_memory_usage", "torch_profile", "use_tensorboard",
})  # fmt: skip

_INSTEAD: Mapping[str, str] = {
    "torch_distributed": "'distributed_tf' does it",
    "torch_amp": "'tf_amp' does it",
    "torch_compile": "'tf_jit' does it",
    "torch_dataloader_opts": "'tf_data_provider_capacity' says how many batches are prepared ahead",
    "torch_log_memory_usage": "'tf_log_memory_usage' does it",
    "torch_profile": "'store_tf_profile' does it",
    "use_tensorboard": "summaries for TensorBoard are written to the folder 'tf_log_dir'",
    "forward_auto_split_batch_on_oom": "'forward_batch_size' limits the size of batches",
    "load_model_post_hooks": "'init_new_network_callback' is called when the network has its parameters",
}


def fits_backend(name: str, backend: str | None) -> bool:
    """
    :param name: of an option
    :param backend: option `backend`
    :return: whether the backend reads it
    """
    return (backend or NET_DICT) in BACKENDS_OF.get(name, (backend or NET_DICT,))


def wrong_backend_text(name: str, backend: str | None) -> str:
    """
    :param name: of an option which the backend does not read
    :param backend: option `backend`
    :return: a line that says what to do
    """
    return f"option {name!r} is not supported: {_for_which(name, backend)}."


def no_effect_text(name: str, backend: str | None) -> str:
    """
    :param name: one of `CHANGE_NO_RESULT` which the backend does not read
    :param backend: option `backend`
    :return: a line for a warning
    """
    return f"option {name!r} has no effect: {_for_which(name, backend)}."


def _for_which(name: str, backend: str | None) -> str:
    wanted = " or ".join(map(repr, BACKENDS_OF[name]))
    instead = _INSTEAD.get(name, "") if (backend or NET_DICT) == NET_DICT else ""
    return f"it is for backend = {wanted}, and this one is {backend or NET_DICT!r}{f'; {instead}' if instead else ''}"
