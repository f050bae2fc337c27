import dataclasses
import io
import re
import sys
from pathlib import Path

import numpy
import pytest

import returnn
from returnn.config import Config
from returnn.config.option_check import (
    check_is_config,
    check_options,
    helper_errors,
    inspect_options,
    unread_text,
    warnings_about,
)
from returnn.config.options import OPTIONS
from returnn.config.other_names import OTHER_NAMES
from returnn.config.unsupported_options import ADDS_TO, KNOWN_OPTIONS, NEEDLESS, OLD_NETWORK, UNSUPPORTED
from returnn.log import wrap_log_streams
from returnn.util.errors import ConfigError
from returnn.util.system.warn_once import forget_shown


def test_misspelt_options_are_errors(load, tmp_path):
    config = load("#!rnn.py\nlearning_rat = 0.1\nbatch_sizee = 5\nmodel = 'a'\n")
    with pytest.raises(ConfigError) as info:
        check_options(config)
    assert str(info.value) == (
        f"config '{tmp_path}/my.config': there is no option 'batch_sizee'. Did you mean 'batch_size'?\n"
        "  there is no option 'learning_rat'. Did you mean 'learning_rate'?\n"
        "  allow_unknown_options = True turns this check off."
    )


def test_many_misspelt_options_are_at_most_five_lines():
    config = Config(
        {name + "x": 1 for name in ("learning_rate", "batch_size", "num_epochs", "max_seqs", "gradient_clip")}
    )
    with pytest.raises(ConfigError) as info:
        check_options(config)
    assert len(str(info.value).splitlines()) <= 5
    assert "And 2 more." in str(info.value)


def test_misspelt_option_of_the_command_line():
    config = Config()
    config.parse_cmd_args(["++learning_rat", "1"])
    with pytest.raises(ConfigError, match="there is no option 'learning_rat'"):
        check_options(config)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("lr", "learning_rate"),
        ("seed", "random_seed"),
        ("gpu", "device"),
        ("tsk", "task"),
        ("bach_sz", "batch_size"),
        ("traindata", None),
    ],
)
def test_what_is_less_like_an_option_is_an_error_on_the_command_line_alone(name, known):
    """There, it changes nothing: with `++tsk check`, a training would begin. Configs carry names of old versions."""
    config = Config()
    config.parse_cmd_args([f"++{name}", "check"])
    assert inspect_options(config).misspelt.get(name) == known
    assert inspect_options(Config({name: "check"})).misspelt == {}


def test_names_of_other_toolkits():
    assert set(OTHER_NAMES.values()) <= KNOWN_OPTIONS
    assert not set(OTHER_NAMES) & KNOWN_OPTIONS
    assert inspect_options(Config({"epochs": 5})).misspelt == {"epochs": "num_epochs"}  # not 'epoch', which is near
    assert unread_text(["lr", "valid"]).endswith(": lr (is it 'learning_rate'?), valid (is it 'dev'?)")


def test_part_of_an_option_on_the_command_line_is_an_error():
    config = Config({"network": {"output": {"class": "copy"}}})
    config.parse_cmd_args(["++network.output.n_out", "5", "++own.name", "1"])
    with pytest.raises(
        ConfigError, match=r"'\+\+network.output.n_out': '\+\+' sets whole options, not a part of 'network'"
    ):
        check_options(config)


def test_allow_unknown_options_only_warns():
    warning = _warning(Config({"learning_rat": 0.1, "allow_unknown_options": True}))
    assert warning == f"WARNING: {unread_text(['learning_rat'])}\n"


def test_other_unread_options_are_one_warning_line():
    assert _warning(Config({"bidirectional": True, "entropy": 3, "task": "train"})) == (
        "WARNING: options that nobody reads, neither the toolkit nor the config itself: bidirectional, entropy\n"
    )


