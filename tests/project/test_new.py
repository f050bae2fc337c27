"""New projects: each config passes the check, and trains."""

import os
import sys

import pytest

import returnn.__main__ as rnn
from returnn.config.current import current_config
from returnn.project.new import KINDS, new_project
from returnn.util.backend_engine import BackendEngine


@pytest.fixture(autouse=True)
def backend():
    before = BackendEngine.selected_engine
    yield
    BackendEngine.selected_engine = before


@pytest.fixture
def without_module():
    """The modules of projects have the same name."""
    yield
    sys.modules.pop("project_data", None)


@pytest.mark.parametrize("kind", KINDS)
def test_config_is_right_and_trains(kind, tmp_path, monkeypatch, without_module, capfd):
    monkeypatch.chdir(tmp_path)
    assert rnn.main(["returnn", "new", "my-project", "--kind", kind]) == 0
    assert "returnn train.config" in capfd.readouterr().out
    monkeypatch.chdir("my-project")
    monkeypatch.syspath_prepend(str(tmp_path / "my-project"))
    assert rnn.main(["rnn.py", "train.config", "++task", "check"]) == 0, capfd.readouterr()
    assert "WARNING" not in capfd.readouterr().out
    options = ["++num_epochs", "1", "++max_seqs", "10", "-v", "3"]
    assert rnn.main(["rnn.py", "train.config", *options]) == 0, capfd.readouterr()
    assert any(name.startswith("network.001") for name in os.listdir("model"))
    if kind == "translation":  # whose loop has a loss, and so has its hypothesis in a search
        evaluation = ["++task", "eval", "++eval_output_file_per_seq", "scores", "-v", "3"]
        assert rnn.main(["rnn.py", "train.config", *evaluation]) == 0, capfd.readouterr()
        assert os.path.getsize("scores")


def test_what_is_wrong(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert rnn.main(["returnn", "new", "a", "--kind", "ct"]) == 1
    assert capsys.readouterr().err.endswith("Did you mean 'ctc'?\n")
    assert rnn.main(["returnn", "new", "a", "--data", "b"]) == 1
    assert capsys.readouterr().err == "error: option '--data': there is no folder 'b'.\n"
    assert rnn.main(["returnn", "new", "a b"]) == 1
    assert "is no name for a folder" in capsys.readouterr().err
    assert rnn.main(["returnn", "new", "a", "--kind", "lm", "--data", "."]) == 1
    error = capsys.readouterr().err
    assert error.startswith("error: option '--data': '.' has no 'train.txt', 'dev.txt', 'words.vocab'.\n")
    assert "make-vocab words" in error
    for name in ("train.hdf", "dev.hdf"):
        (tmp_path / name).touch()
    new_project("a", kind="ctc", data=str(tmp_path))
    assert f"FOLDER = {str(tmp_path)!r}" in (tmp_path / "a" / "project_data.py").read_text()
    assert rnn.main(["returnn", "new", "a"]) == 1
    assert capsys.readouterr().err.startswith("error: 'a' exists already.\n")


@pytest.mark.parametrize("kind", ["lm", "translation"])
def test_texts_of_a_user(kind, tmp_path, monkeypatch, without_module, capfd):
    monkeypatch.chdir(tmp_path)
    names = {"lm": {"words": ["train.txt", "dev.txt"]}}.get(
        kind, {side: [f"{side}.train", f"{side}.dev"] for side in ("source", "target")}
    )
    for vocab, (train, dev) in names.items():
        (tmp_path / train).write_text("a few words\na few more words\n")
        (tmp_path / dev).write_text("a few other words\n")  # one is unknown
        assert rnn.main(["returnn", "tool", "make-vocab", "words", vocab, "--text", train]) == 0
    assert rnn.main(["returnn", "new", "mine", "--kind", kind, "--data", "."]) == 0
    monkeypatch.chdir("mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    assert "make-vocab" in (tmp_path / "mine" / "README.md").read_text()
    assert rnn.main(["rnn.py", "train.config", "++task", "check"]) == 0, capfd.readouterr()
    assert "of 6 labels" in capfd.readouterr().out
    inputs = current_config().typed_dict["extern_data"]  # with them, a server takes texts
    assert all("vocab" in description for description in inputs.values())


@pytest.mark.parametrize("kind", ["ctc", "attention"])
def test_hypotheses_have_the_names_of_labels(kind, tmp_path, monkeypatch, without_module, capfd):
    new_project(str(tmp_path / "mine"), kind=kind)
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    (tmp_path / "mine" / "model").mkdir()
    options = ["++task", "search", "++allow_random_model_init", "True", "-v", "3"]
    assert rnn.main(["rnn.py", "train.config", *options]) == 0, capfd.readouterr()
    assert "its labels have no names" not in "".join(capfd.readouterr())
    assert set((tmp_path / "mine" / "model" / "hypotheses.txt").read_text().split()) <= {*"abcdefg", "</s>"}
