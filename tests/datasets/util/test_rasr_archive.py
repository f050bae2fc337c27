from __future__ import annotations

import io
import struct
import zlib

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.datasets.util.allophone_labeling import AllophoneLabeling
from returnn.datasets.util.rasr_archive import (
    FileArchive,
    FileArchiveBundle,
    is_sprint_cache_file,
    open_file_archive,
)
from returnn.util.errors import UserError

ALLOPHONES = ["si{#+#}@i@f", "a{#+b}@i", "b{a+#}@f"]


def features(num_frames, dim=3, seed=1):
    rnd = numpy.random.RandomState(seed)
    times = numpy.arange(num_frames)[:, None] * 0.01 + [0, 0.025]
    return rnd.normal(size=(num_frames, dim)).astype("float32"), times


def write_features(path, *, finalize=True, num=3):
    archive = FileArchive(str(path), must_exists=False)
    for i in range(num):
        data, times = features(i + 1, seed=i)
        archive.add_feature_cache(f"corpus/seq{i}", data, times)
        archive.add_attributes(f"corpus/seq{i}", dim=3, duration=times[-1, 1])
    if finalize:
        archive.finalize()
    return str(path)


def alignment_content(*parts, count):
    name = b"flow-alignment"
    return (
        struct.pack("<I", len(name))
        + name
        + struct.pack("<II", 0, 0)
        + b"ALIGNRLE"
        + struct.pack("<I", count)
        + b"".join(parts)
    )


def run_lengths(mixes):
    """The parts of an alignment: runs of equal states, and of different ones."""
    parts = []
    for i, mix in enumerate(mixes):
        if i and mixes[i - 1] == mix:
            continue
        run = next((j for j in range(i, len(mixes)) if mixes[j] != mix), len(mixes)) - i
        parts.append(struct.pack("<bI", -run if run > 1 else 1, mix))
    return parts


def write_alignments(path, alignments):
    archive = FileArchive(str(path), must_exists=False)
    for name, mixes in alignments.items():
        archive.add_content(name, alignment_content(*run_lengths(mixes), count=len(mixes)))
    archive.finalize()
    return str(path)


@pytest.mark.parametrize("finalize", [True, False])
def test_features_there_and_back(tmp_path, finalize):
    path = write_features(tmp_path / "cache", finalize=finalize)
    archive = FileArchive(path)
    assert archive.file_list()[:2] == ["corpus/seq0", "corpus/seq0.attribs"]
    for i in range(3):
        times, data = archive.read(f"corpus/seq{i}", "feat")
        expected = features(i + 1, seed=i)
        numpy.testing.assert_array_equal(data, expected[0])
        numpy.testing.assert_array_equal(times, expected[1])
    assert archive.has_entry("corpus/seq2")
    assert is_sprint_cache_file(path)


def test_archive_that_was_cut_has_its_first_entries(tmp_path):
    path = tmp_path / "cache"
    write_features(path, finalize=True)
    path.write_bytes(path.read_bytes()[:600])
    names = FileArchive(str(path)).file_list()
    assert names == ["corpus/seq0", "corpus/seq0.attribs", "corpus/seq1"]


