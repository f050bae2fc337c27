"""Options of models that a config writes in Python, and of PyTorch."""

from __future__ import annotations

from typing import Any

from returnn.config import option_kinds as kinds
from returnn.config.option import Option, OptionTable, boolean, choice, function


class ModelOptions(OptionTable):
    """Models in Python, `backend = "torch"` or "tensorflow"."""

    get_model = function("Makes the model: `get_model(*, epoch, step, **)` returns a module.")
    train_step = function(
        "Marks the losses: `train_step(*, model, extern_data, **)`, with `rf.get_run_ctx().mark_as_loss`."
    )
    forward_step = function(
        "Marks the outputs: `forward_step(*, model, extern_data, **)`, with `rf.get_run_ctx().mark_as_output`."
    )
    model_outputs: Option[Any] = Option(
        kinds.ANYTHING, None, "The outputs that `forward_step` has to mark: name -> options of the template."
    )
    use_tensorboard = boolean(
        None, "Curves for TensorBoard are written; by default if it is installed, beside the model files."
    )


class TorchOptions(OptionTable):
    """PyTorch."""

    torch_amp: Option[Any] = Option(
        kinds.ANYTHING,
        None,
        "Mixed precision: 'bfloat16', 'float16', or a dict with 'dtype'. It counts in all tasks, such as 'eval' and"
        " 'search', and for models that Python loads; None there is float32. ONNX is float32 anyway.",
    )
    torch_compile: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.DICT),
        False,
        "Kernels are made of what steps do. A dict may have backend, mode, dynamic, fullgraph, options.",
    )
    torch_dataloader_opts: Option[Any] = Option(
        kinds.DICT, None, "Worker processes load batches: {'num_workers': 2}, and further options of `DataLoader`."
    )
    torch_checkpoint_format = choice("pt", "The format of model files.", ("pt", "safetensors"))
    torch_log_memory_usage = boolean(False, "Logs after each epoch how much memory was used at most.")
    torch_profile: Option[Any] = Option(
        kinds.any_of_kind(kinds.BOOLEAN, kinds.integer_kind(0)),
        False,
        "A profile of some of the first steps is written; a number is how many.",
    )
    reset_dev_memory_caches = boolean(False, "Memory that PyTorch keeps is given back after each epoch.")
    load_model_post_hooks: Option[Any] = Option(
        kinds.instance_kind("a list of functions", list, tuple),
        None,
        "Functions that are called with `model`, when it has its parameters.",
    )
    forward_auto_split_batch_on_oom = boolean(
        False, "In 'forward' and 'search', a batch is split into halves if memory is not enough for it."
    )
    apply_cleanup_old_models_to_optim_states = boolean(
        False, "The state of the optimizer stays with each model file that is kept, not only with the newest two."
    )