def test_older_forms_of_data_beside_the_newer_one_are_warned_of(load):
    new = {"extern_data": {"data": {"dim": 3}}}
    end = "no effect, as 'extern_data' says which data there is.\n"
    assert _warning(Config({**new, "num_outputs": 2})) == f"WARNING: 'num_outputs' has {end}"
    assert _warning(Config({**new, "num_outputs": 2, "num_inputs": 3})) == (
        f"WARNING: 'num_inputs' and 'num_outputs' have {end}"
    )
    assert _warning(Config({"num_outputs": 2, "num_inputs": 3})) == ""
    used = load("#!rnn.py\nnum_outputs = {'data': (3, 2)}\nextern_data = {'data': {'dim': num_outputs['data'][0]}}\n")
    assert _warning(used) == ""


@pytest.mark.parametrize("name", sorted(KNOWN_OPTIONS.difference(OLD_NETWORK)))
def test_known_options_are_fine_and_each_typo_at_the_end_is_found(name):
    assert inspect_options(Config({name: 1})).misspelt == {}
    if len(name) > 4 and name[:-1] not in KNOWN_OPTIONS:
        assert list(inspect_options(Config({name[:-1]: 1})).misspelt) == [name[:-1]]


@pytest.mark.parametrize("name", sorted(name for name in KNOWN_OPTIONS.difference(OLD_NETWORK) if len(name) >= 4))
def test_other_capitals_and_swapped_letters_are_found(name):
    i = next((i for i in range(len(name) - 1) if name[i] != name[i + 1]), 0)
    swapped = name[:i] + name[i + 1] + name[i] + name[i + 2 :]
    for typo in (name.title(), name.upper(), swapped):
        if typo not in KNOWN_OPTIONS:
            assert list(inspect_options(Config({typo: 1})).misspelt) == [typo]


def test_classes_of_a_config_are_no_misspelt_options(load):
    assert inspect_options(load("#!rnn.py\nclass Model:\n    pass\n")).misspelt == {}


def test_helper_values_of_a_config_are_fine(load):
    config = load(
        "#!rnn.py\n"
        "import os, numpy as nump\n"
        "from os.path import join as joi\n"
        "batch_sizes = 5000\n"
        "batch_size = batch_sizes\n"
        "targets = 'x'  # read in the eval string\n"
        "train2 = dev_2 = {}\n"
        "_networ = 3\n"
        "network = {'x': {'class': 'eval', 'eval': 'self.network.get_config().typed_value(\"targets\") + source(0)'}}\n"
        "def helper(): return [0 for i in range(3)]\n"
        "class Other: pass\n"
    )
    report = inspect_options(config)
    assert report.misspelt == {}
    assert report.unread == ["dev_2", "train2"]


@pytest.mark.parametrize(
    ("code", "named"),
    [
        ("def load(**_): pass\npreload_from_files = {'x': {'custom_missing_load_func': load}}\n", ["load"]),
        ("def window(x): return x\ndata = window(3)\n", ["window"]),
        ("from math import ceil as save_interval\ndata = save_interval(3.5)\n", ["save_interval"]),
        ("def statistics(x): return x\ndata = statistics(3)\n", []),  # of a task that may never be run
        ("def torch_amp(x): return x\ndata = torch_amp(3)\n", []),  # of another backend
        ("def dynamic_learning_rate(**_): return 1.0\ndata = dynamic_learning_rate()\n", []),
        ("window = {'size': 3}\ndata = window\n", []),
    ],
)
def test_a_helper_function_with_the_name_of_an_option_is_an_error_of_a_check(code, named, load):
    config = load(f"#!rnn.py\n{code}")
    assert inspect_options(config).wrong == []
    errors = helper_errors(config)
    assert [error.split("'")[1] for error in errors] == named
    assert all(error.endswith("\n  If it is for the config alone, give it another name.") for error in errors)