@given(st.lists(st.integers(0, 8), max_size=30))
def test_alignment_there_and_back(tmp_path_factory, mixes):
    folder = tmp_path_factory.mktemp("rasr")
    (folder / "allophones").write_text("# comment\n" + "\n".join(ALLOPHONES))
    archive = FileArchive(write_alignments(folder / "cache", {"s": mixes}))
    assert archive.read("s", "align_raw") == [(t, mix, 0, 1.0) for t, mix in enumerate(mixes)]
    archive.set_allophones(str(folder / "allophones"))
    assert archive.read("s", "align") == [(t, mix % 3, mix // 3, 1.0) for t, mix in enumerate(mixes)]


def test_alignment_with_weights_and_with_jumps(tmp_path):
    archive = FileArchive(str(tmp_path / "cache"), must_exists=False)
    items = struct.pack("<IIfIIf", 0, 1, 0.25, 0, 2, 0.75)
    archive.add_content("weights", alignment_content(items, count=2 | 1 << 31))
    jump = struct.pack("<bI", 0, 7) + struct.pack("<bII", 2, 4, 5)
    archive.add_content("jump", alignment_content(jump, count=2))
    assert archive.read("weights", "align_raw") == [(0, 1, 0, 0.25), (0, 2, 0, 0.75)]
    assert archive.read("jump", "align_raw") == [(7, 4, 0, 1.0), (8, 5, 0, 1.0)]


def test_compressed_entry(tmp_path):
    path = write_features(tmp_path / "cache", num=1)
    content = FileArchive(path).read_content("corpus/seq0")
    packed = zlib.compress(content)
    name = b"zipped"
    entry = struct.pack("<II", FileArchive.start_recovery_tag, len(name)) + name
    entry += (
        struct.pack("<III", len(content), len(packed), 0) + packed + struct.pack("<I", FileArchive.end_recovery_tag)
    )
    (tmp_path / "zipped").write_bytes(b"SP_ARC1\0\0" + entry)
    assert FileArchive(str(tmp_path / "zipped")).read_content("zipped") == content


def test_bundle(tmp_path):
    first = write_features(tmp_path / "first", num=1)
    second = write_features(tmp_path / "second", num=3)
    (tmp_path / "all.bundle").write_text(f"{first}\n{second}\n")
    bundle = open_file_archive(str(tmp_path / "all.bundle"))
    assert isinstance(bundle, FileArchiveBundle)
    assert len(bundle.file_list()) == 6
    assert bundle.read("corpus/seq2", "feat")[1].shape == (3, 3)
    with pytest.raises(UserError, match="There is no 'x' in the 2 archives of the bundle"):
        bundle.read("x", "feat")


def test_labels_of_allophones(tmp_path):
    (tmp_path / "allophones").write_text("\n".join(ALLOPHONES))
    (tmp_path / "phonemes").write_text("a\nb\nsi\n")
    (tmp_path / "tying").write_text("si{#+#}@i@f.0 2\na{#+b}@i.0 0\na{#+b}@i.1 1\n")
    tied = AllophoneLabeling("si", str(tmp_path / "allophones"), state_tying_file=str(tmp_path / "tying"))
    assert (tied.num_labels, tied.sil_label_idx, tied.get_label_idx(1, 1)) == (3, 2, 1)
    assert tied.get_label_idx_by_allo_state_idx(4) == 1
    phones = AllophoneLabeling("si", str(tmp_path / "allophones"), phoneme_file=str(tmp_path / "phonemes"))
    assert (phones.num_labels, phones.sil_label_idx, phones.get_label_idx(2, 0)) == (3, 2, 1)
    with pytest.raises(UserError, match=r"there is no label for 'b\{a\+#\}@f.0'"):
        tied.get_label_idx(2, 0)
    with pytest.raises(UserError, match="give one of the options 'phoneme_file' and 'state_tying_file'"):
        AllophoneLabeling("si", str(tmp_path / "allophones"))
    with pytest.raises(UserError, match="has no silence 'x"):
        AllophoneLabeling("x", str(tmp_path / "allophones"), phoneme_file=str(tmp_path / "phonemes"))


def test_wrong_input_is_named(tmp_path):
    with pytest.raises(UserError, match="There is no archive 'nowhere'"):
        FileArchive("nowhere")
    (tmp_path / "x").write_text("text")
    with pytest.raises(UserError, match=r"x' is no archive of RASR"):
        FileArchive(str(tmp_path / "x"))
    path = write_features(tmp_path / "cache")
    archive = FileArchive(path)
    with pytest.raises(UserError, match=r"cache': there is no 'corpus/seq9'.\n  Did you mean 'corpus/seq2'"):
        archive.read("corpus/seq9", "feat")
    with pytest.raises(UserError, match="'corpus/seq0' is b'vector-f32', expected b'flow-alignment'"):
        archive.read("corpus/seq0", "align")
    archive = FileArchive(write_alignments(tmp_path / "align", {"s": [99]}))
    (tmp_path / "allophones").write_text("\n".join(ALLOPHONES))
    archive.set_allophones(str(tmp_path / "allophones"))
    with pytest.raises(UserError, match="state 99 does not fit 3 allophones"):
        archive.read("s", "align")


def test_an_entry_can_be_read_number_by_number(tmp_path):
    archive = FileArchive(write_features(tmp_path / "archive"))
    archive.f.seek(archive.ft["corpus/seq1"].pos)
    size, compressed, _ = (archive.read_u32() for _ in range(3))
    assert (size, compressed) == (archive.ft["corpus/seq1"].size, 0)
    assert archive.read_str(archive.read_U32()) == "vector-f32"
    num_frames, dim = archive.read_u32(), archive.read_u32()
    data, times = features(2, seed=1)
    assert (num_frames, dim) == data.shape
    numpy.testing.assert_array_equal(archive.read_v("f", dim), data[0])
    assert [archive.read_f64(), archive.read_f64()] == times[0].tolist()


def test_allophone_labeling_says_what_it_has_read(tmp_path):
    (tmp_path / "allophones").write_text("".join(f"{line}\n" for line in ALLOPHONES))
    (tmp_path / "phonemes").write_text("si\na\nb\n")
    out = io.StringIO()
    AllophoneLabeling("si", str(tmp_path / "allophones"), phoneme_file=str(tmp_path / "phonemes"), verbose_out=out)
    assert out.getvalue().endswith("allophones: 3 allophones, 3 labels, 0 is silence\n")
