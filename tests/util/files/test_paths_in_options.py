"""Which texts in options are paths."""

import numpy

from returnn.util.files.paths_in_options import find_paths


def test_existing_paths_in_the_order_of_the_options(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("b.hdf", "a.hdf", "vocab", "train"):
        (tmp_path / name).write_text("")
    (tmp_path / "folder").mkdir()
    options = {
        "class": "a.hdf", "name": "b.hdf", "files": ["b.hdf", "a.hdf", "c.hdf"], "kind": "train",
        "inner": ({"path": f"{tmp_path}/folder", "vocab": tmp_path / "vocab", "a.hdf": 3}, None, len, "a.hdf"),
    }  # fmt: skip
    assert find_paths(options) == ["b.hdf", "a.hdf", f"{tmp_path}/folder", f"{tmp_path}/vocab"]


def test_bundle_files_name_more(tmp_path):
    (tmp_path / "a.hdf").write_text("")
    bundle = tmp_path / "all.bundle"
    bundle.write_text(f"{tmp_path}/a.hdf\n\n{tmp_path}/missing.hdf\n")
    assert find_paths([str(bundle)]) == [str(bundle), f"{tmp_path}/a.hdf"]


def test_sequences_name_no_files(tmp_path):
    (tmp_path / "a.hdf").write_text("")
    seqs = [{"data": numpy.zeros(3), "seq_tag": f"{tmp_path}/a.hdf"}] * 2
    assert find_paths({"class": "StaticDataset", "data": seqs, "map": [{"file": f"{tmp_path}/a.hdf"}]}) == [
        f"{tmp_path}/a.hdf"
    ]
    assert find_paths({"class": "StaticDataset", "data": tuple(seqs)}) == []
