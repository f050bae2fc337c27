"""Options of the run as a whole."""

from __future__ import annotations

from returnn.config import option_kinds as kinds
from returnn.config.option import Option, OptionTable, boolean, choice, filename, function, integer, number, text, texts


class RunOptions(OptionTable):
    """What is done, with what, and where."""

    task = text("train", "What to do; `rnn.py --help` lists the tasks; `config:NAME` calls a function of the config.")
    description: Option[object] = Option(kinds.ANYTHING, None, "Names the experiment, at the start of the log.")
    behavior_version = integer(
        None, "Which meaning options have that changed over the years; new configs set the newest one.", minimum=0
    )
    backend = text(None, "The engine: 'tensorflow-net-dict' (the default), 'tensorflow' or 'torch'.")
    use_tensorflow = boolean(None, "The older form of `backend`: True is TensorFlow with a net dict.")
    device = texts((), "'cpu', 'gpu' or 'gpu0'; by default a GPU is used if there is one.")
    allow_unknown_options = boolean(False, "Options that look like misspelt ones are only warned of.")
    dry_run = boolean(False, "Nothing is written: no model files, no summaries.")
    startup_callback = function("Is called with `config` before the task begins.")
    need_data = boolean(True, "Whether the task needs the data sets of the config.")
    file_cache_opts: Option[dict[str, object] | None] = Option(
        kinds.DICT,
        None,
        "Options of the cache of files on the local disk.",
        keys_of="returnn.util.file_cache:FileCache",
    )
    web_server_port = integer(12380, "Where the task 'serve' listens; 0: at a port that is free.", minimum=0)
    web_server_host = text("localhost", "At which address the task 'serve' listens; '0.0.0.0' for all of the machine.")
    web_server_output: Option[str] = Option(
        kinds.choice_kind("search", "forward"), "search", "What the task 'serve' answers."
    )
    web_server_max_bytes = integer(16 * 1024**2, "The largest request that the task 'serve' takes.", minimum=1)
    web_server_max_audio_s = number(300.0, "The longest audio that the task 'serve' takes, in seconds.", minimum=0)
    web_server_timeout_s = number(60.0, "After so many seconds, a request to the task 'serve' ends.", minimum=0)
    web_server_max_requests = integer(64, "So many requests at a time; more are told to come later.", minimum=1)
    web_server_batch_wait_s = number(0.01, "How long the first input waits for others to be computed with.", minimum=0)
    hyper_param_tuning: Option[dict[str, object] | None] = Option(
        kinds.DICT,
        None,
        "How the task 'hyper_param_tuning' looks for good values of the `HyperParam`s in the config.",
    )
    watch_memory = boolean(False, "Logs how much memory the processes of the run have, whenever it grows.")
    use_train_proc_manager = boolean(
        False, "The training runs in a process of its own, which is started again if it crashes after some progress."
    )
    stop_for_resubmission_when_low_time_left = boolean(
        False,
        "The training ends after an epoch if the time that the job has left (SLURM) is not enough for the next one.",
    )
    stop_for_resubmission_safety_factor: Option[float] = Option(
        kinds.number_kind(0), 1.2, "How many times the duration of the longest epoch has to be left for the next one."
    )


class LogOptions(OptionTable):
    """What is written for people."""

    log = Option[list[object]](
        kinds.ENTRIES, [], "Where the log goes: 'stdout', '|command', a file, or a list of these."
    )
    log_verbosity = Option[list[int]](
        kinds.INTEGERS, [], "How much is logged, from 0 (nothing) to 5 (everything): a number, or one for each log."
    )
    log_format = texts((), "The format of each log: 'default', 'timed', 'raw', 'verbose', or one of `logging`.")
    log_batch_size = boolean(False, "The lines of the steps say how large the batch is.")
    log_grad_norm: Option[object] = Option(
        kinds.ANYTHING, False, "The lines of the steps have the norm of the gradient."
    )
    tf_log_memory_usage = boolean(False, "The lines of the steps say how much memory the GPU uses.")
    learning_curve_file = filename(
        None, "The picture of scores over epochs; None for none; by default it is beside the learning rate file."
    )
    network_picture = boolean(
        True, "A training leaves a drawing of its network beside the model, MODEL.network.svg, for 'returnn view'."
    )
    attention_plot: Option[object] = Option(
        kinds.DICT,
        None,
        "What the task 'plot_attention' draws.",
        keys_of="returnn.engine.report.attention_picture:AttentionPlot",
    )


class CheckOptions(OptionTable):
    """The tasks 'check' and 'explain'."""

    check_data = boolean(
        True, "The task 'check' opens the data sets and loads the first sequences of each, to see whether they fit."
    )
    explain_mode = choice("training", "Which network the task 'explain' shows.", ("training", "search"))
    explain_file = filename(None, "Where the task 'explain' draws the network, as .svg or .png.")
