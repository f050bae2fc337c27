"""What goes wrong in data and files is said in a few lines."""

import sys

import numpy
import pytest

from returnn.datasets.generating import Task12AXDataset
from returnn.datasets.hdf import SimpleHDFWriter
from returnn.log import log
from returnn.tf.engine import tasks
from returnn.tf.engine.passes import long_steps
from returnn.tf.inspection.config_check import check_config
from returnn.util.errors import UserError
from returnn.util.system.warn_once import forget_shown
from tests.tf.engine.small_config import config


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    log.initialize(verbosity=[5])


def message(run, *args):
    with pytest.raises(UserError) as info:
        run(*args)
    text = str(info.value)
    assert len(text.splitlines()) <= 5
    return text


def test_exception_in_a_data_set_of_a_user(tmp_path, monkeypatch, capsys):
    def generate_seq(self, seq_idx):
        raise KeyError("my key")

    monkeypatch.setattr(Task12AXDataset, "generate_seq", generate_seq)
    text = message(tasks.train, config(tmp_path))
    assert text.startswith("Task12AXDataset 'train': KeyError: 'my key'\n")
    assert f"In {__file__}, line {generate_seq.__code__.co_firstlineno + 1}, generate_seq." in text
    assert "Traceback" in capsys.readouterr().out


def test_exception_in_a_data_set_of_a_user_with_a_pipeline(tmp_path, monkeypatch):
    def generate_seq(self, seq_idx):
        raise KeyError("my key")

    monkeypatch.setattr(Task12AXDataset, "generate_seq", generate_seq)
    text = message(tasks.train, config(tmp_path, dataset_pipeline=True))
    assert text.startswith("Task12AXDataset 'train': KeyError: 'my key'\n")


def test_data_set_of_a_user_that_ends_the_process(tmp_path, monkeypatch):
    def generate_seq(self, seq_idx):
        sys.exit(0)

    monkeypatch.setattr(Task12AXDataset, "generate_seq", generate_seq)
    text = message(tasks.train, config(tmp_path))
    assert text.startswith("Task12AXDataset 'train': SystemExit: 0\n")


@pytest.mark.parametrize("what", ["folder", "lock"])
def test_models_that_are_deleted_while_training(what, tmp_path):
    folder = tmp_path / "models"
    delete = f"shutil.rmtree({str(folder)!r})" if what == "folder" else f"os.remove({str(folder / 'net.lock')!r})"
    options = {"model": str(folder / "net"), "init_train_epoch_posthook": f"import os, shutil; {delete}"}
    text = message(tasks.train, config(tmp_path, **options))
    assert text.startswith(f"option 'model': the lock '{folder}/net.lock' is gone, so nothing is written.\n")


