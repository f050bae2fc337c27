import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

import returnn
from returnn.config.options import OPTIONS
from returnn.config.unsupported_options import NEEDLESS, UNSUPPORTED
from returnn.help.class_text import first_sentence
from returnn.help.option_text import option_text, readers_of
from returnn.help.reference import OPTIONS_PAGE, options_page
from returnn.help.topics import KINDS, help_text
from returnn.util.errors import ConfigError

ROOT = Path(returnn.__file__).parent.parent


def test_page_of_options_is_up_to_date():
    assert OPTIONS_PAGE.read_text(encoding="utf8") == options_page(), "python -m returnn.help.reference"


def test_all_options_are_listed():
    listed = help_text("options", width=200)
    assert [name for name in OPTIONS if f"\n{name} " not in listed] == []


@pytest.mark.parametrize("name", sorted(OPTIONS))
def test_each_option_is_explained(name):
    text = option_text(name, 100)
    assert text.startswith(f"option {name!r}")
    if name != "use_horovod":
        assert OPTIONS[name].purpose in text
        assert OPTIONS[name].kind.expected in text


def test_an_option():
    assert help_text("num_epochs", width=100) == (
        "option 'num_epochs'\n\nThe last epoch.\n\nvalues:  an integer from 0\ndefault: 5\n"
        "read by: returnn/engine/epochs.py"
    )


def test_an_option_that_is_a_dict_has_its_keys():
    text = help_text("file_cache_opts", width=100)
    assert "keys of the dict:" in text
    assert "\ncleanup_files_always_older_than_days " in text
    assert "\nmodulo " in help_text("use_last_best_model", width=100)


@pytest.mark.parametrize("name", [name for name, option in OPTIONS.items() if option.keys_of])
def test_keys_of_options_that_are_dicts(name):
    keys = help_text(name, width=100).partition("\nkey ")[2]
    assert len(keys.splitlines()) > 2


def test_options_without_a_reader():
    assert help_text("train_in_eval", width=100) == (
        f"option 'train_in_eval' is not supported: {UNSUPPORTED['train_in_eval']}."
    )
    assert help_text("flat_net_construction", width=100) == (
        f"option 'flat_net_construction' changes nothing: {NEEDLESS['flat_net_construction']}."
    )


def test_readers_that_go_over_names():
    assert readers_of("gradient_clip") == ["returnn/tf/updater/gradient_options.py"]


@pytest.mark.parametrize("kind", KINDS)
def test_all_classes_have_a_whole_sentence(kind):
    listed = help_text(kind, width=300)
    for name in KINDS[kind].names():
        sentence = first_sentence(KINDS[kind].get_class(name))
        assert re.fullmatch(r"\S.{8,}\.", sentence), name
        assert f"\n{name} " in listed


def test_descriptions_of_axes():
    text = help_text("axis", width=120)
    assert re.search(r'^"B", "batch" +the batch axis$', text, re.MULTILINE)
    assert "`" not in text


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("Vocabulary", "seq_postfix"),
        ("BytePairEncoding", "bpe_file"),
        ("ExtractAudioFeatures", "window_len"),
        ("newbob", "newbob_relative_error_threshold"),
        ("HDFDataset", "use_cache_manager"),
    ],
)
def test_classes(name, part):
    text = help_text(name, width=110)
    assert f"{name!r}\n" in text
    assert f"\n{part} " in text


def test_name_of_an_option_and_of_a_layer_has_both():
    text = help_text("window", width=110)
    assert text.startswith("option 'window'")
    assert "layer class 'window'" in text
    assert "optimizer 'adam'" in help_text("adam", width=110)


def test_unknown_name_suggests_options_too():
    with pytest.raises(ConfigError, match=r"there is nothing of the name 'bacth_size'.\n  Did you mean 'batch_size'"):
        help_text("bacth_size", width=80)


@pytest.mark.parametrize("name", ["batch_size", "options", "axis", "Vocabulary", "newbob", "datasets", ""])
def test_help_is_quick_and_imports_no_tensorflow(name):
    code = (
        "import sys; from returnn.__main__ import main; "
        f"status = main(['rnn.py', '--help', *{[name] if name else []!r}]); "
        "print('tensorflow' in sys.modules, file=sys.stderr)"
    )
    start = time.process_time(), os.times().children_user
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout
    assert done.stderr.strip() == "False"
    assert os.times().children_user - start[1] < 2.0
