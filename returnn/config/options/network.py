"""Options of networks and parameters."""

from __future__ import annotations

from typing import Any

from returnn.config import option_kinds as kinds
from returnn.config.option import Option, OptionTable, boolean, choice, filename, function, integer, number


class NetworkOptions(OptionTable):
    """The network."""

    network: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.TEXT), None, "The net dict: the options of each layer, by name."
    )
    get_network = function("Gets `epoch`, and returns the net dict of that epoch.")
    init_new_network_callback = function("Is called after a network was made and initialized.")
    reinit_network_each_epoch = boolean(False, "The network is made anew in each epoch, even if it did not change.")
    random_seed = integer(42, "Seed of initial parameters, dropout and the like.")
    default_float_dtype = choice(
        None, "The dtype of floats in the network; by default float32.", ("float16", "bfloat16", "float32", "float64")
    )
    optimize_move_layers_out = boolean(True, "Layers of a loop that do not depend on it are moved out.")
    calculate_exp_loss = boolean(
        False, "Shows the exponential of losses, too: of a cross entropy, it is the perplexity."
    )
    conv_pad_seq_len_to_power = number(
        None, "Convolutions pad sequences up to a length that is a power of this number, to have fewer shapes."
    )
    param_dropout = number(0.0, "Dropout of parameters, unless a layer says something else.", minimum=0)
    param_dropout_min_ndim = integer(0, "Dropout only of parameters with at least so many axes.", minimum=0)
    param_variational_noise = number(
        0.0, "Standard deviation of noise on parameters, unless a layer says something else.", minimum=0
    )
    tf_native_ctc_zero_infinity = boolean(
        None, "The own CTC loss of a sequence with too many labels is 0, not infinite; since behavior version 30."
    )


class CheckpointOptions(OptionTable):
    """Model files."""

    model = filename(None, "The beginning of the names of model files; the epoch is added.")
    load = filename(
        None,
        "The model file that a task starts from. If its name has no epoch, as that of a mean: with the last network.",
    )
    load_epoch = integer(-1, "The epoch of the model that a task works on.")
    epoch = integer(-1, "The same as `load_epoch`, which comes first.")
    import_model_train_epoch1 = filename(None, "The model file that a training starts from, as its initial parameters.")
    load_ignore_missing_vars = boolean(False, "Parameters that the model file does not have keep their initial values.")
    allow_random_model_init = boolean(False, "Tasks other than training work without a model file, too.")
    preload_from_files: Option[Any] = Option(
        kinds.DICT,
        None,
        "Further model files which parameters come from: name -> options.",
        keys_of="returnn.config.preloaded_file:PreloadOptions",
    )
    save_interval = integer(1, "After how many epochs a model file is written; 0: only after the last one.", minimum=0)
    save_interval_s = number(
        600.0,
        "After how many seconds the state of the training is saved inside of an epoch, so that it goes on there when it"
        " was killed; 0: this depends on `save_interval_steps` alone.",
        minimum=0,
    )
    save_interval_steps = integer(
        0,
        "After how many steps the state of the training is saved inside of an epoch; 0: this depends on"
        " `save_interval_s` alone. If both are 0, nothing is saved inside of epochs.",
        minimum=0,
    )
    save_epoch1_initial_model = boolean(False, "Initial parameters are written as the model file of epoch 0.")
    cleanup_old_models: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.DICT),
        None,
        "Deletes superfluous model files after each epoch; a dict says which ones to keep.",
        keys_of="returnn.engine.run.cleanup:CleanupPolicy",
    )
    use_last_best_model: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.DICT),
        None,
        "An epoch goes on from the best epoch before, not from the last one.",
        keys_of="returnn.engine.best_model:BestModelOptions",
    )