def test_sequence_far_larger_than_a_batch(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(long_steps, "FIRST_REPORT_S", 0.0)
    monkeypatch.setattr(long_steps, "_POLL_S", 0.01)
    data = {"class": "DummyDataset", "input_dim": 9, "output_dim": 2, "num_seqs": 1, "seq_len": 3_000_000}
    tasks.train(config(tmp_path, train=data))
    out = capsys.readouterr().out
    assert (
        "WARNING: sequence 'seq-0' has 3,000,000 frames, but batch_size is 1,000. It is a batch of its own, and may"
        " need all memory. 'max_seq_length' leaves out such sequences, 'chunking' cuts them." in out
    )
    assert "train epoch 1, step 0: 1 sequence ('seq-0'), 3,000,000 frames with padding, runs for 0 s now" in out


def hdf_file(filename, tags):
    with SimpleHDFWriter(str(filename), dim=9, ndim=2) as writer:
        for tag in tags:
            writer.insert_batch(numpy.ones((1, 4, 9), "float32"), seq_len={0: [4]}, seq_tag=[tag])
    return {"class": "HDFDataset", "files": [str(filename)]}


def test_two_sequences_with_one_tag_in_a_search(tmp_path):
    network = {
        "probs": {"class": "softmax", "from": "data", "n_out": 2},
        "output": {"class": "reduce", "mode": "argmax", "axis": "F", "from": "probs"},
    }
    options = {
        "task": "search", "search_data": hdf_file(tmp_path / "x.hdf", ["a", "b", "c", "a"]), "network": network,
        "search_output_file": str(tmp_path / "hyps"), "search_do_eval": False, "allow_random_model_init": True,
    }  # fmt: skip
    text = message(tasks.search_task, config(tmp_path, **options))
    assert text.startswith("search: two sequences have the tag 'a', so the hypotheses of one would be lost.")


def test_two_sequences_with_one_tag_in_an_evaluation(tmp_path):
    dev = hdf_file(tmp_path / "x.hdf", ["a", "b", "a"])
    network = {"output": {"class": "reduce", "mode": "mean", "axis": "F", "from": "data", "loss": "as_is"}}
    options = {"task": "eval", "dev": dev, "network": network, "allow_random_model_init": True}
    text = message(tasks.evaluate, config(tmp_path, **options, eval_output_file_per_seq=str(tmp_path / "scores")))
    assert text.startswith("eval: two sequences have the tag 'a', so the scores of one would be lost.")
    text = message(tasks.evaluate, config(tmp_path, **options, eval_output_file=str(tmp_path / "no" / "scores")))
    assert text == f"cannot write the file '{tmp_path}/no/scores': there is no folder '{tmp_path}/no'."


def test_output_of_a_search_that_cannot_be_written_is_found_first(tmp_path, capsys):
    file = str(tmp_path / "no" / "hyps")
    options = {"task": "search", "search_data": hdf_file(tmp_path / "x.hdf", ["a"]), "search_output_file": file}
    network = {
        "probs": {"class": "softmax", "from": "data", "n_out": 2},
        "output": {"class": "ctc_decode", "from": "probs", "target": None},
    }
    text = message(tasks.search_task, config(tmp_path, **options, network=network, allow_random_model_init=True))
    assert text == f"cannot write the file '{file}': there is no folder '{tmp_path}/no'."
    assert "search, step" not in capsys.readouterr().out


def test_tag_that_is_not_utf8(tmp_path):
    data = hdf_file(tmp_path / "x.hdf", ["aaaa", "bbbb"])
    content = (tmp_path / "x.hdf").read_bytes()
    assert content.count(b"bbbb") == 1
    (tmp_path / "x.hdf").write_bytes(content.replace(b"bbbb", b"bb\xff\xfe"))
    text = message(
        tasks.train,
        config(
            tmp_path,
            train=data,
            network={"output": {"class": "linear", "n_out": 2, "activation": None, "from": "data", "loss": "as_is"}},
        ),
    )
    assert "is not UTF-8" in text
    assert "xff" in text


def test_resumed_training_with_other_data(tmp_path, capsys):
    tasks.train(config(tmp_path))
    other = {"class": "Task12AXDataset", "num_seqs": 21}
    text = message(tasks.train, config(tmp_path, train=other, num_epochs=2))
    assert text.startswith(
        "Task12AXDataset 'train': is other data than that this training began with: it had 20 sequences, and has 21.\n"
    )
    tasks.train(config(tmp_path, train=other, num_epochs=2, accept_changed_data=True))
    assert "is other data than before" in capsys.readouterr().out
    tasks.train(config(tmp_path, train=other, num_epochs=3))


def with_labels(path, *labels, **options):
    """:return: of a training whose targets have a vocabulary"""
    classes = {"dim": 2, "sparse": True, "vocab": {"class": "Vocabulary", "vocab_file": None, "labels": list(labels)}}
    dev = {"class": "Task12AXDataset", "num_seqs": 5, "fixed_random_seed": 1}
    return config(path, dev=dev, extern_data={"data": {"dim": 9, "shape": (None, 9)}, "classes": classes}, **options)


def test_model_with_a_vocabulary_that_was_made_anew(tmp_path, capsys):
    """It has as many labels, so the model fits to it still."""
    text = "extern_data['classes']: vocab: is another one than in the training of this model: "
    text += "it has as many labels, 2, but other ones"
    tasks.train(with_labels(tmp_path, "a", "b"))
    tasks.evaluate(with_labels(tmp_path, "a", "b", task="eval"))
    assert text not in capsys.readouterr().out
    tasks.evaluate(with_labels(tmp_path, "b", "a", task="eval"))
    assert f"{text}. So its outputs are no longer those of these labels." in capsys.readouterr().out
    forget_shown()
    check_config(with_labels(tmp_path, "b", "a", task="check"))
    assert text in capsys.readouterr().out
    assert message(tasks.train, with_labels(tmp_path, "b", "a", num_epochs=2)).startswith(f"{text}.\n")
    tasks.train(with_labels(tmp_path, "b", "a", num_epochs=2, accept_changed_data=True))
    tasks.evaluate(with_labels(tmp_path, "b", "a", task="eval"))
    assert text not in capsys.readouterr().out


def test_learning_rate_file_that_cannot_be_written_is_found_first(tmp_path):
    (tmp_path / "file").write_text("no folder")
    text = message(tasks.train, config(tmp_path, learning_rate_file=str(tmp_path / "file" / "rates")))
    assert text.startswith(f"option 'learning_rate_file': '{tmp_path}/file/rates' cannot be written: ")
    assert not list(tmp_path.glob("*.index"))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (bytes(range(128, 256)) * 20, "'utf-8' codec can't decode byte 0x80"),
        (b"{1: EpochData(learningRate='x')}", "the learning rate of epoch 1 is 'x', expected a number"),
        (b"{'a': EpochData(learningRate=0.1)}", "'a' is no epoch"),
    ],
)
def test_learning_rate_file_with_wrong_content(content, reason, tmp_path):
    (tmp_path / "rates").write_bytes(content)
    text = message(tasks.train, config(tmp_path, learning_rate_file=str(tmp_path / "rates")))
    assert text.startswith(f"learning rate file '{tmp_path}/rates' cannot be read: ")
    assert reason in text
