"""
The command line: `rnn.py CONFIG [CONFIG ...] [++option value ...]`.

`main` is the whole run. `init` is its first part, for tools and for code that uses the toolkit as a library.
"""

from __future__ import annotations

import contextlib
import difflib
import importlib
import os
import platform
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from io import StringIO
from typing import Any, NoReturn

from returnn import __version__
from returnn.config import Config, set_global_config
from returnn.config.command_line import VERSION_FLAGS, make_parser, parse_args, parse_value
from returnn.config.environment import check_environment, is_switched_on
from returnn.config.option_check import check_is_config, check_options
from returnn.datasets.core.dataset import Dataset
from returnn.engine.base import EngineBase
from returnn.engine.data import cache_byte_sizes, load_dataset
from returnn.log import log
from returnn.tasks import TASKS, find_task
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.debug import init_better_exchook, init_faulthandler
from returnn.util.errors import ConfigError, UserError
from returnn.util.python.optional_import import import_part
from returnn.util.python.user_code_errors import describe_exception, last_place, last_place_of_user, text_with_place
from returnn.util.system.debug_shell import debug_shell
from returnn.util.system.end_by_signal import EndBySignal, exit_status_of
from returnn.util.system.exception_hook import better_exchook
from returnn.util.system.exit_in_time import exit_in_time
from returnn.util.system.process_group import find_place
from returnn.util.system.tensorflow_import import make_tensorflow_import_quick
from returnn.util.system.threads import init_thread_join_hack
from returnn.util.system.version import describe_returnn_version
from returnn.util.system.waiting import said_if_long
from returnn.util.texts.human_readable import hms
from returnn.util.train_proc_manager import maybe_start_train_proc_manager
from returnn.util.watch_memory import watch_memory

config: Config | None = None
engine: EngineBase | None = None
# Made by `init_data`, or when they are asked for: a task which needs no data set does not wait for it.
train_data: Dataset | None
dev_data: Dataset | None
eval_data: Dataset | None
_DATA_SETS = ("train_data", "dev_data", "eval_data")
quit_returnn = False
_start_time_s = 0.0
_HELP_FLAGS = ("-h", "--help")
_HELP_MODULE = "returnn.help.topics"  # late: a run does not need it
_TOOLS_MODULE = "returnn.tools.registry"  # late, as the one before
_NEW_MODULE = "returnn.project.new"  # late, as those before
_VIEW_MODULE = "returnn.view.command"  # the same
_ENGINE_MODULES = {  # late: not all tasks need a framework
    BackendEngine.TensorFlowNetDict: "returnn.tf.engine",
    BackendEngine.TensorFlow: "returnn.tf.engine_rf",
    BackendEngine.Torch: "returnn.torch.engine",
}
_OF_THE_MACHINE = (OSError, MemoryError)
_TASKS_WITHOUT_DATA = (
    "nop", "cleanup_old_models", "debug_shell", "serve", "server", "search_server", "initialize_model",
)  # fmt: skip


def init_config(
    config_filename: str | os.PathLike[str] | Sequence[str] | None = None,
    command_line_options: Sequence[str] = (),
    default_config: Mapping[str, Any] | None = None,
    extra_updates: Mapping[str, Any] | None = None,
) -> None:
    """
    Makes the config of this process.

    :param config_filename: one or several files, later ones win
    :param command_line_options: further files, then `++option value` and flags, which win over the files
    :param default_config: options that hold if nothing else sets them
    :param extra_updates: win over everything
    :raises UserError: if files or options make no sense
    """
    global config
    config = Config(default_config)
    set_global_config(config)
    names = [config_filename] if isinstance(config_filename, (str, os.PathLike)) else list(config_filename or ())
    more_names, options = _split_args(command_line_options)
    _check_are_files(names + more_names)
    # A config may ask for an option of the command line or of code while it runs, `config.bool("debug", False)`.
    config.update({key: parse_value(text) for key, text in parse_args(options) if key != "load_config"})
    config.update(extra_updates or {})
    for name in [*names, *more_names]:
        config.load_file(name)
    check_is_config(config)
    config.parse_cmd_args(options)
    config.update(extra_updates or {})
    if os.environ.get("TF_DEVICE"):
        config.set("device", os.environ["TF_DEVICE"])
    BehaviorVersion.set(config.options.behavior_version)


