"""Options of the training."""

from __future__ import annotations

from typing import Any

from returnn.config import option_kinds as kinds
from returnn.config.option import (
    Option,
    OptionTable,
    auto_or_integer,
    boolean,
    choice,
    filename,
    integer,
    number,
    same_as,
    text,
    texts,
)


class TrainingOptions(OptionTable):
    """Epochs."""

    num_epochs = integer(5, "The last epoch.", minimum=0)
    start_epoch = auto_or_integer("The first epoch; 'auto' is the one after the newest model file.", minimum=1)
    start_batch = auto_or_integer("The first batch of the first epoch; 'auto' is the very first one.", minimum=0)
    init_train_epoch_posthook = text(None, "Python code that runs at the start of each epoch.")
    stop_on_nonfinite_train_score = boolean(True, "The training ends with an error if a loss is not finite.")
    num_allowed_consec_invalid_gradient_steps = integer(
        None,
        "With PyTorch: so many updates in a row may be left out because a gradient is not finite; one more is an "
        "error. Without it, the first one is, unless `stop_on_nonfinite_train_score = False`.",
        minimum=0,
    )
    eval_use_train_flag = boolean(False, "Evaluation works as in training, with dropout and the like.")
    accept_changed_data = boolean(
        False, "A training that is resumed goes on though its data is other data than before; else that is an error."
    )
    reset_updater_vars_mod_step = integer(0, "The state of the optimizer starts anew after so many steps.", minimum=0)
    restart_after_num_net_reinit = integer(
        None, "The program starts anew after the network has changed so many times, to free its memory.", minimum=1
    )


class UpdaterOptions(OptionTable):
    """Gradients and updates."""

    optimizer: Option[Any] = Option(
        kinds.ANYTHING,
        None,
        "The optimizer: a name, or a dict with 'class' and options; `--help optimizers` lists those of TensorFlow, "
        "`--help torch_optimizers` those of PyTorch.",
    )
    momentum = number(0.0, "Momentum of an optimizer that has one.")
    adam = boolean(False, "The older form of `optimizer`.")
    nadam = boolean(False, "The older form of `optimizer`.")
    adadelta = boolean(False, "The older form of `optimizer`.")
    adagrad = boolean(False, "The older form of `optimizer`.")
    rmsprop: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.number_kind()), False, "The older form of `optimizer`: True, or `decay`."
    )
    optimizer_epsilon = number(
        1e-16,
        "The `epsilon` of an optimizer that does not say another one; with PyTorch, it is that of the class instead.",
    )
    optimizer_use_locking = boolean(False, "Variables are locked while they are updated.")
    accum_grad_multiple_step: Option[Any] = Option(
        kinds.any_of_kind(kinds.integer_kind(0), kinds.FUNCTION),
        0,
        "An update comes after so many steps, with the sum of their gradients. With PyTorch, it may be a function that "
        "returns the number: `def accum_grad_multiple_step(*, epoch, epoch_continuous, global_train_step, **kwargs)`.",
    )
    gradient_clip = number(0.0, "The largest absolute value of an entry of a gradient; 0 is no limit.", minimum=0)
    gradient_clip_norm = number(0.0, "The largest L2 norm of the gradient of a parameter; 0 is no limit.", minimum=0)
    gradient_clip_avg_norm = number(
        0.0, "The largest L2 norm, divided by the number of entries, of a gradient; 0 is no limit.", minimum=0
    )
    gradient_clip_global_norm = number(0.0, "The largest L2 norm of all gradients together; 0 is no limit.", minimum=0)
    global_norm_tag = text(None, "Norms over all gradients are those of parameters with this tag alone.")
    gradient_clip_global_norm_tag = same_as(global_norm_tag, "The same, for `gradient_clip_global_norm` alone.")
    gradient_noise = number(0.0, "Standard deviation of the noise that is added to gradients.", minimum=0)
    gradient_nan_inf_filter = boolean(False, "Entries of gradients that are not finite become 0.")
    grad_norm_to_clip_to_zero = number(0.0, "Gradients are 0 in a step where their L2 norm is above.", minimum=0)
    maximize_grad_norm = number(0.0, "Weight of the norm of the gradient, which is maximized beside the objective.")
    decouple_constraints = boolean(False, "L2 is an update of its own (weight decay), no part of the objective.")
    decouple_constraints_factor = number(0.025, "With `decouple_constraints`: the learning rate of that update.")
    dynamic_learning_rate: Option[Any] = Option(
        kinds.instance_kind("a function, or a dict with 'interval' and 'decay'", dict, is_function=True),
        None,
        "Changes the learning rate in each step. A function is `def dynamic_learning_rate(*, network, "
        "global_train_step, learning_rate, **kwargs)`: it gets the number of steps before (from 0, over all "
        "epochs, also in a resumed training) and the learning rate of the epoch, and returns that of the "
        "step; with TensorFlow these are tensors (scalars), with PyTorch numbers, and there are `epoch` and "
        "`epoch_continuous`: 2.5 where half of the data of epoch 3 is done with the batch of this step, so 3.0 in "
        "the last step of epoch 3, and above 0 in the first of all; None if the data set does not know. A "
        "warm-up (warmup) over 1000 steps is `learning_rate * min(1.0, (global_train_step + 1) / 1000)`, with"
        " TensorFlow `learning_rate * tf.minimum(1.0, tf.cast(global_train_step + 1, 'float32') / 1000)`. A "
        "dict: the rate is multiplied by `decay ** (step % interval / interval)`, so it falls to `decay` "
        "times its value within `interval` steps, and is back at it then. The table of epochs and the "
        "learning rate file have the rate without all this.",
    )
    extra_updates: Option[Any] = Option(
        kinds.DICT, None, "Further updates: name of a parameter -> a function that makes the operation."
    )
    deterministic_train = boolean(False, "Operations give the same results in each run, even if that is slower.")


