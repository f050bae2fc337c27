import numpy
import pytest

from returnn.config.preloaded_file import PreloadedFile, preloaded_files, warn_of_missing_files
from returnn.engine.frontend.preload import ValuesToPreload
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import CheckpointError
from returnn.util.files.checkpoint_names import is_missing
from returnn.util.system.warn_once import forget_shown


@pytest.mark.parametrize("name", ["net.001.index", "net.001.pt", "net.001.safetensors", "net.001", "of-others.bin"])
def test_a_checkpoint_is_there_if_one_of_its_files_is(name, tmp_path):
    (tmp_path / name).write_text("")
    assert not is_missing(str(tmp_path / name))
    assert not is_missing(str(tmp_path / name).removesuffix(".index").removesuffix(".pt").removesuffix(".safetensors"))
    assert is_missing(str(tmp_path / "net.002"))
    assert is_missing(str(tmp_path / "folder" / "net.001"))


def test_a_folder_is_no_checkpoint(tmp_path):
    (tmp_path / "net.001").mkdir()
    assert is_missing(str(tmp_path / "net.001"))


def test_a_training_says_which_files_other_tasks_will_not_find(tmp_path, caplog):
    missing = str(tmp_path / "net.001")
    (tmp_path / "net.002.pt").write_text("")
    option = {
        "lm": {"filename": missing},
        "am": {"filename": missing, "init_for_train": True},  # an error of its own, if it is needed
        "there": {"filename": str(tmp_path / "net.002")},
    }
    warn_of_missing_files(option)
    warn_of_missing_files(None)
    assert caplog.messages == [
        f"WARNING: option 'preload_from_files': 'lm': checkpoint {missing!r} does not exist. The training does not load"
        " it, as 'init_for_train' is not set; search, forward and evaluation do.",
        "option 'preload_from_files': 'there' is not loaded by a training, as 'init_for_train' is not set",
    ]


def test_errors_about_the_file_name_the_entry():
    (file,) = preloaded_files({"lm": {"filename": "net.001"}})
    assert isinstance(file, PreloadedFile)
    message = r"^option 'preload_from_files': 'lm': checkpoint 'net\.001' is damaged\.$"
    with pytest.raises(ConfigError, match=message), file.opened():
        raise CheckpointError("checkpoint 'net.001' is damaged.")


def test_names_that_are_nowhere_are_said(caplog):
    forget_shown()
    names = {"ignore_params": ["lstm.bias", "lstm.bais"], "ignore_params_prefixes": ["out.", "outt."]}
    mapping = {"lstm.bias": "lstm.b", "lstm.wieght": "lstm.w"}
    (file,) = preloaded_files({"lm": {"filename": "net.001", **names, "var_name_mapping": mapping}})
    file.warn_of_names_without_effect(in_file=["lstm.b", "lstm.w"], in_model=["lstm.bias", "lstm.weight", "out.weight"])
    where = "option 'preload_from_files': 'lm'"
    said = [message.removeprefix(f"WARNING: {where}: ") for message in caplog.messages]
    assert [message.partition(" Did")[0].partition(" Possible")[0] for message in said] == [
        "'ignore_params': neither file nor model have a parameter 'lstm.bais'.",
        "'ignore_params_prefixes': neither file nor model have a parameter 'outt.'.",
        "'var_name_mapping': the model has no parameter 'lstm.wieght'.",
    ]


@pytest.mark.parametrize("ignored", ["enc.lstm.bias", "lstm.bias"])
def test_names_in_the_file_and_in_the_model_can_be_left_out(ignored):
    option = {"lm": {"filename": "net.001", "prefix": "enc.", "ignore_params": [ignored]}}
    (file,) = preloaded_files(option, ValuesToPreload)
    content = {"lstm.bias": numpy.ones(2), "lstm.weight": numpy.ones(3)}
    parameters = {f"enc.{name}": value for name, value in content.items()}
    assert list(file.values(parameters, content)) == ["enc.lstm.weight"]
    (file,) = preloaded_files({"lm": {"filename": "net.001", "ignore_missing": True}}, ValuesToPreload)
    with pytest.raises(ConfigError, match=r"all parameters are ignored, or the file 'net\.001' has none of them"):
        file.values(parameters, content)
