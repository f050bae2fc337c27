"""
Options that configs have, and that the toolkit does not read.

Whoever makes the toolkit read one of them declares it in `returnn.config.options`, and takes it off these lists.
"""

from __future__ import annotations

from collections.abc import Mapping

from returnn.config.options import OPTIONS

_PACKED = "sequences are padded, not packed"

# An error if set: the run would be something else than what the config asks for. What to do or to use instead.
UNSUPPORTED: Mapping[str, str] = {
    "tf_distributed": "'distributed_tf' is the option",
    "share_batches": "a training runs on one device",
    "ctc_prior_file": "a layer has to subtract the prior, in the net dict: docs/tutorial/alignments.md",
    "combine_labels": "labels cannot be merged; a layer has to do that, in the net dict",
    "train_in_eval": "evaluation does not change parameters; put that data into 'train', with 'CombinedDataset'",
    "eval_learning_rate": "it goes with 'train_in_eval'; evaluation does not change parameters",
    "update_batch_size": "updates come after each batch; 'accum_grad_multiple_step' lets them wait",
    "exclude": "'seq_list_filter_file' or 'epoch_wise_filter' of a data set leave out sequences",
    "seq_drop_freq": "each training sequence is left out with the probability 'seq_drop', in all epochs alike",
    "epoch_start": "'init_train_epoch_posthook' runs at the start of each epoch",
    "epoch_end": "'init_train_epoch_posthook' runs at the start of the next epoch",
    "check_unsupported_device": "tf_session_opts = {'log_device_placement': True} shows where operations run",
    "sil_label_idx": "a layer 'framewise_statistics' in the net dict has it as an option",
    "ipython": "the task 'debug_shell' and the option 'debug_shell_in_runner' open a shell",
    "use_hot_reloading": "start the training again; it goes on where it was, with the new code",
    "grad_clip": "'gradient_clip' is the limit of each entry, 'gradient_clip_global_norm' that of the norm",
    "tf_static_shapes": "dims are static if 'extern_data' gives their size",
    "torch_cuda_graph": "operations are run one by one",
    "tf_profile": "'store_tf_profile' does it",
    "tensorboard_opts": "'use_tensorboard' and the options with 'summaries' in their names say what is written",
    "onnx_export": "tools/torch_export_to_onnx.py writes such a file",
    "torch_batching": "'batch_size', 'max_seqs' and 'batching' say which sequences a batch has",
    "online_shuffle_batches": "'shuffle_batches' does it",
    "sort_dataset": "batching = 'sorted' does it",
    "packed_batch_size": _PACKED,
    "packed_fallback_allowed": _PACKED,
    "rf_packed_att_fast_paths": _PACKED,
    "rf_packed_warn_regap": _PACKED,
    "rf_module_output_keep_dtype": "cast the output of the module",
}

# They only say more about another option, and ask for nothing without it.
ADDS_TO: Mapping[str, str] = {
    "eval_learning_rate": "train_in_eval",
    "seq_drop_freq": "seq_drop",
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
    "use_lovely_tensors": "tensors in error messages are always in short",
    "allow_missing_optimizer_checkpoint": "a state of the optimizer that is missing begins anew, with a warning",
    "rf_native_opt": "there is only one implementation",
    "SprintInterfacePythonFeatureScorer": "RASR says whether it wants scores, see returnn/sprint/interface.py",
    "sprint_interface_custom_dataset": "`sprint_interface_dataset_opts` has the options of the data set",
    "extract": "`forward_output_layer` is the layer whose outputs RASR gets",
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
