"""New projects: each config passes the check, and trains."""

import gzip
import importlib.util
import os
import re
import shlex
import sys
import zipfile
from pathlib import Path

import numpy
import pytest

import returnn
import returnn.__main__ as rnn
from returnn.config.current import current_config
from returnn.datasets import init_dataset
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.run.loaded_model import load_model
from returnn.project.new import KINDS, new_project
from returnn.util.backend_engine import BackendEngine
from tests.datasets.util.test_feature_extraction import sawtooth, wav_bytes


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
    assert rnn.main(["returnn", "new", "a", "--kind", "transformer"]) == 1
    err = capsys.readouterr().err
    assert "Did you mean" not in err
    assert "\n  lm: language model on words" in err
    assert "returnn --help transformer" in err
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


CLASSES = {"words": "Vocabulary", "bpe": "BytePairEncoding", "chars": "CharacterTargets"}


@pytest.mark.parametrize(("labels", "suffix"), [("words", ""), ("words", ".gz"), ("bpe", ""), ("chars", "")])
@pytest.mark.parametrize("kind", ["lm", "translation"])
def test_texts_of_a_user(kind, labels, suffix, tmp_path, monkeypatch, without_module, capfd):
    monkeypatch.chdir(tmp_path)
    names = {"lm": {"words": ["train.txt", "dev.txt"]}}.get(
        kind, {side: [f"{side}.train", f"{side}.dev"] for side in ("source", "target")}
    )
    for vocab, (train, dev) in names.items():
        for name, text in ((train, "a few words\na few more words\n"), (dev, "a few other words\n")):  # one is unknown
            with gzip.open(name + suffix, "wt") if suffix else open(name, "w") as file:
                file.write(text)
        size = ["--size", "24"] if labels == "bpe" else []
        assert rnn.main(["returnn", "tool", "make-vocab", labels, vocab, "--text", train + suffix, *size]) == 0
    assert rnn.main(["returnn", "new", "mine", "--kind", kind, "--data", "."]) == 0
    monkeypatch.chdir("mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    assert "make-vocab" in (tmp_path / "mine" / "README.md").read_text()
    assert rnn.main(["rnn.py", "train.config", "++task", "check"]) == 0, capfd.readouterr()
    said = capfd.readouterr().out
    assert labels != "words" or "of 6 labels" in said
    assert "so the model does not learn how probable that is" in said
    assert ("a vocabulary that lacks rare words" in said) == (labels == "words")
    inputs = current_config().typed_dict["extern_data"]  # with them, a server takes texts
    classes = {description["vocab"]["class"] for description in inputs.values()}
    assert classes == {CLASSES[labels]}
    data = init_dataset(current_config().typed_value("train")())
    data.init_seq_order(epoch=1)
    data.load_seqs(0, 2)
    unknown = Vocabulary.create_vocab(**inputs["data"]["vocab"]).unknown_label_id
    assert not any(unknown in data.get_data(i, key) for i in range(2) for key in inputs)
    if kind == "lm" and labels != "words":
        assert rnn.main(["rnn.py", "train.config", "++num_epochs", "1"]) == 0
        code = re.split(r"```python\n|```", Path("README.md").read_text())[1]
        first = 'list(vocab.get_seq("THE FIRST WORDS")[:-1])'
        assert first in code
        exec(code.replace("labels = []", f"labels = {first.replace('THE FIRST WORDS', 'a few')}"), {})
        text = capfd.readouterr().out.splitlines()[-1]
        assert text.startswith("a few")
        assert "@@" not in text


@pytest.mark.parametrize("kind", ["ctc", "attention"])
def test_recordings_of_a_user(kind, tmp_path, monkeypatch, without_module, capfd):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wavs").mkdir()
    (tmp_path / "wavs" / "1.wav").write_bytes(wav_bytes(sawtooth(0.5)))
    (tmp_path / "texts.csv").write_text("file,text\n1.wav,hello you\n")
    for split in ("train", "dev"):
        assert rnn.main(["returnn", "tool", "make-ogg-zip", "wavs", "texts.csv", f"{split}.zip"]) == 0
    assert rnn.main(["returnn", "new", "mine", "--kind", kind, "--data", "."]) == 1
    error = capfd.readouterr().err
    assert error.startswith("error: option '--data': '.' has no 'words.vocab'.\n")
    assert "make-vocab words FOLDER/words --dataset FOLDER/train.zip" in error
    assert "make-vocab bpe FOLDER/words --dataset FOLDER/train.zip --size N" in error
    assert rnn.main(["returnn", "tool", "make-vocab", "words", "words", "--dataset", "train.zip"]) == 0
    assert rnn.main(["returnn", "new", "mine", "--kind", kind, "--data", "."]) == 0
    monkeypatch.chdir("mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    assert rnn.main(["rnn.py", "train.config", "++task", "check"]) == 0, capfd.readouterr()
    assert "of 4 labels" in capfd.readouterr().out
    train = init_dataset(current_config().typed_value("train")())
    train.init_seq_order(epoch=1)
    train.load_seqs(0, 1)
    assert train.get_data(0, "classes").tolist() == ([2, 3, 0] if kind == "attention" else [2, 3])


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
    assert current_config().options.search_output_file_format == "words"  # as other tools want subwords


def test_sample_rate_is_that_of_the_recordings(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wavs").mkdir()
    (tmp_path / "wavs" / "1.wav").write_bytes(wav_bytes(sawtooth(0.5), rate=11025))
    (tmp_path / "texts").write_text("1 hello\n")
    (tmp_path / "words.vocab").write_text("</s>\n<unk>\nhello\n")
    for split in ("train", "dev"):
        assert rnn.main(["returnn", "tool", "make-ogg-zip", "wavs", "texts", f"{split}.zip"]) == 0
    new_project("mine", kind="attention", data=".")
    assert '"sample_rate": 11025' in (tmp_path / "mine" / "project_data.py").read_text()
    new_project("generated", kind="attention")
    assert '"sample_rate": 16000' in (tmp_path / "generated" / "project_data.py").read_text()


def test_data_that_cannot_be_read_leaves_no_folder(tmp_path, monkeypatch, capsys):
    """So that the same command goes on when the data is mended."""
    monkeypatch.chdir(tmp_path)
    with zipfile.ZipFile("train.zip", "w") as archive:
        archive.writestr("train/1.wav", b"no audio")
    for name in ("dev.zip", "words.vocab"):
        Path(name).touch()
    assert rnn.main(["returnn", "new", "mine", "--kind", "conformer", "--data", "."]) == 1
    assert "1.wav" in capsys.readouterr().err
    assert not os.path.exists("mine")


@pytest.mark.parametrize("kind", ["attention", "translation", "conformer", "transducer"])
def test_readme_has_what_can_be_run(kind, tmp_path, monkeypatch, without_module, capfd):
    """A search in other data of the folder, scored without the labels of the end; and pictures of the attention."""
    new_project(str(tmp_path / "mine"), kind=kind)
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    (tmp_path / "mine" / "model").mkdir()
    lines = (tmp_path / "mine" / "README.md").read_text().splitlines()
    commands = [shlex.split(line, comments=True) for line in lines if line.startswith("    returnn")]
    tasks = {tuple(command[2:4]): command[1:] for command in commands}
    random = ["++allow_random_model_init", "True", "-v", "3"]
    assert rnn.main(["rnn.py", *tasks["++task", "search"], *random]) == 0, capfd.readouterr()
    assert "project_data." in tasks["++task", "search"][-1]
    assert "search: WER " in capfd.readouterr().out
    if kind in ("attention", "translation") and importlib.util.find_spec("matplotlib"):
        picture = ["++attention_plot", "{'layer': 'output/weights', 'data': 'dev', 'num_seqs': 1, 'search': True}"]
        assert rnn.main(["rnn.py", *tasks["++task", "plot_attention"], *random, *picture]) == 0, capfd.readouterr()
        assert os.listdir("model/attention")


@pytest.mark.parametrize("kind", ["hybrid", "ctc", "conformer"])
def test_output_does_not_depend_on_the_other_sequences(kind, tmp_path, monkeypatch, without_module):
    """Of an odd number of frames, so that windows with strides, and those beyond the end of a sequence, are seen."""
    new_project(str(tmp_path / "mine"), kind=kind)
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    model = returnn.load("train.config", allow_random_model_init=True)
    arrays = [numpy.random.default_rng(n).standard_normal((n, 12)).astype("float32") for n in (50, 31, 20, 1)]
    together = model.forward(arrays)
    for array, output in zip(arrays, together, strict=True):
        (alone,) = model.forward([array])
        numpy.testing.assert_allclose(output, alone, atol=1e-5)
    model.close()


def test_transducer_decodes_as_it_is_trained(tmp_path, monkeypatch, without_module, capfd):
    """Without the target, as from Python and in an export, and with the names of the labels."""
    new_project(str(tmp_path / "mine"), kind="transducer")
    monkeypatch.chdir(tmp_path / "mine")
    monkeypatch.syspath_prepend(str(tmp_path / "mine"))
    options = ["++num_epochs", "6", "++learning_rate", "0.01", "-v", "3"]
    assert rnn.main(["rnn.py", "train.config", *options]) == 0, capfd.readouterr()
    assert rnn.main(["rnn.py", "train.config", "++task", "search"]) == 0, capfd.readouterr()
    assert float(re.search(r"search: WER ([\d.]+)%", capfd.readouterr().out)[1]) < 20
    dev = init_dataset(current_config().typed_value("dev")())
    dev.init_seq_order(epoch=1)
    dev.load_seqs(0, 1)
    model = returnn.load("train.config")
    (text,) = model.decode([dev.get_data(0, "data")])
    model.close()
    assert text == (tmp_path / "mine" / "model" / "hypotheses.txt").read_text().splitlines()[0]
    assert {*text.split()} <= {*"abcdefg"}
    assert rnn.main(["returnn", "tool", "export-model", "train.config", "exported", "--search", "1"]) == 0


def test_folder_that_cannot_be_made(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert rnn.main(["returnn", "new", "file/mine", "--kind", "lm"]) == 1
    assert capsys.readouterr().err == "error: cannot make the folder 'file/mine': Not a directory.\n"


@pytest.mark.parametrize(
    ("kind", "given", "shape"), [("lm", "one two three", (4, 12)), ("hybrid", [[0.5] * 12] * 5, (5, 8))]
)
def test_models_without_a_search_are_served_with_probabilities(
    kind, given, shape, tmp_path, monkeypatch, without_module, capsys
):
    monkeypatch.chdir(tmp_path)
    assert rnn.main(["returnn", "new", "mine", "--kind", kind]) == 0
    monkeypatch.chdir("mine")
    readme = Path("README.md").read_text()
    assert "++task forward" in readme
    assert "++task search" not in readme
    assert rnn.main(["rnn.py", "train.config", "++num_epochs", "1"]) == 0
    model = load_model(current_config())
    assert model.prepare(current_config().options.web_server_output) == 1
    (probabilities,) = model.forward([given])
    assert probabilities.shape == shape  # of words, also after the last one
    model.close()
    if kind == "lm":
        before, code, _ = re.split(r"```python\n|```", readme)
        assert before.endswith("and the input ends with the label 0, whose frame it is:\n\n")
        monkeypatch.syspath_prepend(".")
        exec(code, {})
        known = Vocabulary.create_vocab(**current_config().typed_dict["extern_data"]["data"]["vocab"]).labels
        assert set(capsys.readouterr().out.splitlines()[-1].split()) <= set(known)
    assert rnn.main(["rnn.py", "train.config", "++task", "forward"]) == 0
    assert (tmp_path / "mine" / "model" / "probabilities.hdf").exists()
    if kind == "hybrid":
        priors = ["++task", "compute_priors", "++output_file", "model/log_prior.txt"]
        assert " ".join(priors) in readme
        assert rnn.main(["rnn.py", "train.config", *priors]) == 0
        assert len(Path("model/log_prior.txt").read_text().split()) == 8