def init_log() -> None:
    """Sends the log where the config says."""
    options = _config().options
    has_others = options.distributed_tf or options.use_horovod or options.torch_distributed not in (None, False)
    place = find_place() if has_others else None
    log.init_by_config(_config(), process=0 if place is None else place.rank)


def returnn_greeting(
    config_filename: str | Sequence[str] | None = None, command_line_options: Sequence[str] | None = None
) -> None:
    """
    Says what starts, in the log.

    :param config_filename: is mentioned
    :param command_line_options: are mentioned
    """
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(f"RETURNN {describe_returnn_version()} starts, {now}, pid {os.getpid()}, {platform.node()}", file=log.v3)
    if config_filename:
        names = [config_filename] if isinstance(config_filename, str) else config_filename
        print(f"config: {', '.join(names)}", file=log.v3)
    if command_line_options:
        print(f"options: {' '.join(command_line_options)}", file=log.v3)
    description = config.options.description if config is not None else None
    if isinstance(description, str):
        print(f"experiment: {description}", file=log.v3)
    print(f"Python {platform.python_version()}, working directory {os.getcwd()}", file=log.v4)


def init_backend_engine(*, config_opts: Mapping[str, Any] | None = None) -> None:
    """
    Selects the engine.

    :param config_opts: used instead of the config of this process
    :raises ConfigError: if the config asks for an engine that is not there
    """
    BackendEngine.select_engine(config=_config() if config_opts is None else Config(config_opts))


def need_data() -> bool:
    """:return: whether the task works on data of the config (`need_data = False` says that it does not)"""
    return _config().options.need_data and _config().options.task not in _TASKS_WITHOUT_DATA


def get_cache_byte_sizes() -> list[int]:
    """:return: how many bytes of train, dev and eval data stay in memory, by `cache_size`"""
    return list(cache_byte_sizes(_config()).values())


def load_data(config: Config, cache_byte_size: int, files_config_key: str, **kwargs: Any) -> tuple[Dataset | None, int]:
    """
    :param config: its option of that name
    :param cache_byte_size: how much stays in memory
    :param files_config_key: such as "train"
    :param kwargs: options of the data set, where the description has no other ones
    :return: the data set, None if there is none; and how much of the memory it does not need
    """
    dataset = load_dataset(config, files_config_key, cache_byte_size=cache_byte_size, **kwargs)
    return dataset, cache_byte_size if dataset is None else 0


def init_data() -> None:
    """Makes `train_data`, `dev_data` and `eval_data` of this module, if they are needed."""
    global train_data, dev_data, eval_data
    if not need_data():
        return
    dev_data, eval_data, train_data = (load_dataset(_config(), name) for name in ("dev", "eval", "train"))


def __getattr__(name: str) -> Any:
    """:return: a data set of the config, which is made now; None if there is none"""
    if name not in _DATA_SETS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    if config is not None:
        init_data()
    return globals().get(name)


def setup_dummy_datasets() -> None:
    """From now on, the data of the config is random data with the same keys and dims (`use_dummy_datasets`)."""
    _config().set("use_dummy_datasets", True)


def init_engine() -> None:
    """Makes the engine, `engine` of this module. It has no network yet."""
    global engine
    name = _ENGINE_MODULES[BackendEngine.get_selected_engine()]
    engine = import_part(name, needed_for=BackendEngine.describe_selected()).Engine(_config())


def analyze_data(config: Config) -> None:
    """
    Task `analyze_data`: mean and standard deviation of data.

    :param config: `analyze_dataset`, `data_key`, `statistics_save_prefix`
    """
    TASKS["analyze_data"].run(config)


