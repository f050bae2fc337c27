import re
from pathlib import Path

import pytest

import returnn
from returnn.config import Config
from returnn.config.backend_options import BACKENDS_OF, CHANGE_NO_RESULT, NET_DICT, TENSORFLOW, TORCH, fits_backend
from returnn.config.option_check import check_options
from returnn.config.options import OPTIONS
from returnn.util.errors import ConfigError

ROOT = Path(returnn.__file__).parent.parent
ONLY_FOR_NETS = re.compile(
    r"returnn/tf/(engine(?!/session/device)|network|layers|inspection|frontend_layers|hyper_param_tuning|distributed)\b"
)
READ_BY_NAME = {"max_seqs": "returnn/engine/batch_options.py"}
READ_FOR_ALL_GRAPHS = {"tf_jit": "returnn/tf/engine/device.py"}


def test_options_that_only_networks_of_layers_read_are_for_them():
    readers = {}
    for file in (ROOT / "returnn").rglob("*.py"):
        for name in re.findall(r"\boptions\.(\w+)", file.read_text(encoding="utf8")):
            readers.setdefault(name, set()).add(str(file.relative_to(ROOT)))
    for name in readers.keys() & OPTIONS.keys() - READ_BY_NAME.keys() - READ_FOR_ALL_GRAPHS.keys():
        if all(ONLY_FOR_NETS.match(reader) for reader in readers[name]):
            assert BACKENDS_OF.get(name) == (NET_DICT,), name


@pytest.mark.parametrize("backend", [TORCH, TENSORFLOW])
@pytest.mark.parametrize("name", sorted(BACKENDS_OF))
def test_an_option_of_another_backend_is_an_error(name, backend):
    if fits_backend(name, backend) or name in CHANGE_NO_RESULT:
        return
    with pytest.raises(ConfigError, match=f"option '{name}' is not supported: it is for backend = "):
        check_options(Config({"backend": backend, name: True}))


def test_what_only_watches_a_run_of_another_backend_is_a_warning(capsys):
    """Settings that configs share have such options: those of TensorFlow's session in trainings with PyTorch."""
    check_options(Config({"backend": TORCH, "tf_session_opts": {"gpu_options": {}}, "tf_log_memory_usage": True}))
    text = capsys.readouterr().out
    assert "option 'tf_log_memory_usage' has no effect: it is for backend = 'tensorflow-net-dict', and this one" in text
    assert "option 'tf_session_opts' has no effect" in text
    check_options(Config({"use_tensorboard": True}))
    assert "and this one is 'tensorflow-net-dict'; summaries for TensorBoard" in capsys.readouterr().out


def test_losses_of_the_search_are_for_networks_of_layers():
    with pytest.raises(ConfigError) as info:
        check_options(Config({"backend": TORCH, "search_do_eval": True}))
    assert str(info.value) == (
        "option 'search_do_eval' is not supported: it is for backend = 'tensorflow-net-dict', and this one is"
        " 'torch'.\n  The run would not be what the config asks for; leave it out."
    )