def test_helper_values_of_a_module_that_the_config_takes_all_names_of(load, tmp_path, monkeypatch):
    (tmp_path / "base_of_all.py").write_text(
        "from base_of_all import *\nimport os\ndata_dir = '/data'\nhidden_size, dropouts = 5, 0.1\nnobody = 3\n"
        "learning_rat = 0.1\nfiles = [f'{data_dir}/a']\ntrain = {'files': files}\ndef size(): return hidden_size\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    report = inspect_options(load("#!rnn.py\nfrom base_of_all import *\nfrom math import *\nmodel = 'x'\n"))
    monkeypatch.delitem(sys.modules, "base_of_all")
    assert report.unread == ["dropouts", "nobody"]
    assert report.misspelt == {"learning_rat": "learning_rate"}


def test_misspelt_functions_are_found(load):
    config = load("#!rnn.py\ndef get_netwrk(epoch): return {}\n")
    assert inspect_options(config).misspelt == {"get_netwrk": "get_network"}


def test_options_that_were_read_by_code_are_fine():
    config = Config({"learning_rat": 1})
    config.float("learning_rat", 0.0)
    assert inspect_options(config).misspelt == {}


@pytest.fixture(scope="module")
def names_in_the_code():
    """Everything that is read as an option, or stands in quotes, somewhere in the package outside of the tables."""
    root = Path(returnn.__file__).parent
    tables = root / "config" / "options"
    files = [file for file in root.rglob("*.py") if file.parent != tables and file.name != "unsupported_options.py"]
    texts = [file.read_text(encoding="utf8") for file in files]
    return {name for text in texts for name in re.findall(r"(?:[\"']|options\.)(\w+)", text)}


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_declared_option_is_read(name, names_in_the_code):
    falls_back = {option.falls_back_to for option in OPTIONS.values()}
    is_of_operation = name.startswith("rf_use_mask_")  # the name of the operation follows
    assert name in names_in_the_code or name in falls_back or is_of_operation


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_option_has_a_sentence_and_a_default_of_its_kind(name):
    option = OPTIONS[name]
    assert option.name == name
    assert option.purpose[0].isupper() or option.purpose[0] in "`'"
    assert option.purpose.endswith(".")
    if option.default not in (None, ()):
        assert option.convert(option.default) == (
            list(option.default) if isinstance(option.default, tuple) else option.default
        )


def test_lists_of_options_are_apart():
    lists = [set(OPTIONS), set(UNSUPPORTED), set(NEEDLESS), set(OLD_NETWORK)]
    assert sum(map(len, lists)) == len(set().union(*lists))
    assert set(ADDS_TO) <= set(UNSUPPORTED)
    assert set(ADDS_TO.values()) <= KNOWN_OPTIONS


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_unsupported_options_say_what_to_use_instead(name):
    others = {ADDS_TO[name]: 1} if name in ADDS_TO else {}
    assert name in inspect_options(Config({name: 5, **others})).unsupported
    with pytest.raises(ConfigError, match=f"option '{name}' is not supported: [^.]+.*\\.\n") as info:
        check_options(Config({name: 5, **others}))
    assert len(str(info.value).splitlines()) <= 5


def test_several_unsupported_options():
    with pytest.raises(ConfigError) as info:
        check_options(Config({"share_batches": True, "update_batch_size": 5, "tf_amp": False}))
    assert str(info.value) == (
        "option 'share_batches' is not supported: a training runs on one device.\n"
        "  option 'update_batch_size' is not supported: updates come after each batch; 'accum_grad_multiple_step' lets "
        "them wait.\n"
        "  The run would not be what the config asks for; leave it out."
    )


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
@pytest.mark.parametrize("value", [False, None, 0, "", "0", {}, []], ids=repr)
def test_unsupported_options_that_ask_for_nothing_are_fine(name, value):
    assert inspect_options(Config({name: value})).unsupported == []


@pytest.mark.parametrize("name", sorted(ADDS_TO))
def test_options_about_another_one_that_is_not_set_are_fine(name):
    check_options(Config({name: 0.5}))


def test_needless_options_are_fine():
    assert _warning(Config(dict.fromkeys(NEEDLESS, 1))) == ""


def test_options_of_old_networks_are_names_like_others_but_no_flags(load):
    config = load("#!rnn.py\ndropout = {'x': 1}\nnetwork = {'x': {'class': 'copy', 'dropout': dropout}}\n")
    check_options(config)
    assert _warning(Config({"hidden_size": [10], "mine": 3})) == f"WARNING: {unread_text(['hidden_size', 'mine'])}\n"
    config.parse_cmd_args(["--hidden_sizes", "10"])
    with pytest.raises(ConfigError) as info:
        check_options(config)
    assert str(info.value).startswith(
        "option 'hidden_sizes' is not supported: networks are a dict of layers, the option 'network'.\n"
    )


@pytest.mark.parametrize("name", sorted(set(OLD_NETWORK) - {"load_config"}))
def test_flags_of_old_networks_say_what_to_use_instead(name):
    config = Config()
    config.parse_cmd_args([f"++{name}", "5"])
    with pytest.raises(ConfigError, match=f"^option '{name}' is not supported: {OLD_NETWORK[name]}\\.\n"):
        check_options(config)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"learning_rate": "x"},
            "option 'learning_rate': got 'x', but expected a number of at least 0.\n"
            "  The learning rate, where nothing else decides. Default: 1.0.",
        ),
        (
            {"num_epochs": -3},
            "option 'num_epochs': got -3, but expected an integer from 0.\n  The last epoch. Default: 5.",
        ),
        (
            {"num_epochs": [1, 2]},
            "option 'num_epochs': got [1, 2], but expected an integer from 0.\n  The last epoch. Default: 5.",
        ),
        (
            {"max_seqs": True},
            "option 'max_seqs': got True, but expected a number from 0 (-1: no limit), or a dict: data key -> number.\n"
            "  At most so many sequences in a batch.",
        ),
        (
            {"on_size_limit": "chunks"},
            "option 'on_size_limit': got 'chunks', but expected one of 'ignore', 'chunk'.\n  Did you mean 'chunk'?",
        ),
        (
            {"train": 3.5},
            "option 'train': got 3.5, but expected a dict with the options of a data set, or a function that gives it."
            "\n  The data set to train on.",
        ),
        (
            {"log_batch_size": "sometimes", "adam": "yes?"},
            "option 'adam': got 'yes?', but expected True or False.\n  The older form of `optimizer`. Default: False.\n"
            "  1 more options have wrong values.",
        ),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_wrong_values(options, message):
    with pytest.raises(ConfigError) as info:
        check_options(Config(options))
    assert str(info.value) == message


