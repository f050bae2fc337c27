"""Which model a task works on, and what is said if there is none."""

import pytest

import returnn
from returnn.config import Config
from returnn.engine.model_names import check_has_model, model_of_task, no_model_error
from returnn.engine.search_results import check_output_options
from returnn.util.errors import ConfigError, UserError


@pytest.fixture
def config(tmp_path, monkeypatch):
    """:return: of a training in the folder `project`; the current folder is another one"""
    (tmp_path / "project" / "model").mkdir(parents=True)
    (tmp_path / "other").mkdir()
    (tmp_path / "project" / "my.config").write_text("#!rnn.py\nmodel = 'model/net'\ntask = 'search'\n")
    monkeypatch.chdir(tmp_path / "other")
    config = Config()
    config.load_file("../project/my.config")
    return config


def test_nothing_was_trained(config):
    with pytest.raises(ConfigError, match=r"'model/net' has no checkpoint\.\n  Train one, or set 'load'"):
        check_has_model(config)
    config.set("allow_random_model_init", True)
    check_has_model(config)


def test_a_model_that_is_initialized_alone(config, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "project")
    (tmp_path / "project" / "model" / "net.000.index").write_text("")
    with pytest.raises(ConfigError, match=r"the model 'model/net' is not trained\.\n  'load_epoch = 0' works on it"):
        check_has_model(config)
    config.set("load_epoch", 0)
    assert model_of_task(config) == (0, "model/net.000")
    (tmp_path / "project" / "model" / "net.003.index").write_text("")
    config.set("load_epoch", -1)
    assert model_of_task(config) == (3, "model/net.003")


def test_the_model_is_below_the_folder_of_the_config(config, tmp_path, monkeypatch):
    (tmp_path / "project" / "model" / "net.003.index").write_text("")
    assert str(no_model_error(config)).endswith("a command runs in: cd ../project")
    monkeypatch.chdir(tmp_path / "project")
    check_has_model(config)


def test_a_search_before_the_training_that_makes_the_folder(config, tmp_path):
    config.set("search_output_file", "model/hypotheses.txt")
    with pytest.raises(ConfigError, match="there is no model to work on"):
        check_output_options(config)
    config.set("allow_random_model_init", True)
    with pytest.raises(UserError, match="there is no folder 'model'"):
        check_output_options(config)


def test_loading_from_python_says_it_at_once(config, tmp_path):
    path = tmp_path / "project" / "my.config"
    path.write_text(f"{path.read_text()}extern_data = {{'data': {{'dim': 2}}}}\nnetwork = {{}}\n")
    with pytest.raises(ConfigError, match="there is no model to work on"):
        returnn.load(path)
