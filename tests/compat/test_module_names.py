import importlib
import importlib.util
import sys

import pytest

from returnn.compat.module_names import OLD_MODULE_NAMES, install_old_top_level_modules
from returnn.config import Config


@pytest.fixture
def forget_modules():
    """Modules that the test imports under old names."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.mark.usefixtures("forget_modules")
def test_old_names_are_the_modules_of_today():
    install_old_top_level_modules()
    module = importlib.import_module("returnn.config")
    spec = module.__spec__
    assert importlib.import_module("returnn.Config") is module
    assert importlib.import_module("Config") is module
    assert importlib.import_module("Config.files") is importlib.import_module("returnn.config.files")
    assert module.__spec__ is spec
    assert module.__name__ == "returnn.config"


@pytest.mark.usefixtures("forget_modules")
def test_configs_can_import_old_names(load_text):
    config = load_text("#!rnn.py\nfrom Util import BehaviorVersion\nfrom returnn.Config import Config as C\n")
    assert config.typed_dict["C"] is Config


@pytest.mark.usefixtures("forget_modules")
def test_own_modules_of_the_user_come_first(tmp_path, monkeypatch, load_text):
    (tmp_path / "Stats.py").write_text("", encoding="utf8")
    (tmp_path / "LmDataset.py").write_text("mine = True\n", encoding="utf8")
    monkeypatch.syspath_prepend(tmp_path)
    assert load_text("#!rnn.py\nimport LmDataset\n").typed_dict["LmDataset"].mine


def test_other_modules_are_still_missing():
    install_old_top_level_modules()
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("TFUtils")
    assert "TFUtil" in OLD_MODULE_NAMES


@pytest.mark.parametrize("name", sorted(OLD_MODULE_NAMES))
def test_there_is_a_module_behind_each_old_name(name):
    assert importlib.util.find_spec(OLD_MODULE_NAMES[name]) is not None


@pytest.mark.parametrize("name", ["Fsa", "returnn.Fsa", "returnn.util.fsa"])
def test_what_is_there_instead_of_a_module_that_is_gone(name):
    install_old_top_level_modules()
    with pytest.raises(ModuleNotFoundError, match=f"there is no module '{name}' any more: layers and losses make"):
        importlib.import_module(name)