def test_values_in_all_forms_are_fine():
    check_options(
        Config(
            {
                "batch_size": {"data": 5000},
                "max_seqs": "20",
                "learning_rate": numpy.float32(0.1),
                "learning_rates": numpy.linspace(0.1, 0.2, 3),
                "num_epochs": 5.0,
                "gradient_clip": False,
                "adam": 1,
                "model": Path("net/model"),
                "train": lambda: {},
                "dev": False,
                "eval": None,
                "start_epoch": "auto",
                "start_batch": 0,
                "chunking": (10, 5),
                "window": numpy.int64(3),
                "cache_size": "0",
                "device": ("cpu",),
                "log_verbosity": 5,
                "pretrain": "default",
                "learning_rate_decay": lambda rate: rate / 2,
                "network": {},
                "extern_data": {},
                "max_seq_length": float("inf"),
            }
        )
    )


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_none_is_fine_for_each_option(name):
    check_options(Config({name: None}))


def test_wrong_values_of_names_that_the_config_uses_itself_are_not_errors_yet(load):
    config = load("#!rnn.py\nfrom os import path as log\nwindow = [1, 2]\nmine = [w + 1 for w in window]\n")
    check_options(config)
    with pytest.raises(ConfigError, match=r"option 'window': got \[1, 2\]"):
        _ = config.options.window


def test_hyper_params_may_stand_for_values():
    check_options(Config({"task": "hyper_param_tuning", "learning_rate": object()}))


def _warning(config):
    forget_shown()
    stream = io.StringIO()
    with wrap_log_streams(stream):
        check_options(config)
    return stream.getvalue()


