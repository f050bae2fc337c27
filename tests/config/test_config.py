import io
import pickle
import sys

import pytest

from returnn.config import (
    Config,
    SubProcCopyGlobalConfigPreInitFunc,
    get_global_config,
    global_config_ctx,
    network_json_from_config,
    set_global_config,
    tf_should_use_gpu,
)
from returnn.util.errors import ConfigError, UserError

OLD_CONFIG = """#!crnn/rnn.py
# kate: syntax python;

import os
import numpy
from subprocess import check_output

my_dir = os.path.dirname(os.path.abspath(__file__))
task = config.value("task", "train")
debug_mode = config.bool("debug", False)
use_tensorflow = True

if int(os.environ.get("DEBUG_OF_NOBODY", "0")):
    print("** debug **")

num_layers = 3
network = {"fw%i" % i: {"class": "linear", "n_out": 10} for i in range(num_layers)}
batch_size = {"classes": 5000, "data": 900000}
learning_rates = list(numpy.linspace(0.0003, 0.001, num=3))
chunking = "60:30"


def get_network(epoch):
    return {name: layer for name, layer in network.items() if epoch > 1}


def summary(name):
    return "%s-%s" % (name, batch_size)


class MyHelper:
    value = num_layers
"""


def test_old_config_runs_unchanged(load, tmp_path):
    config = load(OLD_CONFIG)
    assert config.typed_dict["my_dir"] == str(tmp_path)
    assert config.value("task", None) == "train"
    assert config.bool("use_tensorflow", False)
    assert config.typed_value("batch_size") == {"classes": 5000, "data": 900000}
    assert config.float_list("learning_rates")[0] == pytest.approx(0.0003)
    assert config.value("chunking", "0") == "60:30"
    assert sorted(config.typed_value("get_network")(2)) == ["fw0", "fw1", "fw2"]
    assert network_json_from_config(config)["fw0"]["class"] == "linear"
    assert config.files == [str(tmp_path / "my.config")]


def test_functions_of_a_config_see_later_changes(load):
    config = load(OLD_CONFIG)
    config.set("batch_size", 3)
    assert config.typed_dict["summary"]("x") == "x-3"


def test_later_files_win_and_see_the_earlier_ones(load):
    config = load("#!rnn.py\nnum_epochs = 5\nmodel = 'a'\n")
    load("#!rnn.py\nnum_epochs = num_epochs + 1\n", name="second.config", config=config)
    assert config.int("num_epochs", 0) == 6
    assert config.value("model", "") == "a"
    assert len(config.files) == 2


def test_config_is_the_global_one_while_it_is_loaded(load):
    config = load("#!rnn.py\nfrom returnn.config import get_global_config\nsame = get_global_config() is config\n")
    assert config.typed_dict["same"]
    assert get_global_config(raise_exception=False) is None


def test_python_config_by_its_name(load):
    assert load("a = 1 + 1\n", name="my.py").int("a", 0) == 2


def test_open_file():
    config = Config()
    config.load_file(io.StringIO("#!rnn.py\na = [1, 2]\n"))
    assert config.int_list("a") == [1, 2]


def test_json_config(load):
    config = load(
        '{\n  // a comment\n  "num_epochs": 3, "url": "http://x", "network": {"output": {"class": "softmax"}}\n}'
    )
    assert config.int("num_epochs", 0) == 3
    assert config.value("url", "") == "http://x"
    assert network_json_from_config(config) == {"output": {"class": "softmax"}}
    assert config.network_topology_json == '{"output": {"class": "softmax"}}'


def test_network_in_a_key_value_config(load):
    config = load('num_epochs 3\nnetwork {"output": {"class": "softmax", "from": ["a", "b"]}, "a": {}}\n')
    assert network_json_from_config(config) == {"output": {"class": "softmax", "from": ["a", "b"]}, "a": {}}


def test_network_that_is_no_json(load):
    with pytest.raises(ConfigError, match=r"option 'network': JSON, line 1.*\n  Write it as JSON on one line"):
        network_json_from_config(load("num_epochs 3\nnetwork {'output': 3}\n"))


