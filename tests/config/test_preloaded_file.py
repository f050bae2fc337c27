import pytest

from returnn.config.preloaded_file import PreloadedFile, preloaded_files, warn_of_missing_files
from returnn.util.errors import ConfigError
from returnn.util.files.checkpoint_files import CheckpointError
from returnn.util.files.checkpoint_names import is_missing


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
        " it, as 'init_for_train' is not set; search, forward and evaluation do."
    ]


def test_errors_about_the_file_name_the_entry():
    (file,) = preloaded_files({"lm": {"filename": "net.001"}})
    assert isinstance(file, PreloadedFile)
    message = r"^option 'preload_from_files': 'lm': checkpoint 'net\.001' is damaged\.$"
    with pytest.raises(ConfigError, match=message), file.opened():
        raise CheckpointError("checkpoint 'net.001' is damaged.")
