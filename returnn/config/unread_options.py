"""
Options that the toolkit knows but does not read. A test holds that these are all, and no others.

Whoever makes the toolkit read one of them takes it off this list.
"""

from __future__ import annotations

# An error if set: without them, the run would be something else than what the config asks for.
UNSUPPORTED = {
    "use_horovod": "training in several processes is not there: each of them would train a model of its own",
    "distributed_tf": "training in several processes is not there: each of them would train a model of its own",
    "ctc_prior_file": "a layer has to subtract the prior, in the net dict",
    "combine_labels": "labels cannot be merged; a layer has to do that, in the net dict",
    "train_in_eval": "evaluation does not change parameters; use task 'train'",
    "update_batch_size": "updates come after each batch; 'accum_grad_multiple_step' lets them wait",
    "tf_amp": "computations are in the precision of their layers",
    "packed_batch_size": "sequences are padded, not packed",
}

# A warning of their own: results may be others than where they are obeyed.
_NOT_OBEYED = """
    eval_learning_rate exclude horovod_dataset_distribution horovod_param_sync_step horovod_param_sync_time_diff
    inf_value lm_dataset_debug_limit_line_count model_outputs
    rf_conformer_conv_norm_use_mask rf_module_output_keep_dtype rf_scatter_use_fixed_masking
    rf_specaugment_num_masks_per_seq search_train_network_layers seq_drop_freq sil_label_idx
    tf_native_ctc_zero_infinity
"""
NOT_OBEYED = frozenset(_NOT_OBEYED.split())

# They concern other backends and programs, old versions, or how fast something is.
_WITHOUT_EFFECT = """
    EnableAutoNumpySharedMemPickling PYTORCH_CUDA_ALLOC_CONF SprintInterfacePythonFeatureScorer
    allow_skipping_seqs_in_forward apply_cleanup_old_models_to_optim_states
    debug_rec_layer
    debug_shell_before_train_loop debug_shell_in_runner debug_shell_in_runner_step
    epoch_end epoch_start extract
    flat_net_construction forward_auto_split_batch_on_oom get_model grad_clip grad_scaler hidden_size ipython
    load_model_post_hooks onnx_export online_shuffle_batches packed_fallback_allowed patch_atfork
    reset_dev_memory_caches restart_after_num_net_reinit rf_native_opt rf_packed_att_fast_paths
    rf_packed_warn_regap share_batches sort_dataset sprint_interface_custom_dataset
    sprint_interface_dataset_opts stop_for_resubmission_safety_factor
    stop_for_resubmission_when_low_time_left tensorboard_opts tf_distributed tf_jit tf_profile
    tf_static_shapes torch_amp torch_cuda_graph torch_dataloader_opts torch_distributed
    torch_log_memory_usage torch_profile use_hot_reloading use_lovely_tensors use_tensorboard
    use_train_proc_manager watch_memory
"""
WITHOUT_EFFECT = frozenset(_WITHOUT_EFFECT.split())
