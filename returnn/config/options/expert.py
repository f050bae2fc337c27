"""Options of TensorFlow, of the operations, and for debugging."""

from __future__ import annotations

from typing import Any

from returnn.config import option_kinds as kinds
from returnn.config.option import Option, OptionTable, boolean, filename, function, integer


class TensorFlowOptions(OptionTable):
    """TensorFlow."""

    tf_session_opts: Option[Any] = Option(kinds.DICT, None, "Options of `tf.compat.v1.ConfigProto`.")
    tf_jit = boolean(False, "XLA compiles operations that follow each other, once for each shape of the data.")
    tf_run_options: Option[Any] = Option(kinds.ANYTHING, None, "`tf.compat.v1.RunOptions`, or a dict of its fields.")
    tf_log_dir = filename(
        None, "The folder of TensorBoard's files; None for none; by default it is beside the model files."
    )
    store_metadata_mod_step = integer(0, "Once in so many steps, a trace of the step is written.", minimum=0)
    store_tf_profile = boolean(False, "A profile of the first steps is written, for TensorBoard.")
    wrap_tf_session = function("Gets the session, and returns what is used in its place.")


class OperationOptions(OptionTable):
    """Operations of the frontend."""

    rf_conformer_conv_norm_use_mask = boolean(
        None,
        "Whether the batch norm of a Conformer's convolution block leaves out padded frames; by default as "
        "batch normalization elsewhere.",
    )
    rf_use_mask = boolean(
        None,
        "Whether operations leave out padded frames. By default, convolutions, pooling, batch normalization and "
        "Fourier transforms do from behavior version 23 on, others always.",
    )
    rf_use_mask_BatchNorm = boolean(None, "The same, for batch normalization.")
    rf_use_mask_conv = boolean(None, "The same, for convolutions.")
    rf_use_mask_pool = boolean(None, "The same, for pooling.")
    rf_use_mask_scatter = boolean(None, "The same, for scattering.")
    rf_use_mask_stft = boolean(None, "The same, for the short-time Fourier transform.")
    rf_use_mask_transposed_conv = boolean(None, "The same, for transposed convolutions.")
    rf_use_mask_window = boolean(None, "The same, for windows.")
    rf_specaugment_num_masks_per_seq = boolean(
        None,
        "`rf.audio.specaugment` takes the number of masks from each sequence, not from the longest one of the batch; by"
        " default from behavior version 30 on.",
    )
    rf_use_consistent_same_padding = boolean(
        None, "Padding 'same' with a stride does not depend on the length; by default from behavior version 24 on."
    )
    rf_dropout_broadcast = boolean(None, "Dropout masks are shared over batch and time; by default up to version 18.")
    rf_att_dropout_broadcast = boolean(None, "The same, for attention weights.")
    rf_batch_norm_distributed = boolean(False, "Batch normalization takes the statistics of all processes.")


class DebuggingOptions(OptionTable):
    """Debugging."""

    debug_print_layer_output: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.ANYTHING), False, "Prints the output of each layer in each step."
    )
    debug_print_layer_output_shape = boolean(False, "Prints the shape of the output of each layer in each step.")
    debug_print_layer_output_template = boolean(False, "Prints the dims of each layer when it is made.")
    debug_runtime_sanity_checks = boolean(False, "Checks in each step whether the output of each layer fits its dims.")
    debug_add_check_numerics_on_output = boolean(False, "Each layer fails in a step where its output is not finite.")
    debug_add_check_numerics_ops = boolean(False, "A step fails where objective or gradients are not finite.")
    debug_grad_summaries: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.ANYTHING), False, "Summaries of the gradient of each parameter."
    )
    debug_objective_loss_summaries = boolean(False, "Summaries of the objective.")
    debug_unnormalized_loss_summaries = boolean(False, "Summaries of losses that are not normalized.")
    debug_save_updater_vars = boolean(False, "Lists the variables of the updater that model files have.")
    debug_rec_layer = boolean(False, "Logs for each loop which layers are before, in and after it, and why.")
    debug_shell_before_train_loop = boolean(False, "Opens a shell before the training begins.")
    debug_shell_in_runner = boolean(False, "Opens a shell in the step `debug_shell_in_runner_step`.")
    debug_shell_in_runner_step = integer(1, "With `debug_shell_in_runner`: the step, from 0.", minimum=0)