@pytest.mark.parametrize(("text", "is_config"), [
    ("for a long time\nthe cat sat\n", False), ("for a\nnum_epochs 5\n", True), ("for a\nnum_epoch 5\n", True),
    ("#!rnn.py\nx = 1\n", True), ("", True),
])  # fmt: skip
def test_text_without_options_is_no_config(tmp_path, text, is_config):
    path = tmp_path / "file"
    path.write_text(text)
    config = Config()
    config.load_file(path)
    if is_config:
        check_is_config(config)
        return
    with pytest.raises(ConfigError, match=r"file': none of its lines begins with an option, .*\n  Is it a text\?"):
        check_is_config(config)


def test_options_of_layers_on_the_command_line_are_a_warning(tmp_path):
    (tmp_path / "my.config").write_text(
        "#!rnn.py\n"
        "network = {'output': {'class': 'choice', 'beam_size': 4, 'n_out': config.int('n_out', 3)}}\n"
        "size = 2\n"
        "sizes = {'size': size, 'other_size': 3}\n"
        "def later():\n"
        "    return {'kind': config.value('kind', None)}\n"
    )
    for name, is_warned in (("beam_size", 1), ("other_size", 1), ("n_out", 0), ("size", 0), ("kind", 0)):
        config = Config()
        config.load_file(str(tmp_path / "my.config"))
        config.parse_cmd_args([f"++{name}", "2"])
        report = inspect_options(config)
        assert (report.keys, report.unread) == ([name] * is_warned, ["sizes"])
        report = dataclasses.replace(report, keys=["beam_size"], unread=[])
    (text,) = warnings_about(report, None)
    assert text.startswith("'++beam_size' has no effect: '++' sets whole options of the config, and 'beam_size' is in")


def test_names_of_a_config_that_is_executed_are_used_there(load, tmp_path):
    (tmp_path / "base.config").write_text("size = 3\nextern_data = {'data': size}\n")
    config = load(
        f"#!rnn.py\nfrom pathlib import Path\nexec(Path({str(tmp_path / 'base.config')!r}).read_text())\nown = 3\n"
    )
    assert inspect_options(config).unread == ["own"]


@pytest.mark.parametrize(
    "way",
    ["from pathlib import Path\nexec(Path({!r}).read_text())", "import runpy\nglobals().update(runpy.run_path({!r}))"],
)
def test_options_that_an_executed_config_asks_for_later(load, tmp_path, way):
    base = tmp_path / "base.config"
    base.write_text("def get_model(**_):\n    return config.float('dropout', 0.1), config.int('dec', 2)\n")
    config = load(f"#!rnn.py\n{way.format(str(base))}\n")
    config.parse_cmd_args(["++dropout", "0.3", "++dec", "1", "++enc", "1"])
    report = inspect_options(config)
    assert (report.unsupported, report.unread) == ([], ["enc"])


def test_modules_beside_the_config_ask_for_options_too(load, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    code = "from returnn.config import get_global_config\nsize = lambda: get_global_config().int('own_size', 1)\n"
    (tmp_path / "model_beside_config.py").write_text(code)
    config = load("#!rnn.py\nimport model_beside_config as m\nget_model = m.size\nown_size = 3\n")
    assert inspect_options(config).unread == []
    monkeypatch.delitem(sys.modules, "model_beside_config")


def test_a_config_can_ask_for_what_was_an_option_of_old_networks(load):
    asks = load("#!rnn.py\nget_model = lambda **_: config.float('dropout', 0.1)\n")
    layers = load("#!rnn.py\nnetwork = {'x': {'class': 'copy', 'dropout': 0.1}}\n")
    for config in (asks, layers):
        config.parse_cmd_args(["++dropout", "0.3"])
    assert inspect_options(asks).unsupported == []
    assert inspect_options(layers).unsupported == ["dropout"]


def test_a_file_of_python_beside_others_without_its_first_line(tmp_path):
    (tmp_path / "base.config").write_text("#!rnn.py\nnetwork = {'decision': {}}\n")
    (tmp_path / "more.config").write_text('network["decision"].update({"beam_size": 1})\n')
    config = Config()
    config.load_file(str(tmp_path / "base.config"))
    config.load_file(str(tmp_path / "more.config"))
    with pytest.raises(ConfigError, match="its lines look like Python, but such a file begins"):
        check_is_config(config)
    assert inspect_options(config)  # a name with brackets is no pattern
