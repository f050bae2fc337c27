import re
from pathlib import Path

import pytest

import returnn
from returnn.__main__ import init_config, main
from returnn.config.environment import ENVIRONMENT, check_environment
from returnn.config.global_config import get_global_config
from returnn.util.cuda_env import CudaEnv
from returnn.util.errors import ConfigError


@pytest.mark.parametrize("name", ENVIRONMENT)
def test_each_variable_is_read_and_explained(name):
    files = [file for file in Path(returnn.__file__).parent.rglob("*.py") if file.name != "environment.py"]
    assert any(re.search(rf"[\"']{name}[\"']", file.read_text("utf8")) for file in files)
    assert re.fullmatch(r"[A-Z].*\.", ENVIRONMENT[name])


def test_device_of_the_environment(monkeypatch):
    monkeypatch.setenv("TF_DEVICE", "cpu")
    init_config(command_line_options=["++device", "gpu"])
    assert get_global_config().options.device == ["cpu"]


def test_cuda_can_be_disabled(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "nvcc").chmod(0o755)
    monkeypatch.setenv("CUDA_PATH", str(tmp_path))
    assert CudaEnv().is_available()
    monkeypatch.setenv("DISABLE_CUDA", "1")
    assert not CudaEnv().is_available()


def test_hot_reloading_is_an_error(monkeypatch):
    check_environment()
    monkeypatch.setenv("RETURNN_USE_HOT_RELOADING", "1")
    with pytest.raises(ConfigError) as info:
        check_environment()
    assert str(info.value) == (
        "environment variable 'RETURNN_USE_HOT_RELOADING' is not supported: start the training again; it goes on where "
        "it was, with the new code."
    )


@pytest.mark.parametrize(("value", "is_opened"), [("1", True), ("0", False), ("app:*", False)])
def test_shell_where_an_error_happened(value, is_opened, monkeypatch, tmp_path, capsys):
    opened = []
    monkeypatch.setattr("returnn.__main__.debug_shell", lambda names, _, **__: opened.append(names["secret"]))
    monkeypatch.setenv("DEBUG", value)
    (tmp_path / "my.config").write_text(
        "#!rnn.py\nimport operator\ntask = 'config:run'\ndef run():\n    secret = 42\n    return {}[secret]\n",
    )
    assert main(["rnn.py", str(tmp_path / "my.config")]) == 1
    assert opened == ([42] if is_opened else [])