class PrecisionOptions(OptionTable):
    """Mixed precision."""

    tf_amp: Option[Any] = Option(
        kinds.any_of_kind(kinds.TEXT, kinds.DICT),
        None,
        "Matrix products and convolutions are in a shorter float: 'bfloat16', 'float16', or a dict with 'dtype'. It"
        " counts in all tasks, such as 'eval' and 'search', and in what is exported; None there is float32.",
    )
    grad_scaler: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.BOOLEAN),
        None,
        "Whether losses are scaled, or how; by default with 'float16' as `tf_amp` or `torch_amp`.",
    )


class DistributedOptions(OptionTable):
    """Training in several processes. Options which are named after Horovod mean the same as with it."""

    distributed_tf: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.BOOLEAN),
        None,
        "The training runs in several processes. A dict may have reduce_type, combine, data, timeout_s and others.",
    )
    torch_distributed: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.BOOLEAN),
        None,
        "The same as `distributed_tf` with PyTorch: several processes, by `torch.distributed`.",
    )
    use_horovod = boolean(False, "The training runs in several processes; the options below say how.")
    horovod_reduce_type = choice("grad", "What the processes exchange.", ("grad", "param"))
    horovod_dataset_distribution = choice(
        "shard", "How data is divided among the processes.", ("random_seed_offset", "shard")
    )
    horovod_avg_grad = boolean(False, "The mean of gradients is taken, not the sum.")
    horovod_scale_lr = boolean(False, "The learning rate is multiplied by the number of processes.")
    horovod_param_sync_step = integer(1, "Parameters are exchanged after so many steps.", minimum=1)
    horovod_param_sync_time_diff = number(None, "Parameters are exchanged after so many seconds.", minimum=0)


