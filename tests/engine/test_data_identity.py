"""A training that is resumed notices that its data is other data."""

import os
import shutil
from pathlib import Path

import pytest

from returnn.config import Config
from returnn.config.preloaded_file import preloaded_files
from returnn.datasets.core.registry import init_dataset
from returnn.engine.data_identity import KnownData, warn_of_labels_of_preloaded
from returnn.engine.run.known_labels import labels_of_config
from returnn.log import log
from returnn.util.errors import UserError
from returnn.util.system.warn_once import forget_shown
from tests.datasets.core.test_changed_files import write


@pytest.fixture(autouse=True)
def log_to_stdout(capsys):
    forget_shown()
    log.initialize(verbosity=[5])


@pytest.fixture
def model(tmp_path):
    return str(tmp_path / "net")


def hdf(*files):
    return init_dataset({"class": "HDFDataset", "name": "train", "files": list(files)})


def generated(num_seqs):
    return init_dataset({"class": "Task12AXDataset", "name": "train", "num_seqs": num_seqs})


def compare(model, dataset, *, name="train", is_resumed=True, may_change=False):
    KnownData(model).compare({name: dataset}, is_resumed=is_resumed, may_change=may_change)


def error(model, dataset):
    with pytest.raises(UserError) as info:
        compare(model, dataset)
    first, hint = str(info.value).splitlines()
    start = f"{dataset.description}: is other data than that this training began with: "
    assert first.startswith(start)
    assert hint.startswith("  'accept_changed_data = True' goes on with it.")
    return first.removeprefix(start)


def test_same_data(model, tmp_path, capsys):
    file = write(tmp_path / "a.hdf")
    compare(model, hdf(file), is_resumed=False)
    compare(model, hdf(file))
    content = Path(f"{model}.data.json").read_text()
    os.utime(file, ns=(1, 1))
    compare(model, hdf(file))
    assert Path(f"{model}.data.json").read_text() != content  # the time
    shutil.move(file, tmp_path / "moved.hdf")
    compare(model, hdf(str(tmp_path / "moved.hdf")))
    assert "WARNING" not in capsys.readouterr().out


def test_file_of_another_size(model, tmp_path):
    compare(model, hdf(write(tmp_path / "a.hdf", num_seqs=40)), is_resumed=False)
    before = os.path.getsize(tmp_path / "a.hdf")
    os.remove(tmp_path / "a.hdf")
    file = write(tmp_path / "a.hdf", num_seqs=20)
    assert error(model, hdf(file)) == f"file {file!r} had {before:,} bytes, and has {os.path.getsize(file):,}."


@pytest.mark.parametrize("has_same_time", [False, True])
def test_file_of_another_name_and_content(has_same_time, model, tmp_path):
    one, other = write(tmp_path / "a.hdf"), write(tmp_path / "b.hdf", offset=1.0)
    assert os.path.getsize(one) == os.path.getsize(other)
    compare(model, hdf(one), is_resumed=False)
    os.utime(one, ns=(1, 1))
    os.utime(other, ns=(1, 1))
    compare(model, hdf(one))
    if not has_same_time:
        os.utime(other)
    assert error(model, hdf(other)).startswith(f"file {other!r}, in the place of {one!r}, has other content: ")


def test_new_copy_by_the_digest_of_the_writer(model, tmp_path):
    file = write(tmp_path / "a.hdf")
    compare(model, hdf(file), is_resumed=False)
    os.remove(file)
    compare(model, hdf(write(tmp_path / "a.hdf")))


def test_more_files(model, tmp_path):
    one, other = write(tmp_path / "a.hdf"), write(tmp_path / "b.hdf")
    compare(model, hdf(one), is_resumed=False)
    assert error(model, hdf(one, other)) == "it had 1 file, and has 2."