def test_key_value_config(load, tmp_path):
    (tmp_path / "more.config").write_text("num_epochs 7\n", encoding="utf8")
    config = load(f"# comment\n\ntask train\nhidden_size 10,20\ninclude {tmp_path}/more.config\n")
    assert config.value("task", "") == "train"
    assert config.int_list("hidden_size") == [10, 20]
    assert config.int("num_epochs", 0) == 7


def test_file_types(tmp_path):
    for name, content, type_ in [("a.py", "", "py"), ("a", "#!rnn.py", "py"), ("b", " {}", "js"), ("c", "a 1", "txt")]:
        (tmp_path / name).write_text(content, encoding="utf8")
        assert Config.get_config_file_type(tmp_path / name) == type_


def test_command_line_values_are_typed(load):
    config = load("#!rnn.py\nnum_epochs = 5\nname = '1'\nflag = True\n")
    args = "++num_epochs 7 ++name 2 ++flag false ++rates [1,2] ++opts {'a':None} ++task search ++device a,b ++x -1"
    config.parse_cmd_args(args.split())
    assert config.typed_dict["num_epochs"] == 7
    assert config.typed_dict["name"] == "2"  # it was text before
    assert config.typed_dict["flag"] is False
    assert config.typed_dict["rates"] == [1, 2]
    assert config.typed_dict["opts"] == {"a": None}
    assert config.value("task", "") == "search"
    assert config.list("device") == ["a", "b"]
    assert config.int("x", 0) == -1


def test_command_line_replaces_text(load):
    config = load("num_epochs 5\nname 5\n")
    config.parse_cmd_args(["++num_epochs", "6"])
    assert config.int("num_epochs", 0) == 6


def test_flags(load, tmp_path):
    (tmp_path / "more.config").write_text("#!rnn.py\nextra = 1\n", encoding="utf8")
    config = load("#!rnn.py\ntask = 'train'\n")
    args = ["-x", "search", "--batch_size", "100", "-v", "5", "--config", str(tmp_path / "more.config"), "++a", "b"]
    config.parse_cmd_args(args)
    assert config.value("task", "") == "search"
    assert config.int("batch_size", 0) == 100
    assert config.int_list("log_verbosity") == [5]
    assert config.int("extra", 0) == 1
    assert config.command_line_options == {"task", "batch_size", "log_verbosity", "load_config", "a"}


def test_no_text_on_the_command_line(load):
    config = load("learning_rate_file rates\n")
    config.parse_cmd_args(["++learning_rate_file", "None"])
    assert config.typed_dict["learning_rate_file"] is None


def test_commas_of_an_expression_on_the_command_line():
    config = Config()
    config.parse_cmd_args(["++search_data", "config:data('dev', order='sorted')", "++device", "cpu,gpu"])
    assert config.typed_dict["search_data"] == "config:data('dev', order='sorted')"
    assert config.typed_dict["device"] == ["cpu", "gpu"]


