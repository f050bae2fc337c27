import os
import subprocess
import sys

import pytest

import returnn.__main__ as rnn
from returnn import __version__
from returnn.config import get_global_config, set_global_config
from returnn.log import log
from returnn.util.backend_engine import BackendEngine
from returnn.util.behavior_version import BehaviorVersion
from returnn.util.python import user_code_errors

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


@pytest.fixture(autouse=True)
def no_global_state(monkeypatch):
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    BehaviorVersion.reset()
    yield
    BehaviorVersion.reset()
    set_global_config(None)
    BackendEngine.selected_engine = None
    log.initialize(verbosity=[5])


@pytest.fixture
def config_file(tmp_path):
    def write(text, name="my.config"):
        path = tmp_path / name
        path.write_text("#!rnn.py\n" + text, encoding="utf8")
        return str(path)

    return write


def test_nop(config_file, capsys):
    name = config_file("task = 'nop'\nbehavior_version = 21\n")
    assert rnn.main(["rnn.py", name]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert f"config: {name}\n" in out
    assert "task nop: does nothing after the setup\n" in out
    assert BehaviorVersion.get() == 21
    assert get_global_config() is rnn.config
    assert BackendEngine.is_tensorflow_selected()


def test_options_of_the_command_line_win_and_configs_see_them(config_file):
    first = config_file("task = 'train'\nnum_epochs = 3\n")
    second = config_file("num_epochs = 4\nseen = config.value('task', None)\n", name="second.config")
    assert rnn.main(["rnn.py", first, second, "++task", "nop", "-v", "1"]) == 0
    assert rnn.config.int("num_epochs", 0) == 4
    assert rnn.config.value("seen", "") == "train"  # the first file had set it
    assert rnn.main(["rnn.py", second, "++task", "nop"]) == 0
    assert rnn.config.value("seen", "") == "nop"


def test_functions_of_the_config_are_tasks(config_file, capsys):
    name = config_file("def hello():\n    print('hello', num_epochs)\n")
    assert rnn.main(["rnn.py", name, "++task", "config:hello", "++num_epochs", "3"]) == 0
    assert "hello 3\n" in capsys.readouterr().out
    assert rnn.main(["rnn.py", name, "++task", "optional-config:other"]) == 0
    assert rnn.main(["rnn.py", name, "++task", "config:helo"]) == 1
    assert capsys.readouterr().err == (
        "error: option 'task': the config has no function 'helo'.\n  Did you mean 'hello'?\n"
    )


def test_options_by_code_are_there_while_the_config_runs(config_file):
    name = config_file("scale = 2 * config.float('lm_scale', 0.5)\nnum_epochs = 3\n")
    for by_code, by_command_line in (
        ({"lm_scale": 4.0, "num_epochs": 5}, []),
        ({}, ["++lm_scale", "4.0", "++num_epochs", "5"]),
    ):
        rnn.init_config(name, by_command_line, extra_updates=by_code)
        config = get_global_config()
        assert (config.float("scale", 0.0), config.options.num_epochs) == (8.0, 5)


@pytest.mark.parametrize(
    ("text", "args", "message"),
    [
        ("task = 'npo'", [], "option 'task': there is no task 'npo'.\n  Did you mean 'nop'?"),
        ("task = nop", [], "line 2: NameError: name 'nop' is not defined\n  task = nop"),
        ("task = 'nop'\nlearning_rat = 1", [], "there is no option 'learning_rat'. Did you mean 'learning_rate'?"),
        (
            "task = 'nop'\nlog_verbosity = 'loud'",
            [],
            "option 'log_verbosity': got 'loud', but expected a list of integers.",
        ),
        (
            "task = 'nop'\nlog_format = 'tmed'",
            [],
            "option 'log_format': there is no log format 'tmed'.\n  Did you mean 'timed'?",
        ),
        (
            "task = 'nop'\nlog = 'missing/log'",
            [],
            "option 'log': cannot write the file 'missing/log': No such file or directory.",
        ),
        (
            "task = 'nop'\nbehavior_version = 99",
            [],
            "option 'behavior_version': there is no version 99.\n  Possible: 0 to 30.",
        ),
        ("task = 'nop'\nbackend = 'tensor'", [], "option 'backend': there is no backend 'tensor'."),
        (
            "task = 'nop'\nuse_tensorflow = False",
            [],
            "option 'use_tensorflow': is False, but Theano is not supported any more.",
        ),
        ("", ["++task"], "command line: '++task' has no value."),
        ("", ["--taks", "nop"], "command line: '--taks' is unknown.\n  Did you mean '--task'"),
        (
            "",
            ["--config", "/nowhere/a"],
            "config '/nowhere/a': No such file or directory.\n  There is no folder '/nowhere'.",
        ),
    ],
)
def test_common_mistakes_are_a_few_lines_on_stderr(config_file, capsys, text, args, message):
    assert rnn.main(["rnn.py", config_file(text), *args]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert err.startswith("error: ")
    assert len(err.splitlines()) <= 5


def test_names_of_configs_and_commands_that_are_not_there(config_file, tmp_path, capsys, monkeypatch):
    config_file("task = 'nop'\n")
    (tmp_path / "my.confag").touch()  # nearer, and no config
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.config").touch()
    monkeypatch.chdir(tmp_path)
    for name, message in {
        "eval my.config": "config 'eval': there is no such file.\n  As an option, it is: ++task eval\n",
        "my.config task=eval": "config 'task=eval': there is no such file.\n  As an option, it is: ++task eval\n",
        "my.confg": "config 'my.confg': No such file or directory.\n  Did you mean 'my.config'?\n",
        "folder": "config 'folder': Is a directory.\n  Files in it: 'folder/a.config'.\n",
        "neww": "there is no command and no config 'neww'.\n  Did you mean 'returnn new'?\n",
    }.items():
        assert rnn.main(["rnn.py", *name.split()]) == 1
        assert capsys.readouterr().err == f"error: {message}"


def test_errors_are_in_the_log_file_too(config_file, tmp_path, capsys):
    name = config_file(f"task = 'x'\nlog = {str(tmp_path / 'log')!r}\n")
    assert rnn.main(["rnn.py", name]) == 1
    assert "error: option 'task': there is no task 'x'." in (tmp_path / "log").read_text()
    assert "error: option 'task'" in capsys.readouterr().err


BROKEN = "def broken():\n    secret = 'val' + 'ue'\n    return 1 / 0\n"


def test_errors_of_code_of_a_config_are_two_lines(config_file, capsys):
    name = config_file(BROKEN)
    assert rnn.main(["rnn.py", name, "++task", "config:broken"]) == 1
    assert capsys.readouterr().err == (
        f"error: ZeroDivisionError: division by zero\n"
        f"  In {name}, line 4, broken. With 'log_verbosity = 5', the log has the traceback.\n"
    )


def test_errors_inside_of_the_toolkit_are_said_with_the_line_of_the_config(config_file, capsys):
    name = config_file("from returnn.tensor import TensorDict\n\ndef broken():\n    TensorDict({'a': 3})\n")
    assert rnn.main(["rnn.py", name, "++task", "config:broken"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: TypeError: TensorDict: 'a' should be a tensor")
    assert f"  In {name}, line 5, broken." in error


def test_errors_that_the_toolkit_says_have_the_line_of_the_config(config_file, capsys):
    broken = "import returnn.frontend as rf\nfrom returnn.tensor import Dim, Tensor\n\ndef broken():\n"
    name = config_file(
        f"{broken}    a, b = Dim(3, name='a'), Dim(4, name='b')\n    rf.reduce_sum(Tensor('x', [a]), axis=b)\n"
    )
    assert rnn.main(["rnn.py", name, "++task", "config:broken"]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: reduce_sum: axis: 'x' [a(3)] has no dim b(4).\n")
    assert error.endswith(f"\n  In {name}, line 7, broken.\n")


def test_the_log_has_a_traceback_with_variables(config_file, tmp_path):
    name = config_file(f"{BROKEN}log = {str(tmp_path / 'log')!r}\nlog_verbosity = 5\n")
    assert rnn.main(["rnn.py", name, "++task", "config:broken"]) == 1
    text = (tmp_path / "log").read_text()
    assert "ZeroDivisionError: division by zero" in text
    assert "secret = 'value'" in text


def test_errors_of_our_own_have_a_traceback_with_variables(config_file, monkeypatch, tmp_path, capsys):
    def find_task(name, config):
        secret = "val" + "ue"
        raise RuntimeError(f"broken {len(secret)}")

    monkeypatch.setattr(user_code_errors, "_NOT_OF_USERS", ("/",))
    monkeypatch.setattr(rnn, "find_task", find_task)
    assert rnn.main(["rnn.py", config_file("")]) == 1
    err = capsys.readouterr().err
    assert "RuntimeError: broken 5" in err
    assert "secret = 'value'" in err


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (OSError(24, "Too many open files", "my/file"), "OSError: [Errno 24] Too many open files: 'my/file'"),
        (PermissionError(13, "Permission denied", "x"), "PermissionError: [Errno 13] Permission denied: 'x'"),
        (MemoryError(), "MemoryError: "),
    ],
)
def test_what_the_machine_lacks_is_two_lines(config_file, monkeypatch, capsys, error, text):
    def find_task(name, config):
        raise error

    def exchook(*args, **kwargs):
        raise error  # what shows the traceback needs the same

    monkeypatch.setattr(user_code_errors, "_NOT_OF_USERS", ("/",))
    monkeypatch.setattr(rnn, "find_task", find_task)
    monkeypatch.setattr(rnn, "better_exchook", exchook)
    assert rnn.main(["rnn.py", config_file("")]) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"error: {text}"
    assert second.startswith(f"  In {__file__}, line ")


def test_interrupt(config_file, capsys):
    name = config_file("def stop():\n    raise KeyboardInterrupt\n")
    assert rnn.main(["rnn.py", name, "++task", "config:stop"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


@pytest.mark.parametrize(("code", "how"), [("0", "well"), ("", "well"), ("3", "with an error")])
def test_a_config_that_ends_the_run(config_file, code, how, capsys):
    name = config_file(f"import sys\nlog_verbosity = 4\nsys.exit({code})\n")
    with pytest.raises(SystemExit):
        rnn.main(["rnn.py", name])
    first, second = capsys.readouterr().out.splitlines()
    assert first == f"the config has ended the run: sys.exit({code or None}) in {name}, line 4"
    assert second.startswith(f"ends {how}, elapsed ")


def test_startup_callback(config_file, capsys):
    name = config_file(
        "task = 'nop'\ndef startup_callback(*, config, **_):\n    print('task is', config.value('task', ''))\n"
    )
    assert rnn.main(["rnn.py", name]) == 0
    assert "task is nop\n" in capsys.readouterr().out


def test_version_and_help(capsys):
    assert rnn.main(["rnn.py", "--version"]) == 0
    assert capsys.readouterr().out == f"{__version__}\n"
    assert rnn.main(["rnn.py", "--help"]) == 0
    text = capsys.readouterr().out
    for part in ("++option value", "nop", "--batch_size", "--version", "config:NAME"):
        assert part in text
    assert rnn.main(["rnn.py"]) == 1


def test_library_use(config_file):
    rnn.init(config_updates={"task": "nop", "log_verbosity": 1}, extra_greeting="hello")
    rnn.execute_main_task()
    rnn.finalize()
    assert rnn.quit_returnn


DATA = "{'class': 'Task12AXDataset', 'num_seqs': 3}"


def test_data_and_engine_for_tools(config_file, monkeypatch):
    for name in ("train_data", "dev_data", "eval_data", "engine"):
        monkeypatch.setattr(rnn, name, None)
    text = f"train = dev = {DATA}\ncache_size = ['1K', '2K']\nlog_verbosity = 1\nmodel = 'net'\n"
    rnn.init(config_file(text))
    assert rnn.need_data()
    assert rnn.get_cache_byte_sizes() == [1024, 2048, 0]
    rnn.init_data()
    assert (rnn.train_data.name, rnn.dev_data.seq_ordering, rnn.eval_data) == ("train", "sorted", None)
    assert rnn.load_data(rnn.config, 10, "eval") == (None, 10)
    dataset, left = rnn.load_data(rnn.config, 10, "train", name="mine")
    assert (dataset.name, left) == ("mine", 0)
    rnn.init_engine()
    assert rnn.engine.config is rnn.config
    assert rnn.engine.get_epoch_model_filename(3) == "net.003"


def test_data_that_is_not_needed(config_file, monkeypatch):
    monkeypatch.setattr(rnn, "train_data", None)
    rnn.init(config_file(f"train = {DATA}\nneed_data = False\nlog_verbosity = 1\n"))
    rnn.init_data()
    assert rnn.train_data is None


def test_dummy_data(config_file):
    text = "train = {'class': 'HDFDataset', 'files': ['missing']}\nextern_data = {'data': {'dim': 3}}\n"
    rnn.init(config_file(f"{text}log_verbosity = 1\ndummy_dataset_num_seqs = 2\n"))
    rnn.setup_dummy_datasets()
    dataset, _ = rnn.load_data(rnn.config, 0, "train")
    dataset.init_seq_order(epoch=1)
    assert dataset.is_less_than_num_seqs(1)
    assert not dataset.is_less_than_num_seqs(2)


def test_script(config_file, tmp_path):
    name = config_file("task = 'nop'\n")
    result = subprocess.run(
        [sys.executable, os.path.join(ROOT, "rnn.py"), name, "++task", "np"],
        cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert result.returncode == 1
    assert result.stderr == "error: option 'task': there is no task 'np'.\n  Did you mean 'nop'?\n"


def test_script_where_nothing_was_installed():
    code = "import runpy, sys; sys.modules['rich'] = None; runpy.run_path('rnn.py', run_name='__main__')"
    result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith("error: the package 'rich")
    assert result.stderr.endswith('pip install -e ".[cpu]", or activate the environment that has it.\n')
    assert result.stderr.count("\n") == 2


def test_description_is_in_the_log(tmp_path, capsys):
    (tmp_path / "my.config").write_text("#!rnn.py\ntask = 'nop'\n")
    assert rnn.main(["rnn.py", str(tmp_path / "my.config"), "-d", "a first try", "++log_verbosity", "5"]) == 0
    assert "experiment: a first try\n" in capsys.readouterr().out