def test_samples_of_a_large_file(model, tmp_path):
    file = tmp_path / "text.txt"
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b"]}
    options = {"class": "LmDataset", "corpus_file": str(file), "orth_vocab": vocab}
    file.write_text("a b\n" * 500_000)
    compare(model, init_dataset(options), is_resumed=False)
    file.write_text("a b\n" * 200_000 + "b a\n" * 100_000 + "a b\n" * 200_000)
    assert "has other content" in error(model, init_dataset(options))


def test_data_without_files(model):
    compare(model, generated(20), is_resumed=False)
    compare(model, generated(20))
    assert error(model, generated(21)) == "it had 20 sequences, and has 21."
    static = {"class": "StaticDataset", "data": [{"data": [[1.0]], "seq_tag": tag} for tag in "ab"]}
    compare(model, init_dataset(static), is_resumed=False)
    static["data"] = static["data"][::-1]
    assert error(model, init_dataset(static)) == "it has other sequence tags."


def test_change_that_is_accepted_is_said_once(model, capsys):
    compare(model, generated(20), is_resumed=False)
    compare(model, generated(21), may_change=True)
    assert capsys.readouterr().out == (
        "WARNING: Task12AXDataset 'train': is other data than before: it had 20 sequences, and has 21\n"
    )
    compare(model, generated(21))
    assert capsys.readouterr().out == ""


def test_new_training_may_have_other_data(model, capsys):
    compare(model, generated(20), is_resumed=False)
    compare(model, generated(21), is_resumed=False)
    assert capsys.readouterr().out == ""


def test_other_data_for_evaluation_is_said(model, capsys):
    compare(model, generated(20), name="dev", is_resumed=False)
    compare(model, generated(21), name="dev")
    assert "is other data than before: it had 20 sequences, and has 21" in capsys.readouterr().out


def test_file_that_cannot_be_read_is_said(model, capsys):
    with open(f"{model}.data.json", "wb") as file:
        file.write(bytes(range(256)))
    compare(model, generated(20))
    assert "it is not known which data was there before" in capsys.readouterr().out
    compare(model, generated(20))


def labels_here(*labels, **more):
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": list(labels), "unknown_label": None}
    return Config({"extern_data": {"classes": {"vocab": vocab}, **more}})


@pytest.mark.parametrize(("here", "shape", "is_said"), [
    (("a", "b", "c"), (4, 3), False),
    (("c", "b", "a"), (4, 3), True),
    (("c", "b", "a"), (4, 5), False),  # no value is about labels
    (("a", "b", "c", "d"), (4, 4), False),  # it would not fit
])  # fmt: skip
def test_preloaded_values_are_about_the_same_labels(here, shape, is_said, model, capsys):
    then = labels_of_config(labels_here("a", "b", "c"))
    KnownData(model).compare({}, is_resumed=False, may_change=False, labels=then)
    (file,) = preloaded_files({"old": {"filename": f"{model}.012", "init_for_train": True}})
    warn_of_labels_of_preloaded(file, labels_here(*here), {"output/W": shape})
    found = capsys.readouterr().out
    assert bool(found) == is_said
    assert not is_said or found == (
        f"WARNING: option 'preload_from_files': 'old': '{model}.012' was trained with other labels: its"
        " extern_data['classes'] has as many, 3, but no vocabulary here has these. So the values of 'output/W' are"
        " about other labels.\n  With the vocabulary of then, they fit; 'ignore_params' leaves them out.\n"
    )


def test_preloaded_labels_may_have_another_data_key(model, capsys):
    then = labels_of_config(labels_here("a", "b", "c"))  # a language model
    KnownData(model).compare({}, is_resumed=False, may_change=False, labels={"data": then["classes"]})
    (file,) = preloaded_files({"lm": {"filename": f"{model}.012", "prefix": "lm_"}})
    source = labels_here("x", "y", "z").typed_dict["extern_data"]["classes"]  # in as many labels
    warn_of_labels_of_preloaded(file, labels_here("a", "b", "c", data=source), {"lm_output/W": (4, 3)})
    assert capsys.readouterr().out == ""
