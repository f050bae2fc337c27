"""
Options that configs have, and that the toolkit does not read.

Whoever makes the toolkit read one of them declares it in `returnn.config.options`, and takes it off these lists.
"""

from __future__ import annotations

from collections.abc import Mapping

from returnn.config.options import OPTIONS

_PROCESSES = "training in several processes is not there: each of them would train a model of its own"
_FRONTEND_MODEL = (
    "it is for backend = 'tensorflow' and 'torch', whose models of the frontend are not run yet; "
    "backend = 'tensorflow-net-dict', the default, wants 'network', a dict of layers"
)
_PACKED = "sequences are padded, not packed"
_NO_TORCH = "it is for PyTorch"

# An error if set: the run would be something else than what the config asks for. What to do or to use instead.
UNSUPPORTED: Mapping[str, str] = {
    "use_horovod": _PROCESSES,
    "distributed_tf": _PROCESSES,
    "tf_distributed": _PROCESSES,
    "torch_distributed": _PROCESSES,
    "share_batches": "a training runs on one device",
    "get_model": _FRONTEND_MODEL,
    "train_step": _FRONTEND_MODEL,
    "forward_step": _FRONTEND_MODEL,
    "model_outputs": _FRONTEND_MODEL,
    "ctc_prior_file": "a layer has to subtract the prior, in the net dict",
    "combine_labels": "labels cannot be merged; a layer has to do that, in the net dict",
    "train_in_eval": "evaluation does not change parameters; put that data into 'train', with 'CombinedDataset'",
    "eval_learning_rate": "it goes with 'train_in_eval'; evaluation does not change parameters",
    "update_batch_size": "updates come after each batch; 'accum_grad_multiple_step' lets them wait",
    "exclude": "'seq_list_filter_file' or 'epoch_wise_filter' of a data set leave out sequences",
    "seq_drop_freq": "each training sequence is left out with the probability 'seq_drop', in all epochs alike",
    "epoch_start": "'init_train_epoch_posthook' runs at the start of each epoch",
    "epoch_end": "'init_train_epoch_posthook' runs at the start of the next epoch",
    "load_model_post_hooks": "'init_new_network_callback' is called when the network has its parameters",
    "check_unsupported_device": "tf_session_opts = {'log_device_placement': True} shows where operations run",
    "sil_label_idx": "a layer 'framewise_statistics' in the net dict has it as an option",
    "ipython": "the task 'debug_shell' and the option 'debug_shell_in_runner' open a shell",
    "use_hot_reloading": "start the training again; it goes on where it was, with the new code",
    "tf_amp": "computations are in the precision of their layers; 'default_float_dtype' is for the whole network",
    "torch_amp": "computations are in the precision of their layers; 'default_float_dtype' is for the whole network",
    "grad_scaler": "it goes with 'torch_amp'; gradients are not scaled",
    "grad_clip": "'gradient_clip' is the limit of each entry, 'gradient_clip_global_norm' that of the norm",
    "tf_jit": "tf_session_opts = {'graph_options': {'optimizer_options': {'global_jit_level': 1}}} does it",
    "tf_static_shapes": "dims are static if 'extern_data' gives their size",
    "torch_cuda_graph": _NO_TORCH,
    "torch_dataloader_opts": "'tf_data_provider_capacity' says how many batches are prepared ahead",
    "torch_log_memory_usage": "'tf_log_memory_usage' does it",
    "tf_profile": "'store_tf_profile' does it",
    "torch_profile": "'store_tf_profile' does it",
    "use_tensorboard": "summaries for TensorBoard are written to the folder 'tf_log_dir'",
    "tensorboard_opts": "'debug_grad_summaries' and the other options with 'summaries' say what is written",
    "use_lovely_tensors": "'debug_print_layer_output' prints tensors",
    "onnx_export": "tools/compile_tf_graph.py writes the graph",
    "online_shuffle_batches": "'shuffle_batches' does it",
    "sort_dataset": "batching = 'sorted' does it",
    "forward_auto_split_batch_on_oom": "'forward_batch_size' limits the size of batches",
    "packed_batch_size": _PACKED,
    "packed_fallback_allowed": _PACKED,
    "rf_packed_att_fast_paths": _PACKED,
    "rf_packed_warn_regap": _PACKED,
    "rf_conformer_conv_norm_use_mask": "set 'use_mask' of the normalization; 'rf_use_mask_BatchNorm' is its default",
    "rf_module_output_keep_dtype": "cast the output of the module",
}

# They only say more about another option, and ask for nothing without it.
ADDS_TO: Mapping[str, str] = {
    "eval_learning_rate": "train_in_eval",
    "seq_drop_freq": "seq_drop",
    "grad_scaler": "torch_amp",
    "tensorboard_opts": "use_tensorboard",
    "packed_fallback_allowed": "packed_tensors",
    "rf_packed_att_fast_paths": "packed_tensors",
    "rf_packed_warn_regap": "packed_tensors",
}

# What they ask for is always so, or concerns another program than this one. Results are the same with any value.
NEEDLESS: Mapping[str, str] = {
    "flat_net_construction": "networks are always constructed without deep recursion",
    "inf_value": "what is masked gets no weight at all, and no sum has an infinite term",
    "rf_scatter_use_fixed_masking": "padded frames are always left out, unless 'rf_use_mask' says something else",
    "patch_atfork": "other programs are always started without the handlers of this one",
    "EnableAutoNumpySharedMemPickling": "how arrays go to other processes is up to the data sets",
    "PYTORCH_CUDA_ALLOC_CONF": "it is about PyTorch's memory",
    "reset_dev_memory_caches": "it is about PyTorch's memory",
    "rf_native_opt": "there is only one implementation",
    "apply_cleanup_old_models_to_optim_states": "the state of the optimizer is in the model file itself",
    "SprintInterfacePythonFeatureScorer": "it counts where RASR runs this toolkit",
    "sprint_interface_custom_dataset": "it counts where RASR runs this toolkit",
    "sprint_interface_dataset_opts": "it counts where RASR runs this toolkit",
    "extract": "it counts where RASR runs this toolkit",
}

# They described networks before there were net dicts. As flags of the command line they are errors; in a config they
# are names like all others, which it may use as it likes.
_IS_NET_DICT = "networks are a dict of layers, the option 'network'"
OLD_NETWORK: Mapping[str, str] = {
    **dict.fromkeys(("activation", "dropout", "gate_factors", "hidden_size", "hidden_sizes"), _IS_NET_DICT),
    **dict.fromkeys(("hidden_type", "loss", "lreg"), _IS_NET_DICT),
    "cache": "'cache_size' says how much data stays in memory",
    "order": "'batching' is the order of the sequences",
    "truncate": "'chunking' cuts the sequences",
    "load_config": "the flag '--config' loads a further config",
}

KNOWN_OPTIONS = frozenset(OPTIONS) | frozenset(UNSUPPORTED) | frozenset(NEEDLESS) | frozenset(OLD_NETWORK)
