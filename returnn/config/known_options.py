"""
The options that the toolkit knows, by theme.

A name that is not here may still be fine: configs define helper values of their own, and read them in their own
code. See `option_check`.
"""

from __future__ import annotations

_BY_THEME = {
    "the run": """
        EnableAutoNumpySharedMemPickling allow_skipping_seqs_in_forward allow_unknown_options
        behavior_version data_key device epoch extract file_cache_opts hyper_param_tuning patch_atfork
        startup_callback use_hot_reloading use_train_proc_manager web_server_port
    """,
    "log": """
        attention_plot learning_curve_file log log_batch_size log_format log_verbosity
    """,
    "data": """
        backend batch_size batching cache_size chunk_eval chunking chunking_variance context_window
        dataset_pipeline dev dummy_dataset_num_seqs enforce_min_len1 eval exclude extern_data inc_seq_length
        lm_dataset_debug_limit_line_count max_pad_size max_seq_length max_seqs max_total_num_seqs
        min_chunk_size min_seq_length need_data on_size_limit seq_drop seq_drop_freq share_batches
        shuffle_batches shuffle_frames_of_nseqs train train_dummy_dataset_num_seqs update_batch_size
        use_dummy_datasets use_tensorflow window
    """,
    "check, explain": """
        check_data explain_file explain_mode
    """,
    "network": """
        calculate_exp_loss conv_pad_seq_len_to_power default_input flat_net_construction get_model
        get_network inf_value loss loss_name network num_inputs num_outputs optimize_move_layers_out
        param_dropout param_dropout_min_ndim param_variational_noise random_seed sparse_input target task
        train_step
    """,
    "training": """
        check_unsupported_device dry_run init_new_network_callback init_train_epoch_posthook num_epochs
        reinit_network_each_epoch reset_updater_vars_mod_step restart_after_num_net_reinit sil_label_idx
        stop_for_resubmission_safety_factor stop_for_resubmission_when_low_time_left
        stop_on_nonfinite_train_score train_in_eval
    """,
    "updater": """
        accum_grad_multiple_step adadelta adagrad adam decouple_constraints decouple_constraints_factor
        deterministic_train extra_updates global_norm_tag grad_norm_to_clip_to_zero gradient_clip
        gradient_clip_avg_norm gradient_clip_global_norm gradient_clip_global_norm_tag gradient_clip_norm
        gradient_nan_inf_filter gradient_noise maximize_grad_norm momentum nadam optimizer optimizer_epsilon
        optimizer_use_locking rmsprop
    """,
    "learning rate": """
        check_learning_rates dynamic_learning_rate eval_learning_rate learning_rate learning_rate_control
        learning_rate_control_error_measure learning_rate_control_min_num_epochs_per_new_lr
        learning_rate_control_relative_error_relative_lr learning_rate_decay learning_rate_file
        learning_rate_growth learning_rates min_learning_rate newbob_error_threshold
        newbob_learning_rate_decay newbob_learning_rate_growth newbob_multi_num_epochs
        newbob_multi_update_interval newbob_relative_error_div_by_old newbob_relative_error_grow_threshold
        newbob_relative_error_threshold use_learning_rate_control_always
    """,
    "pretrain": """
        pretrain pretrain_construction_algo pretrain_copy_output_layer pretrain_greedy
        pretrain_learning_rate pretrain_repetitions
    """,
    "checkpoints": """
        allow_random_model_init cleanup_old_models import_model_train_epoch1 load load_epoch
        load_ignore_missing_vars model model_outputs preload_from_files save_epoch1_initial_model
        save_interval start_batch start_epoch use_last_best_model
    """,
    "evaluation, search, forward": """
        analyze_dataset combine_labels ctc_prior_file eval_batch_size eval_datasets eval_output_file
        eval_output_file_per_seq eval_use_train_flag forward_batch_size forward_callback forward_data
        forward_output_layer forward_override_hdf_output forward_step forward_use_search output_file
        output_per_seq_file_format output_per_seq_format search_data search_do_eval search_metrics
        search_output_file search_output_file_format search_output_layer search_train_network_layers statistics
        statistics_dtype statistics_save_prefix
    """,
    "TensorFlow": """
        store_metadata_mod_step store_tf_profile tf_amp tf_data_provider_capacity tf_jit tf_log_dir
        tf_log_memory_usage tf_native_ctc_zero_infinity tf_run_options tf_session_opts tf_static_shapes
        wrap_tf_session
    """,
    "several processes": """
        distributed_tf horovod_avg_grad horovod_dataset_distribution horovod_param_sync_step
        horovod_param_sync_time_diff horovod_reduce_type horovod_scale_lr rf_batch_norm_distributed
        torch_distributed use_horovod
    """,
    "frontend": """
        packed_batch_size packed_fallback_allowed packed_tensors rf_att_dropout_broadcast
        rf_conformer_conv_norm_use_mask rf_dropout_broadcast rf_module_output_keep_dtype rf_native_opt
        rf_packed_att_fast_paths rf_packed_warn_regap rf_scatter_use_fixed_masking
        rf_specaugment_num_masks_per_seq rf_use_consistent_same_padding rf_use_mask rf_use_mask_BatchNorm
        rf_use_mask_conv rf_use_mask_pool rf_use_mask_scatter rf_use_mask_stft rf_use_mask_transposed_conv
        rf_use_mask_window
    """,
    "PyTorch": """
        PYTORCH_CUDA_ALLOC_CONF apply_cleanup_old_models_to_optim_states debug_shell_before_train_loop
        default_float_dtype epoch_end epoch_start forward_auto_split_batch_on_oom grad_clip grad_scaler
        load_model_post_hooks online_shuffle_batches onnx_export reset_dev_memory_caches sort_dataset
        tensorboard_opts tf_distributed tf_profile torch_amp torch_cuda_graph torch_dataloader_opts
        torch_log_memory_usage torch_profile use_tensorboard
    """,
    "debugging": """
        debug_add_check_numerics_on_output debug_add_check_numerics_ops debug_grad_summaries
        debug_objective_loss_summaries debug_print_layer_output debug_print_layer_output_shape
        debug_print_layer_output_template debug_rec_layer debug_runtime_sanity_checks
        debug_save_updater_vars debug_shell_in_runner debug_shell_in_runner_step
        debug_unnormalized_loss_summaries ipython log_grad_norm use_lovely_tensors watch_memory
    """,
    "Sprint": """
        SprintInterfacePythonFeatureScorer sprint_interface_custom_dataset sprint_interface_dataset_opts
        sprint_trainer_exec_path
    """,
    "old network, by flags": """
        activation cache description dropout gate_factors hidden_size hidden_sizes hidden_type load_config
        lreg order truncate
    """,
}
KNOWN_OPTIONS = frozenset(name for names in _BY_THEME.values() for name in names.split())