def init(
    config_filename: str | os.PathLike[str] | Sequence[str] | None = None,
    command_line_options: Sequence[str] = (),
    config_updates: Mapping[str, Any] | None = None,
    extra_greeting: str | None = None,
) -> None:
    """
    Everything before the task: config, log, engine.

    :param config_filename: one or several files, later ones win
    :param command_line_options: further files, then `++option value` and flags, which win over the files
    :param config_updates: options that win over everything
    :param extra_greeting: one more line in the log
    :raises UserError: if files or options make no sense
    """
    global _start_time_s
    _start_time_s = time.monotonic()
    for name in _DATA_SETS:
        globals().pop(name, None)  # those of a config before
    init_better_exchook()
    init_thread_join_hack()
    with said_if_long("to read the config"):
        init_config(config_filename, command_line_options, extra_updates=config_updates)
    maybe_start_train_proc_manager(config=_config())
    with said_if_long("to open the log", limit_s=_config().options.data_wait_limit_s):
        init_log()
    init_faulthandler()
    if extra_greeting:
        print(extra_greeting, file=log.v1)
    returnn_greeting(_config().files, _split_args(command_line_options)[1])
    init_backend_engine()
    if _config().options.task != "check":  # which lists all errors, not only these
        check_options(_config())
    check_environment()
    if _config().options.watch_memory:
        watch_memory(lambda text: print(text, file=log.v2))
    startup_callback = _config().options.startup_callback
    if startup_callback:
        startup_callback(config=_config())


def print_task_properties() -> None:
    """Says in the log which task it is, and what that does."""
    name = _config().options.task
    purpose = f": {TASKS[name].purpose}" if name in TASKS else ""
    print(f"task {name}{purpose}", file=log.v3)


def execute_main_task() -> None:
    """
    Does the task of the config.

    :raises ConfigError: if there is no such task
    """
    run = find_task(_config().options.task, _config())
    print_task_properties()
    run()


def finalize(error_occurred: bool = False) -> None:
    """
    The end of the run, good or bad.

    :param error_occurred: whether it is the bad one
    """
    global quit_returnn
    quit_returnn = True
    how = "with an error" if error_occurred else "well"
    if log.initialized:  # otherwise nothing has begun
        print(f"ends {how}, elapsed {hms(time.monotonic() - _start_time_s)}", file=log.v4)
    log.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """
    :param argv: name of the program, config files, options; `sys.argv` by default
    :return: exit status
    """
    args = list(sys.argv if argv is None else argv)[1:]
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")  # only errors of TensorFlow's own log
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "ERROR")  # of PyTorch's: a worker that is gone is a page of C++ there
    make_tensorflow_import_quick()
    if args[:1] == ["tool"]:
        return int(importlib.import_module(_TOOLS_MODULE).run(args[1:]))
    if args[:1] == ["new"]:
        return int(importlib.import_module(_NEW_MODULE).run(args[1:]))
    if args[:1] == ["view"]:
        return int(importlib.import_module(_VIEW_MODULE).run(args[1:]))
    if any(arg in VERSION_FLAGS for arg in args):
        print(__version__)
        return 0
    try:
        if not args or any(arg in _HELP_FLAGS for arg in args):
            _print_help([arg for arg in args if arg not in _HELP_FLAGS])
            return 0 if args else 1
        _check_command(args[0])
        with EndBySignal():
            _run(args)
    except KeyboardInterrupt as exc:
        with contextlib.suppress(OSError):  # of a closed terminal
            log.print_error(str(exc) or "interrupted")
        return exit_status_of(exc)
    except UserError as exc:
        log.print_error(f"error: {text_with_place(exc)}")
        return 1
    except BrokenPipeError:  # such as `| head`
        raise
    except Exception as exc:  # noqa: BLE001 (whatever it is, it has to get into the log file)
        _print_exception(exc)
        if is_switched_on("DEBUG"):
            _open_shell_at(exc)
        return 1
    return 0


def main_and_exit() -> NoReturn:
    """The program `rnn.py`."""
    threading.excepthook = _warn_of_exception_in_thread
    try:
        status = main()
    except BrokenPipeError:  # such as `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        status = 141
    exit_in_time(status)


def _warn_of_exception_in_thread(args: threading.ExceptHookArgs) -> None:
    """Two lines, once, if it is code of a user."""
    place = None if args.exc_value is None else last_place_of_user(args.exc_value)
    if place is None or args.exc_value is None:
        threading.__excepthook__(args)
    else:
        log.print_warning(f"A thread has ended: {describe_exception(args.exc_value, place=place)}")