def test_json_on_the_command_line():
    config = Config()
    config.parse_cmd_args(
        ["++extern_data", '{"data": {"dim": 2, "sparse": true}, "other": null}', "++a", "x,y", "++b", "{x}"]
    )
    assert config.typed_dict["extern_data"] == {"data": {"dim": 2, "sparse": True}, "other": None}
    assert (config.typed_dict["a"], config.typed_dict["b"]) == (["x", "y"], "{x}")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["++a"], "command line: '++a' has no value.\n  Options are set with '++option value'."),
        (["--tsk", "x"], "command line: '--tsk' is unknown.\n  Did you mean '--task'?"),
        (["word"], "command line: 'word' is unknown.\n  Options are set with '++option value'."),
        ([__file__], f"command line: {__file__!r} is unknown.\n  Config files come first: {__file__} ++option value."),
        (["--task"], "command line: argument -x/--task: expected one argument."),
        (
            ["++a", "{'b': 1, 'c}"],
            "command line: cannot read the value \"{'b': 1, 'c}\".\n  It is neither Python nor JSON (",
        ),
        (["++a", "[0.1, 0.2"], "command line: cannot read the value '[0.1, 0.2'.\n"),
    ],
)
def test_wrong_command_lines(args, message):
    with pytest.raises(UserError) as info:
        Config().parse_cmd_args(args)
    assert str(info.value).startswith(message)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "#!rnn.py\na = 1\nb = a + undefined\n",
            "line 3: NameError: name 'undefined' is not defined\n  b = a + undefined",
        ),
        ("#!rnn.py\na = (1\n", "line 2: '(' was never closed\n  a = (1"),
        ("#!rnn.py\nimport numpy\nnumpy.zeros('a')\n", "line 3: TypeError: "),
        ("{\n  'a': 1\n}", "JSON, line 2, column 3: Expecting property name enclosed in double quotes."),
        ("task\n", "line 1: option 'task' has no value."),
        (
            "task nop\nbehavior_version = 30\n",
            "line 2: 'behavior_version = 30' is Python, but the file is read",
        ),
        (
            "import os\n",
            "line 1: 'import os' is Python, but the file is read as lines 'key value'.\n  A",
        ),
        ("# a\nnum_epochs=3\n", "line 2: 'num_epochs=3' is Python, but"),
        ("num_epochs 3\ntry:\n  import os\n", "line 2: 'try:' is Python, but"),
        ("def f(x):\n  return x\n", "begins with '#!rnn.py' in its first line, or its name ends with '.py'."),
    ],
)
def test_broken_config_names_its_line(load, tmp_path, text, message):
    with pytest.raises(ConfigError) as info:
        load(text)
    assert str(info.value).startswith(f"config '{tmp_path}/my.config'")
    assert message in str(info.value)
    assert len(str(info.value).splitlines()) <= 3


def test_words_of_a_text_are_no_python(load):
    config = load("for a long time\nin it\nis was\nnot good\nwith you\n")
    assert config.option_names() == ["for", "in", "is", "not", "with"]


def test_errors_of_modules_below_say_where_they_are_raised(load, tmp_path):
    with pytest.raises(
        ConfigError, match=r"line 2: JSONDecodeError.*\n.*json.loads.*\n  raised in .*decoder\.py, line"
    ):
        load("#!rnn.py\nimport json; json.loads('x')\n")


def test_missing_file_and_wrong_encoding(tmp_path):
    with pytest.raises(ConfigError, match=r"config 'nowhere\.config': No such file or directory\."):
        Config().load_file("nowhere.config")
    (tmp_path / "latin1").write_bytes(b"#!rnn.py\nname = '\xe4'\n")
    with pytest.raises(ConfigError, match=r"latin1': is not UTF-8, see byte 17\."):
        Config().load_file(tmp_path / "latin1")


def test_a_checkpoint_is_no_config(tmp_path):
    (tmp_path / "net.001.index").write_bytes(b"\0\xff")
    for name in ("net.001.index", "net.001"):
        with pytest.raises(ConfigError, match=r"net\.001.*': is a checkpoint\.\n  The config that it was"):
            Config().load_file(str(tmp_path / name))
    (tmp_path / "data").write_bytes(b"PK\x03\x04\xff")
    with pytest.raises(ConfigError, match="data': is a zip archive"):
        Config().load_file(str(tmp_path / "data"))


def test_no_network():
    with pytest.raises(ConfigError, match=r"option 'network': a dict of layers is needed, but it is not set\."):
        network_json_from_config(Config())
    with pytest.raises(ConfigError, match=r"but it is str\."):
        network_json_from_config(Config({"network": "lstm"}))


def test_pickle_keeps_everything_that_a_config_defines(load):
    config = load(OLD_CONFIG)
    config.set("extra", {"a": 1})
    config.parse_cmd_args(["++num_layers", "5"])
    del config.typed_dict["chunking"]
    other = pickle.loads(pickle.dumps(config))
    assert other.typed_dict["extra"] == {"a": 1}
    assert other.int("num_layers", 0) == 5
    assert "chunking" not in other.typed_dict
    assert sorted(other.typed_dict["get_network"](2)) == ["fw0", "fw1", "fw2"]
    assert other.typed_dict["MyHelper"].value == 3
    assert other.files == config.files
    assert other.typed_dict["config"] is other


