import pytest

from returnn.config import Config, set_global_config
from returnn.util.behavior_version import BehaviorVersion


@pytest.fixture(autouse=True)
def no_global_state():
    set_global_config(None)
    BehaviorVersion.reset()
    yield
    set_global_config(None)
    BehaviorVersion.reset()


@pytest.fixture
def load(tmp_path):
    """Loads a config with this text."""

    def load(text, name="my.config", config=None):
        path = tmp_path / name
        path.write_text(text, encoding="utf8")
        config = config or Config()
        config.load_file(str(path))
        return config

    return load
