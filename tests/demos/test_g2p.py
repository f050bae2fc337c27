"""The demo, on some words: the data, the scores, and all steps of the command of the README."""

import gzip
import os
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from returnn.__main__ import main
from returnn.config import set_global_config
from returnn.util.backend_engine import BackendEngine

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DEMO = os.path.join(ROOT, "demos", "g2p")
WORDS = {
    "train": "AB\tAE B\nBA\tB AH\nABBA\tAE B AH\nABBA\tAA B AH\n'BA\tB AH\nCAB\tK AE B\nBACK\tB AE K\n",
    "dev": "ABBA\tAE B AA\nBAC\tB AE K\nBAB\tB AE B\n",
    "test": "CABBA\tK AE B AH\nBACA\tB AA K AH\nBACA\tB AE K AH\n",
}


@pytest.fixture
def modules(monkeypatch):
    """:return: the modules of the demo; `g2p_data` forgets what it has read"""
    monkeypatch.syspath_prepend(DEMO)
    import g2p_data  # noqa: PLC0415 (found now)
    import score  # noqa: PLC0415

    g2p_data.pronunciations.cache_clear()
    yield g2p_data, score
    g2p_data.pronunciations.cache_clear()


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data").mkdir()
    for split, text in WORDS.items():
        with gzip.open(tmp_path / "data" / f"{split}.txt.gz", "wt") as file:
            file.write(text)
    return tmp_path / "data"


def test_dictionary_is_split_by_word(modules):
    data, _ = modules
    words = {split: set(data.pronunciations(split)) for split in ("train", "dev", "test")}
    assert not words["train"] & words["dev"]
    assert not words["train"] & words["test"]
    assert not words["dev"] & words["test"]
    assert len(words["train"]) > 8 * len(words["test"]) > 60 * len(words["dev"])
    assert data.pronunciations("train")["cat"] == [["K", "AE", "T"]]


def test_folder_with_a_split_of_its_own(modules, folder, monkeypatch):
    data, _ = modules
    monkeypatch.setenv("G2P_DATA", str(folder))
    assert data.pronunciations("train")["abba"] == [["AE", "B", "AH"], ["AA", "B", "AH"]]
    assert set(data.pronunciations("dev")) == {"bac", "bab"}  # without the word of train
    assert [seq["seq_tag"] for seq in data.seqs("train")][:4] == ["ab-0", "ba-1", "abba-2", "abba-3"]
    assert [seq["seq_tag"] for seq in data.seqs("test")] == ["cabba", "baca"]
    assert len(data.dataset("train", max_seqs=3)["data"]) == 3


def test_folder_without_data_is_named(modules, tmp_path, monkeypatch):
    data, _ = modules
    monkeypatch.setenv("G2P_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"G2P_DATA: there is neither .*train\.txt\.gz' nor .*train\.txt'"):
        data.pronunciations("train")


def test_nearest_reference_counts(modules):
    _, score = modules
    references = {"a": [["X", "Y"], ["X", "Z", "Y"]], "b": [["X"]]}
    results = score.compare({"a": ["X", "Z"], "b": ["X"]}, references)
    assert [result.num_errors for result in results] == [1, 0]
    assert score.error_rates(results) == (1 / 3, 1 / 2)
    with pytest.raises(ValueError, match="no hypothesis for 1 words, such as 'b'"):
        score.compare({"a": []}, references)


@pytest.mark.parametrize(
    ("a", "b", "distance"), [("", "", 0), ("abc", "abc", 0), ("abc", "", 3), ("abc", "acd", 2), ("ab", "ba", 2)]
)
def test_edit_distance(modules, a, b, distance):
    _, score = modules
    assert score.edit_distance(a, b) == score.edit_distance(b, a) == distance


@pytest.mark.slow
def test_command_of_the_readme_leaves_everything(modules, folder, tmp_path, monkeypatch, capsys):
    """The steps are run in this process, which saves its start four times; the test below starts the command."""
    import run  # noqa: PLC0415 (found now)

    _, score = modules
    monkeypatch.setenv("G2P_DATA", str(folder))
    monkeypatch.chdir(tmp_path)
    results, commands = run.steps(["++num_epochs", "1"])
    *of_toolkit, scores = commands.values()
    for _, *args in of_toolkit:
        assert run_here(args) == 0
    assert scores[1] == os.path.join(DEMO, "score.py")
    score.main(scores[2])
    assert "2 words, PER " in capsys.readouterr().out
    for name in ("learning_rates", "learning_curve.png", "hypotheses.py", "tensorboard/train", "tensorboard/dev"):
        assert os.path.exists(os.path.join(results, name)), name
    assert set(os.listdir(os.path.join(results, "attention", "epoch-001"))) <= {"bac.png", "bab.png"}


@pytest.mark.slow
def test_interrupt_lets_the_training_end_on_its_own(folder, tmp_path):
    command = [sys.executable, os.path.join(DEMO, "run.py"), "++num_epochs", "100000"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=environment(folder), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        start_new_session=True,
    )  # fmt: skip
    lines = iter(process.stdout.readline, "")
    assert any(line.startswith("epoch 1,") for line in lines)
    os.killpg(process.pid, signal.SIGINT)
    rest = "".join(lines)
    process.stdout.close()
    assert process.wait(timeout=600) == 130, rest
    assert rest.endswith("Training: ended early. The same command again goes on from here.\n")


def test_full_config_trains(modules, folder, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("G2P_DATA", str(folder))
    monkeypatch.chdir(tmp_path)
    config = os.path.join(DEMO, "attention-full.config")
    assert run_here([os.path.join(ROOT, "rnn.py"), config, "++num_epochs", "1"]) == 0
    assert "finished training at epoch 1" in capsys.readouterr().out


def run_here(args):
    """:return: exit status of `rnn.py`, in this process"""
    before = BackendEngine.selected_engine
    try:
        return main(args)
    finally:
        set_global_config(None)
        BackendEngine.selected_engine = before
        tf.compat.v1.reset_default_graph()


def environment(folder):
    return {**os.environ, "G2P_DATA": str(folder), "CUDA_VISIBLE_DEVICES": ""}