def _print_exception(exc: Exception) -> None:
    """Two lines for code of a user, or for what the machine lacks; else, or with verbosity 5, all variables."""
    place = last_place_of_user(exc)
    if place is None and isinstance(exc, _OF_THE_MACHINE):
        place = last_place(exc)
    text = StringIO()
    with contextlib.suppress(*_OF_THE_MACHINE):  # the text may lack the same again
        better_exchook(type(exc), exc, exc.__traceback__, autodebugshell=False, file=text, with_preamble=False)
    if place is None:
        log.print_error(text.getvalue())
    else:
        print(text.getvalue(), file=log.v5)
        log.print_error(f"error: {describe_exception(exc, place=place)}")


def _check_command(name: str) -> None:
    """:raises UserError: if it looks like one of the commands that come in place of a config"""
    nearest = difflib.get_close_matches(name, ("new", "view", "tool"), n=1, cutoff=0.75)
    if nearest and not os.path.exists(name):
        raise UserError(f"there is no command and no config {name!r}.\n  Did you mean 'returnn {nearest[0]}'?")


def _open_shell_at(exc: BaseException) -> None:
    """Opens a shell with the names that there were where the error was raised."""
    frame = list(traceback.walk_tb(exc.__traceback__))[-1][0]
    debug_shell(frame.f_locals, frame.f_globals, exit_afterwards=False)


def _run(args: Sequence[str]) -> None:
    error_occurred = True
    try:
        init(command_line_options=args)
        execute_main_task()
        error_occurred = False
    except SystemExit as exc:
        place = last_place_of_user(exc)
        if place is not None:
            where = f"{place.filename}, line {place.lineno}"
            print(f"the config has ended the run: sys.exit({exc.code!r}) in {where}", file=log.v1)
        error_occurred = bool(exc.code)
        raise
    finally:
        finalize(error_occurred=error_occurred)


def _split_args(args: Sequence[str]) -> tuple[list[str], list[str]]:
    """:return: config files, options"""
    num_files = next((i for i, arg in enumerate(args) if arg.startswith(("-", "++"))), len(args))
    return list(args[:num_files]), list(args[num_files:])


def _check_are_files(names: Sequence[str | os.PathLike[str]]) -> None:
    """:raises ConfigError: for what stands where a config has to be, and is meant as something else"""
    for name in map(str, names):
        option, _, value = name.partition("=")
        meant = f"++task {name}" if name in TASKS else f"++{option} {value}" if value else None
        if meant and not os.path.exists(name):
            raise ConfigError(f"config {name!r}: there is no such file.\n  As an option, it is: {meant}")


def _config() -> Config:
    if config is None:
        raise ConfigError("There is no config yet.\n  returnn.__main__.init_config(FILE) makes it.")
    return config


def _print_help(names: Sequence[str]) -> None:
    """
    :param names: of options, layer classes and so on; of the program itself if there are none
    :raises ConfigError: if there is nothing of that name
    """
    if not names:
        print(_help())
        return
    width = shutil.get_terminal_size((110, 50)).columns
    help_text = importlib.import_module(_HELP_MODULE).help_text
    print("\n\n".join(help_text(name, width=width) for name in names))


def _help() -> str:
    tasks = "\n".join(f"  {task.name:20} {task.purpose}" for task in TASKS.values())
    flags = make_parser().format_help().partition("\n\n")[2].strip()
    return (
        "usage: rnn.py CONFIG [CONFIG ...] [++option value ...]\n"
        "       rnn.py --help NAME  what an option, layer, loss, unit, optimizer, data set, task or tool is for\n"
        "       rnn.py --help WORDS  what there is about them: perplexity, export, 'learning curve'\n"
        "       rnn.py --help LIST  of options, layers, losses, units, optimizers, datasets, vocabularies, axis\n"
        "       rnn.py new NAME     writes a folder with a config that trains at once; new --help lists the kinds\n"
        "       rnn.py view FOLDER  shows runs in the browser: curves, options, pictures, errors\n"
        "       rnn.py tool NAME    makes vocabularies, shows data, scores, exports, ...; without NAME lists them\n\n"
        "Configs are Python files (first line '#!rnn.py', or named .py), JSON, or lines 'key value'.\n"
        "'++option value' sets any option: ++num_epochs 10 ++learning_rates '[0.1, 0.2]' ++task search\n\n"
        f"tasks:\n{tasks}\n"
        "  config:NAME          calls that function of the config\n"
        "  optional-config:NAME the same, but fine if there is none\n\n"
        f"{flags}\n  -V, --version         print the version"
    )


if __name__ == "__main__":
    main_and_exit()