def test_pickle_of_what_was_set_before_the_files(load):
    config = load("#!rnn.py\nscale = config.float('lm_scale', 0.5) * 2\n", config=Config({"lm_scale": 3, "name": "a"}))
    config.set("name", "b")
    other = pickle.loads(pickle.dumps(config))
    assert (other.float("lm_scale", 0.0), other.float("scale", 0.0), other.value("name", "")) == (3.0, 6.0, "b")


def test_pickle_of_text_and_json(load):
    config = load("num_epochs 5\n")
    load('{"a": 1}', name="my.json", config=config)
    other = pickle.loads(pickle.dumps(config))
    assert other.int("num_epochs", 0) == 5
    assert other.int("a", 0) == 1
    assert other.dict == config.dict


def test_what_cannot_be_sent_to_another_process_is_named():
    with pytest.raises(ConfigError, match=r"option 'func': <function .* cannot be sent to another process"):
        pickle.dumps(Config({"func": lambda: 0}))


def test_functions_of_the_global_config_can_be_pickled(load):
    config = load(OLD_CONFIG)
    set_global_config(config)
    func = config.typed_dict["get_network"]
    assert pickle.loads(pickle.dumps(func)) is func
    assert pickle.loads(pickle.dumps(config.typed_dict["MyHelper"])) is config.typed_dict["MyHelper"]


def test_global_config():
    config, other = Config(), Config()
    with pytest.raises(ConfigError, match=r"There is no global config\."):
        get_global_config()
    assert get_global_config(raise_exception=False) is None
    assert get_global_config(return_empty_if_none=True).option_names() == []
    set_global_config(config)
    assert get_global_config() is config
    with global_config_ctx(other):
        assert get_global_config() is other
    assert get_global_config() is config
    set_global_config(None)
    created = get_global_config(auto_create=True)
    assert get_global_config() is created


def test_global_config_in_a_new_process():
    set_global_config(Config({"a": 1}))
    init = pickle.loads(pickle.dumps(SubProcCopyGlobalConfigPreInitFunc()))
    set_global_config(None)
    init()
    assert get_global_config().int("a", 0) == 1


def test_device(monkeypatch):
    monkeypatch.setattr("returnn.config.device.have_gpu", lambda: False)
    assert not tf_should_use_gpu(Config())
    assert not tf_should_use_gpu(Config({"device": "cpu"}))
    with pytest.raises(ConfigError, match=r"option 'device': 'gpu' is asked for, but there is no GPU\."):
        tf_should_use_gpu(Config({"device": "gpu"}))
    monkeypatch.setattr("returnn.config.device.have_gpu", lambda: True)
    assert tf_should_use_gpu(Config({"device": "gpu0"}))
    assert tf_should_use_gpu(Config({"device": None}))
    with pytest.raises(ConfigError, match=r"option 'device': TensorFlow has no 'gpuu'"):
        tf_should_use_gpu(Config({"device": "gpuu"}))


def test_config_namespace_is_not_an_option(load):
    config = load("#!rnn.py\na = 1\n")
    assert config.option_names() == ["a"]
    assert "__returnn_config__" in sys.modules


def test_text_can_become_a_dict_or_a_list():
    """As the name of a data set, in place of which one says its options."""
    config = Config()
    config.update({"search_data": "dev", "log": "stdout", "name": "x", "number": "y"})
    config.parse_cmd_args(
        ["++search_data", "{'class': 'A', 'n': 1}", "++log", "['a', 'b']", "++name", "{epoch}", "++number", "1"]
    )
    found = config.typed_dict
    assert found["search_data"] == {"class": "A", "n": 1}
    assert found["log"] == ["a", "b"]
    assert (found["name"], found["number"]) == ("{epoch}", "1")
