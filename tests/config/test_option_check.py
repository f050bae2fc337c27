import io
import re
from pathlib import Path

import pytest

import returnn
from returnn.config import Config
from returnn.config.known_options import KNOWN_OPTIONS
from returnn.config.option_check import check_options, find_unread_options
from returnn.config.unread_options import NOT_OBEYED, UNSUPPORTED, WITHOUT_EFFECT
from returnn.log import wrap_log_streams
from returnn.util.errors import ConfigError
from returnn.util.warn_once import forget_shown


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


def test_allow_unknown_options_only_warns():
    warning = _warning(Config({"learning_rat": 0.1, "allow_unknown_options": True}))
    assert warning == "WARNING: options that nobody reads: learning_rat\n"


def test_other_unread_options_are_one_warning_line():
    assert _warning(Config({"bidirectional": True, "entropy": 3, "task": "train"})) == (
        "WARNING: options that nobody reads: bidirectional, entropy\n"
    )


@pytest.mark.parametrize("name", sorted(KNOWN_OPTIONS))
def test_known_options_are_fine_and_each_typo_at_the_end_is_found(name):
    assert find_unread_options(Config({name: 1})).misspelt == {}
    if len(name) > 4 and name[:-1] not in KNOWN_OPTIONS:
        assert list(find_unread_options(Config({name[:-1]: 1})).misspelt) == [name[:-1]]


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
    unread = find_unread_options(config)
    assert unread.misspelt == {}
    assert unread.others == ["dev_2", "train2"]


def test_misspelt_functions_are_found(load):
    config = load("#!rnn.py\ndef get_netwrk(epoch): return {}\n")
    assert find_unread_options(config).misspelt == {"get_netwrk": "get_network"}


def test_options_that_were_read_by_code_are_fine():
    config = Config({"learning_rat": 1})
    config.float("learning_rat", 0.0)
    assert find_unread_options(config).misspelt == {}


@pytest.fixture(scope="module")
def names_in_the_code():
    """Everything that stands in quotes somewhere in the package, apart from the lists of options."""
    root = Path(returnn.__file__).parent
    files = [file for file in root.rglob("*.py") if file.name not in ("known_options.py", "unread_options.py")]
    texts = [file.read_text(encoding="utf8") for file in files]
    return {name for text in texts for name in re.findall(r"(?:[\"']|options\.)(\w+)", text)}


COMPOSED = "rf_use_mask_"  # the name of a function follows


def test_each_known_option_is_read_or_listed_as_unread(names_in_the_code):
    unread = {*UNSUPPORTED, *NOT_OBEYED, *WITHOUT_EFFECT}
    assert unread <= KNOWN_OPTIONS
    named_nowhere = {name for name in KNOWN_OPTIONS - names_in_the_code if not name.startswith(COMPOSED)}
    named_nowhere -= {"newbob_learning_rate_decay", "newbob_learning_rate_growth"}  # others fall back to them
    assert named_nowhere - unread - FLAGS_OF_OLD_NETWORKS == set()


FLAGS_OF_OLD_NETWORKS = set()


def test_unsupported_options_are_errors():
    with pytest.raises(ConfigError) as info:
        check_options(Config({"use_horovod": True, "tf_amp": "float16", "distributed_tf": False}))
    assert str(info.value) == (
        "option 'tf_amp' is not supported: computations are in the precision of their layers.\n"
        "  option 'use_horovod' is not supported: training in several processes is not there: each of them would train "
        "a model of its own.\n"
        "  The run would not be what the config asks for; leave it out."
    )


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
@pytest.mark.parametrize("value", [False, None, 0, "", "0", {}], ids=repr)
def test_unsupported_options_that_ask_for_nothing_are_fine(name, value):
    check_options(Config({name: value}))


def test_options_that_are_not_obeyed_or_not_read_have_a_warning_each():
    config = Config({"seq_drop_freq": 5, "share_batches": True, "sprint_interface_dataset_opts": {"x": 1}, "mine": 3})
    assert _warning(config) == (
        "WARNING: options that are not obeyed, so results may differ: seq_drop_freq\n"
        "WARNING: options that nobody reads: mine, share_batches, sprint_interface_dataset_opts\n"
    )


def _warning(config):
    forget_shown()
    stream = io.StringIO()
    with wrap_log_streams(stream):
        check_options(config)
    return stream.getvalue()