class LearningRateOptions(OptionTable):
    """Learning rates."""

    learning_rate = number(1.0, "The learning rate, where nothing else decides.", minimum=0)
    learning_rates: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.NUMBERS),
        None,
        "Learning rates of the first epochs, or epoch -> rate. Where there is none, the one before goes on.",
    )
    min_learning_rate = number(0.0, "The learning rate never gets lower.", minimum=0)
    learning_rate_file = filename(None, "Where learning rates and scores of all epochs are written.")
    learning_rate_control = choice(
        "constant",
        "How the learning rate follows from the scores of the epochs before.",
        ("constant", "newbob", "newbob_rel", "newbob_relative", "newbob_abs", "newbob_multi_epoch"),
    )
    learning_rate_control_error_measure = texts(
        None,
        "The score that decides about best epochs and learning rates, such as 'dev_score_output', or 'dev_loss_ce' "
        "with PyTorch; of several, the first one that is there. By default the loss on 'dev'; with several losses, "
        "that of the layer 'output', or of one in it, else the first one by name.",
    )
    learning_rate_control_min_num_epochs_per_new_lr = integer(
        0, "The learning rate does not change for so many epochs after a change.", minimum=0
    )
    learning_rate_control_relative_error_relative_lr = boolean(
        False, "Relative changes of the score are divided by the learning rate, relative to the first one."
    )
    newbob_learning_rate_decay: Option[Any] = Option(
        kinds.any_of_kind(kinds.number_kind(0), kinds.FUNCTION), 0.5, "The older form of `learning_rate_decay`."
    )
    newbob_learning_rate_growth: Option[Any] = Option(
        kinds.any_of_kind(kinds.number_kind(0), kinds.FUNCTION), 1.0, "The older form of `learning_rate_growth`."
    )
    learning_rate_decay = same_as(
        newbob_learning_rate_decay, "The factor if scores do not get better, or a function from old to new rate."
    )
    learning_rate_growth = same_as(
        newbob_learning_rate_growth, "The factor if scores do get better, or a function from old to new rate."
    )
    newbob_relative_error_threshold = number(-0.01, "The learning rate falls if the relative change is above.")
    newbob_relative_error_grow_threshold = same_as(
        newbob_relative_error_threshold, "The learning rate grows if the relative change is below."
    )
    newbob_relative_error_div_by_old = boolean(False, "Relative changes are relative to the old score, not the new.")
    newbob_error_threshold = number(-0.01, "With 'newbob_abs': the learning rate falls if the change is above.")
    newbob_multi_num_epochs = integer(5, "With 'newbob_multi_epoch': the mean goes over so many changes.", minimum=1)
    newbob_multi_update_interval = same_as(
        newbob_multi_num_epochs, "With 'newbob_multi_epoch': the learning rate changes once in so many epochs."
    )
    pretrain_learning_rate = number(
        None, "The learning rate of all epochs of the pretraining; by default `learning_rate`.", minimum=0
    )
    use_learning_rate_control_always = boolean(
        False,
        "`learning_rates` and the scores decide in all epochs. By default, all epochs of the pretraining have "
        "`pretrain_learning_rate`, and the first one after it has `learning_rate`.",
    )
    check_learning_rates = boolean(
        False, "`python -m returnn.learning_rate_control` fails if recorded learning rates are others."
    )


class PretrainOptions(OptionTable):
    """Pretraining: smaller networks in the first epochs."""

    pretrain: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.BOOLEAN, kinds.choice_kind("default")),
        None,
        "Begins with smaller networks: 'default', or a dict of options.",
        keys_of="returnn.engine.pretrain:Pretrain",
        no_keys=("original_network_json",),  # is `network`
    )
    pretrain_repetitions: Option[Any] = Option(
        kinds.any_of_kind(kinds.DICT, kinds.INTEGERS), None, "How many epochs each network of the pretraining gets."
    )
    pretrain_construction_algo: Option[Any] = Option(
        kinds.any_of_kind(kinds.FUNCTION, kinds.TEXT), None, "How the networks of the pretraining are made."
    )
    pretrain_copy_output_layer: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.choice_kind("ifpossible")),
        "ifpossible",
        "Whether the output layer takes over the parameters of the network before.",
    )
    pretrain_greedy = boolean(None, "Only the new layers of each network are trained.")
