import pytest

from returnn.tf.checkpoint import files
from returnn.tf.checkpoint.files import CheckpointError


def make(folder, *names):
    for name in names:
        (folder / name).write_bytes(b"1234")


def test_names():
    assert files.epoch_filename("net/model", 7) == "net/model.007"
    assert files.epoch_filename("net/model", 1234, is_pretrain=True) == "net/model.pretrain.1234"
    assert files.broken_filename("net/model.007") == "net/model.007.broken"


@pytest.mark.parametrize("suffix", ["", ".index", ".meta", ".data-00000-of-00001", ".data-00003-of-00012"])
def test_checkpoint_of_a_file(suffix):
    assert files.get_checkpoint_filepattern(f"net/model.007{suffix}") == "net/model.007"


def test_deletes_the_files_of_one_checkpoint_alone(tmp_path):
    own = ["m.100.index", "m.100.meta", "m.100.data-00000-of-00002", "m.100.data-00001-of-00002"]
    others = [
        "m.1000.index",
        "m.1000.data-00000-of-00001",
        "m.100.broken.index",
        "m.100.optimizer",
        "m.100",
        "m.pretrain.100.index",
        "mm.100.index",
        "m_100.index",
    ]
    make(tmp_path, *own, *others)
    assert files.delete_checkpoint(str(tmp_path / "m.100")) == 4 * len(own)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)


def test_index_is_deleted_first(tmp_path):
    make(tmp_path, "m.100.data-00000-of-00001", "m.100.index", "m.100.meta")
    assert files.checkpoint_files(str(tmp_path / "m.100"))[0].endswith(".index")


def test_name_of_a_model_is_no_pattern(tmp_path):
    make(tmp_path, "a+b.001.index", "aab.001.index")
    assert files.checkpoint_files(str(tmp_path / "a+b.001")) == [str(tmp_path / "a+b.001.index")]
    assert files.existing_checkpoints(str(tmp_path / "a+b")) == {1: str(tmp_path / "a+b.001")}


def test_deleting_what_is_not_there(tmp_path):
    with pytest.raises(CheckpointError, match=r"^checkpoint '.*/m[.]001' does not exist, and cannot be deleted[.]$"):
        files.delete_checkpoint(str(tmp_path / "m.001"))


def test_existing_checkpoints(tmp_path):
    make(
        tmp_path,
        *("m.002.index", "m.010.index", "m.1000.index", "m.pretrain.001.index", "m.pretrain.002.index"),
        *("m.003.data-00000-of-00001", "m.0004.index", "m.05.index", "m.006.broken.index", "x.007.index"),
    )
    model = str(tmp_path / "m")
    assert files.existing_checkpoints(model) == {
        1: f"{model}.pretrain.001",
        2: f"{model}.002",
        10: f"{model}.010",
        1000: f"{model}.1000",
    }
    with_pretraining = files.existing_checkpoints(model, is_pretrain_epoch=lambda epoch: epoch <= 2)
    assert with_pretraining[2] == f"{model}.pretrain.002"
    assert files.existing_checkpoints(str(tmp_path / "missing" / "m")) == {}


def test_model_in_the_current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    make(tmp_path, "m.001.index")
    assert files.existing_checkpoints("m") == {1: "m.001"}
    assert files.delete_checkpoint("m.001") == 4
