"""Archives of audio that are made of a Bliss corpus."""

import ast
import sys
import zipfile

import numpy
import pytest

from returnn.datasets.audio import OggZipDataset
from returnn.datasets.util.rasr_archive import FileArchive
from returnn.tools.ogg_zip import find_ffmpeg, segments_of_folder
from returnn.util.errors import UserError
from tests.datasets.util.test_feature_extraction import RATE, sawtooth, wav_bytes

BLISS = """<?xml version="1.0" encoding="utf8"?>
<corpus name="c">
  <recording name="1" audio="1.wav">
    <segment name="a" start="0" end="0.5"><orth> hello world </orth></segment>
    <segment name="b" start="0.75"><orth>hello</orth></segment>
  </recording>
  <recording name="2" audio="2.wav"><segment name="a"><orth>it's new</orth></segment></recording>
</corpus>
"""
AUDIO = {"features": "raw", "peak_normalization": False}
OPTIONS = ["--ffmpeg_acodec", "libvorbis", "--ffmpeg_loglevel", "error"]


def louder(seconds):
    """:return: samples that tell by how loud they are from where they come"""
    audio = sawtooth(seconds)
    return audio * numpy.linspace(0, 1, len(audio))


def assert_similar(audio, wanted):
    assert audio.shape == wanted.shape
    assert numpy.abs(audio - wanted).mean() < 0.02


@pytest.fixture
def bliss(tmp_path):
    path = tmp_path / "corpus.xml"
    path.write_text(BLISS, encoding="utf8")
    for name, seconds in (("1", 1.25), ("2", 0.25)):
        (tmp_path / f"{name}.wav").write_bytes(wav_bytes(louder(seconds)))
    return path


@pytest.fixture
def ffmpeg():
    pytest.importorskip("soundfile")
    try:
        return find_ffmpeg()
    except UserError as exc:
        pytest.skip(str(exc))


def entries(path):
    with zipfile.ZipFile(path) as archive:
        return ast.literal_eval(archive.read(f"{path.name.removesuffix('.zip')}.txt").decode("utf8"))


def audio_of(path):
    """:return: tag -> samples, as a data set reads them"""
    dataset = OggZipDataset(path=str(path), audio=AUDIO, targets=None)
    dataset.init_seq_order()
    dataset.load_seqs(0, dataset.num_seqs)
    return {dataset.get_tag(i): dataset.get_data(i, "data")[:, 0] for i in range(dataset.num_seqs)}


def test_segments_are_cut(tool, bliss, tmp_path, ffmpeg):
    out = tmp_path / "train.ogg.zip"
    assert tool("bliss-to-ogg-zip", bliss, "--output", out, *OPTIONS)[::2] == (0, "")
    assert entries(out) == [
        {"text": "hello world", "duration": 0.5, "seq_name": "c/1/a", "file": "c/1/a.ogg"},
        {"text": "hello", "duration": 0.5, "seq_name": "c/1/b", "file": "c/1/b.ogg"},
        {"text": "it's new", "duration": 0.25, "seq_name": "c/2/a", "file": "c/2/a.ogg"},
    ]
    audio = audio_of(out)
    wanted = {"c/1/a": louder(1.25)[: RATE // 2], "c/1/b": louder(1.25)[RATE * 3 // 4 :], "c/2/a": louder(0.25)}
    assert list(audio) == list(wanted)
    for tag, samples in wanted.items():
        assert_similar(audio[tag], samples)
    again = tmp_path / "again" / out.name
    again.parent.mkdir()
    assert tool("bliss-to-ogg-zip", bliss, "--output", again, *OPTIONS)[0] == 0
    assert again.read_bytes() == out.read_bytes()


@pytest.mark.parametrize(
    ("seconds", "spans"),
    [
        (0.25, [(0, None), (0, 0.25), (0.1, 0.2), (0.1, None)]),  # a single block
        (0.6, [(0, 0.6), (0.1, 0.2), (0.45, 0.6), (0.45, None)]),
        (20, [(0, 1), (9, 11), (15, 15.5), (19.8, 20), (19.5, None)]),
    ],
)
@pytest.mark.parametrize("is_silent", [False, True])
def test_segments_of_flac(tool, tmp_path, ffmpeg, seconds, spans, is_silent):
    """Its blocks have 4096 samples; to seek in it fails in the last ones, the more of these the smaller they are."""
    soundfile = pytest.importorskip("soundfile")

    audio = louder(seconds) * numpy.linspace(0, 1, int(seconds * RATE)) ** 50 if is_silent else louder(seconds)
    soundfile.write(tmp_path / "1.flac", audio, RATE)
    times = [f'start="{start}"' + (f' end="{end}"' if end is not None else "") for start, end in spans]
    segments = "".join(f'<segment name="{i}" {text}><orth>a</orth></segment>' for i, text in enumerate(times))
    bliss, out = tmp_path / "c.xml", tmp_path / "train.zip"
    bliss.write_text(f'<corpus name="c"><recording name="1" audio="1.flac">{segments}</recording></corpus>')
    assert tool("bliss-to-ogg-zip", bliss, "--output", out) == (
        0,
        f"wrote {out}: {len(spans)} segments, 0.00{1 if seconds == 20 else 0} hours\n",
        "",
    )
    found = audio_of(out)
    for i, (start, end) in enumerate(spans):
        last = None if end is None else round(end * RATE)
        assert_similar(found[f"c/1/{i}"], audio[round(start * RATE) : last])


@pytest.mark.parametrize(
    ("span", "problem"),
    [
        ('start="0" end="2"', "lasts 2 s, from 0 s on, but of that, there is 1.25 s in"),
        ('start="1" end="1.5"', "lasts 0.5 s, from 1 s on, but of that, there is 0.25 s in"),
        ('start="3" end="3.05"', "lasts 0.05 s, from 3 s on, but of that, there is 0 s in"),
        ('start="13" end="14"', "lasts 1 s, from 13 s on, but of that, there is 0 s in"),
        ('start="1.25"', "begins at 1.25 s, but of that, there is 0 s in"),
    ],
)
def test_audio_that_is_not_there(tool, bliss, tmp_path, ffmpeg, span, problem):
    bliss.write_text(BLISS.replace('start="0" end="0.5"', span))
    err = tool("bliss-to-ogg-zip", bliss, "--output", tmp_path / "x.zip", *OPTIONS)[2]
    assert err == f"error: Bliss segment 'c/1/a': it {problem} '{tmp_path}/1.wav'.\n"
    assert not (tmp_path / "x.zip").exists()


def test_a_segment_that_ends_soon_after_its_file(tool, bliss, tmp_path, ffmpeg):
    bliss.write_text(BLISS.replace('name="a">', 'name="a" end="0.3">'))
    assert tool("bliss-to-ogg-zip", bliss, "--output", tmp_path / "x.zip", *OPTIONS)[::2] == (0, "")


def test_a_damaged_file_is_told(tool, bliss, tmp_path, ffmpeg):
    soundfile = pytest.importorskip("soundfile")

    soundfile.write(tmp_path / "2.flac", louder(3), RATE)
    content = bytearray((tmp_path / "2.flac").read_bytes())
    content[len(content) // 2 : len(content) // 2 + 50] = bytes(50)
    (tmp_path / "2.flac").write_bytes(content)
    bliss.write_text(BLISS.replace("2.wav", "2.flac"))
    status, _, err = tool("bliss-to-ogg-zip", bliss, "--output", tmp_path / "x.zip")
    assert status == 0
    assert all(line.startswith("WARNING: Bliss segment 'c/2/a': ffmpeg: [") for line in err.splitlines())
    assert "[error]" in err


def test_subset_with_another_sample_rate(tool, bliss, tmp_path, ffmpeg):
    out, subset = tmp_path / "dev.zip", tmp_path / "subset"
    subset.write_text("c/2/a\n")
    options = ["--subset_segment_file", subset, "--ffmpeg_resample", RATE // 2, "--number_of_channels", 1]
    status, shown, _ = tool("bliss-to-ogg-zip", bliss, "--output", out, *options, *OPTIONS, "--no_cleanup")
    assert status == 0
    folder, wrote = shown.splitlines()
    assert wrote == f"wrote {out}: 1 segment, 0.000 hours"
    with zipfile.ZipFile(out) as archive, open(f"{folder.removeprefix('converted files: ')}/0.ogg", "rb") as file:
        assert archive.read("dev/c/2/a.ogg") == file.read()
    dataset = OggZipDataset(path=str(out), audio={**AUDIO, "sample_rate": RATE // 2}, targets=None)
    dataset.init_seq_order()
    dataset.load_seqs(0, 1)
    assert dataset.get_data(0, "data").shape == (RATE // 8, 1)


@pytest.mark.parametrize("dim", [1, 80])
def test_samples_of_a_cache(tool, bliss, tmp_path, ffmpeg, dim):
    out, cache = tmp_path / "train.zip", tmp_path / "cache"
    samples = (louder(0.5) * 2**15).astype("float32").reshape(-1, dim)
    archive = FileArchive(str(cache), must_exists=False)
    archive.add_feature_cache("c/1/a", samples, numpy.zeros((len(samples), 2)))
    archive.finalize()
    (tmp_path / "subset").write_text("c/1/a\n")
    options = ["--output", out, "--sprint_cache", cache, *OPTIONS]
    assert tool("bliss-to-ogg-zip", bliss, *options)[2] == (
        "error: option '--sprint_cache': there is no entry 'c/1/b'.\n"
    )
    assert not out.exists()
    options += ["--subset_segment_file", tmp_path / "subset"]
    assert tool("bliss-to-ogg-zip", bliss, *options, "--ffmpeg_resample", 8000)[::2] == (0, "")
    dataset = OggZipDataset(path=str(out), audio={**AUDIO, "sample_rate": 8000}, targets=None)
    dataset.init_seq_order()
    dataset.load_seqs(0, 1)
    assert_similar(dataset.get_data(0, "data")[:, 0], louder(0.5))
    if dim > 1:
        assert tool("bliss-to-ogg-zip", bliss, *options, "--feat_sample_rate", 50)[2] == (
            "error: option '--sprint_cache': entry 'c/1/a' has 80 values per frame. With 8000 samples and 50 frames "
            "per second, 160 are expected, or 1.\n"
        )


def test_texts_alone(tool, bliss, tmp_path):
    out = tmp_path / "train.zip"
    bliss.write_text(BLISS.replace('start="0.75"', 'start="0.75" end="1.25"').replace('name="a">', 'name="a" end="1">'))
    assert tool("bliss-to-ogg-zip", bliss, "--output", out, "--no_ogg")[0] == 0
    assert [entry.get("file") for entry in entries(out)] == [None] * 3
    dataset = OggZipDataset(
        path=str(out), audio=None, targets={"class": "CharacterTargets", "labels": list("helo wrd'nit@")}
    )
    assert dataset.get_total_num_seqs() == 3


def test_files_as_they_are(tool, bliss, tmp_path):
    out = tmp_path / "train.zip"
    options = ["--output", out, "--no_conversion"]
    assert tool("bliss-to-ogg-zip", bliss, *options)[2] == (
        "error: option '--no_conversion': segment 'c/1/b' is a part of its recording, which has to be cut.\n"
    )
    (tmp_path / "subset").write_text("c/2/a\n")
    options += ["--subset_segment_file", tmp_path / "subset"]
    assert tool("bliss-to-ogg-zip", bliss, *options)[0] == 0
    assert entries(out) == [{"text": "it's new", "duration": 0.25, "seq_name": "c/2/a", "file": "c/2/a.wav"}]
    numpy.testing.assert_allclose(audio_of(out)["c/2/a"], louder(0.25), atol=1e-4)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--no_ogg", "--ffmpeg_acodec", "flac"], "option '--ffmpeg_acodec': with '--no_ogg', nothing is converted."),
        (["--no_conversion", "--sprint_cache", "x"], "option '--sprint_cache': with '--no_conversion', nothing is"),
        (["--no_ogg"], "Bliss segment 'c/1/b': has no 'end', so its duration is not known."),
    ],
)
def test_wrong_options(tool, bliss, tmp_path, options, message):
    status, _, err = tool("bliss-to-ogg-zip", bliss, "--output", tmp_path / "x.zip", *options)
    assert status == 1
    assert err.startswith(f"error: {message}")
    assert not (tmp_path / "x.zip").exists()


def test_wrong_corpora(tool, bliss, tmp_path, ffmpeg):
    options = ["--output", tmp_path / "x.zip", *OPTIONS]
    (tmp_path / "2.wav").write_text("no audio")
    err = tool("bliss-to-ogg-zip", bliss, *options)[2]
    assert err.startswith("error: Bliss segment 'c/2/a': ffmpeg failed: ")
    assert "\n  The command was: " in err
    (tmp_path / "2.wav").unlink()
    assert tool("bliss-to-ogg-zip", bliss, *options)[2] == (
        "error: Bliss segment 'c/2/a': the audio file '2.wav' does not exist.\n"
    )
    bliss.write_text(BLISS.replace('name="b"', 'name="a"'))
    assert tool("bliss-to-ogg-zip", bliss, *options)[2] == "error: the corpus has several segments 'c/1/a'.\n"
    bliss.write_text("<corpus name='c'></corpus>")
    assert tool("bliss-to-ogg-zip", bliss, *options)[2] == (
        "error: there are no segments in the corpus, or none that are wanted.\n"
    )


def test_folder_of_files(tool, tmp_path):
    (tmp_path / "wavs" / "sub").mkdir(parents=True)
    for name, seconds in (("1", 1.25), ("sub/2", 0.25)):
        (tmp_path / "wavs" / f"{name}.wav").write_bytes(wav_bytes(louder(seconds)))
    text, out = tmp_path / "text", tmp_path / "train.zip"
    text.write_text("sub/2 it's new\n1  hello world\n", encoding="utf8")
    status, shown, _ = tool("make-ogg-zip", tmp_path / "wavs", text, out)
    assert (status, shown) == (0, f"wrote {out}: 2 recordings, 0.000 hours\n")
    assert entries(out) == [
        {"text": "it's new", "duration": 0.25, "seq_name": "sub/2", "file": "sub/2.wav"},
        {"text": "hello world", "duration": 1.25, "seq_name": "1", "file": "1.wav"},
    ]
    audio = audio_of(out)
    assert sorted(audio) == ["1", "sub/2"]
    numpy.testing.assert_allclose(audio["sub/2"], louder(0.25), atol=1e-4)


def test_list_of_files_as_in_kaldi(tool, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wavs").mkdir()
    (tmp_path / "kaldi").mkdir()
    for name in ("x", "y"):
        (tmp_path / "wavs" / f"{name}.wav").write_bytes(wav_bytes(louder(0.25)))
    scp, text = tmp_path / "kaldi" / "wav.scp", tmp_path / "kaldi" / "text"
    scp.write_text("spk-1 wavs/x.wav\nspk-2 ../wavs/y.wav\n")  # from here, or from the list
    text.write_text("spk-2 hello\nspk-1 it's new\n")
    assert tool("make-ogg-zip", scp, text, "train.zip") == (0, "wrote train.zip: 2 recordings, 0.000 hours\n", "")
    assert [(entry["seq_name"], entry["file"]) for entry in entries(tmp_path / "train.zip")] == [
        ("spk-2", "spk-2.wav"),
        ("spk-1", "spk-1.wav"),
    ]
    assert sorted(audio_of(tmp_path / "train.zip")) == ["spk-1", "spk-2"]
    assert "the list 'wav.scp' beside the text says which" in tool("make-ogg-zip", "wavs", text, "x.zip")[2]
    for line, message in {
        "spk-1 sox wavs/x.wav -t wav - |": "wav.scp, line 1: the recording 'spk-1' is a command, whose output would be",
        "spk-1": "wav.scp, line 1: the recording 'spk-1' has no file, which would be the audio.",
        "spk-1 z.wav": "wav.scp, line 1: the recording 'spk-1': there is no file 'z.wav'.",
        "": "wav.scp: there is no line 'NAME FILE' in it",
        "spk-1 wavs/x.wav": "text, line 1: the recording 'spk-2' has no audio file.",
    }.items():
        scp.write_text(f"{line}\n")
        assert message in tool("make-ogg-zip", scp, text, "x.zip")[2]
    assert "is a zip file, so its name ends in '.zip'" in tool("make-ogg-zip", "wavs", text, "x.tar")[2]
    assert tool("make-ogg-zip", text, "wavs", "x.zip")[2] == (
        f"error: the texts are in a file, but 'wavs' is a folder. The folder is the first argument: {str(text)!r} and"
        " 'wavs' may be swapped.\n"
    )


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'file,text\r\nsub/2.wav,"it\'s, new"\r\n1.wav,"say ""hello"""\r\n'),
        ("a.csv", '\ufeffsub/2;it\'s, new\n1;say "hello"\n'),
        ("a.csv", 'id|raw|transcript\nsub/2|x|it\'s, new\n1|x|say "hello"\n'),
        ("a.tsv", 'sentence\tpath\nit\'s, new\twavs/sub/2.wav\n\nsay "hello"\twavs/1.wav\n'),
        ("a.tsv", 'file\ttext\nsub/2.wav\tit\'s, new\n1.wav\t"say ""hello"""\n'),
        ("a.json", '{"sub/2.wav": "it\'s, new", "1.wav": "say \\"hello\\""}'),
        ("a.json", '[{"file": "sub/2", "text": "it\'s, new"}, {"file": "1", "text": "say \\"hello\\""}]'),
        ("a.jsonl", '{"path": "sub/2.wav", "text": "it\'s, new"}\n{"path": "1.wav", "text": "say \\"hello\\""}\n'),
        ("a.txt", 'wavs/sub/2.wav it\'s, new\nwavs/1.wav say "hello"\n'),
        ("a.txt", '\nwavs/sub/2.wav it\'s, new\n \nwavs/1.wav say "hello"\n\n'),
    ],
)
def test_texts_as_they_come_with_corpora(tmp_path, name, text):
    (tmp_path / "wavs" / "sub").mkdir(parents=True)
    for wav in ("1", "sub/2"):
        (tmp_path / "wavs" / f"{wav}.wav").touch()
    (tmp_path / name).write_text(text, encoding="utf8", newline="")
    segments = segments_of_folder(str(tmp_path / "wavs"), str(tmp_path / name))
    assert [(segment.name, segment.orth) for segment in segments] == [("sub/2", "it's, new"), ("1", 'say "hello"')]


@pytest.mark.parametrize("text", ['"say', 'say "hello', '"say" hello'])
def test_quotation_marks_of_a_table_with_tabs_are_those_of_its_texts(tmp_path, text):
    (tmp_path / "1.wav").touch()
    (tmp_path / "2.wav").touch()
    (tmp_path / "a.tsv").write_text(f"path\tsentence\n1.wav\t{text}\n2.wav\tno\n", encoding="utf8")
    segments = segments_of_folder(str(tmp_path), str(tmp_path / "a.tsv"))
    assert [(segment.name, segment.orth) for segment in segments] == [("1", text), ("2", "no")]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.csv",
            "file,what\n1.wav,hello\n",
            "a.csv: there is no column 'text'. There are 'file', 'what'.\n  Possible",
        ),
        ("a.csv", "1.wav,hello\n1.wav\n", "a.csv, line 2: there is no column 2: '1.wav'."),
        ("a.json", "[1]", "a.json, entry 0: expected a dict with file and text, got 1."),
        ("a.json", "3", "a.json: expected a dict from file to text, or a list of dicts with file and text."),
        ("a.jsonl", "1 hello\n", "a.jsonl, line 1: it is no JSON: "),
        ("a.csv", "file,text\n2.wav,hello\n", "a.csv, line 2: the recording '2.wav' has no audio file."),
        ("a.csv", "", "a.csv: there is no line"),
        ("a.csv", 'a,"hello\n1,"b"\n', "a.csv, line 1: a quotation mark has no other one in its line, or"),
        ("a.csv", '1,"hello', "a.csv, line 1: a quotation mark has no other one in its line, or"),
    ],
)
def test_wrong_tables_of_texts(tmp_path, name, text, message):
    (tmp_path / "1.wav").touch()
    (tmp_path / name).write_text(text, encoding="utf8")
    with pytest.raises(UserError) as error:
        segments_of_folder(str(tmp_path), str(tmp_path / name))
    assert message in str(error.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 hello\n2 no\n", "text, line 2: the recording '2' has no audio file.\n  There are 1 in '"),
        ("1 hello\n1.wav again\n", "text, line 2: the recording '1' has a text already: "),
    ],
)
def test_wrong_texts_of_a_folder(tool, tmp_path, text, message):
    (tmp_path / "wavs").mkdir()
    arguments = [tmp_path / "wavs", tmp_path / "text", tmp_path / "x.zip"]
    (tmp_path / "text").write_text(text)
    assert tool("make-ogg-zip", *arguments)[2].startswith("error: there is no audio file (.wav, ")
    (tmp_path / "wavs" / "1.wav").write_bytes(wav_bytes(louder(0.25)))
    assert message in tool("make-ogg-zip", *arguments)[2]
    (tmp_path / "empty").write_text("")
    assert (
        "empty: there is no line 'NAME TEXT'" in tool("make-ogg-zip", tmp_path / "wavs", tmp_path / "empty", "x.zip")[2]
    )
    (tmp_path / "wavs" / "1.flac").write_bytes(b"")
    assert "the recording '1' has several files: " in tool("make-ogg-zip", *arguments)[2]
    assert not (tmp_path / "x.zip").exists()


def test_without_ffmpeg(tool, bliss, tmp_path, monkeypatch):
    find_ffmpeg.cache_clear()
    monkeypatch.setenv("PATH", "")
    monkeypatch.setitem(sys.modules, "imageio_ffmpeg", None)
    status, _, err = tool("bliss-to-ogg-zip", bliss, "--output", tmp_path / "x.zip")
    find_ffmpeg.cache_clear()
    assert status == 1
    assert err.startswith("error: The package 'imageio_ffmpeg' is needed for encoding audio, as there is no program ")


def test_what_is_seldom_wanted_is_said(tool, tmp_path):
    for name, options in {"1": {}, "2": {"rate": RATE // 2}, "3": {}, "4": {}}.items():
        audio = numpy.stack([louder(0.25)] * 2, axis=1) if name == "3" else louder(0.25)
        (tmp_path / f"{name}.wav").write_bytes(wav_bytes(audio, **options))
    (tmp_path / "text").write_text("1 hello\n2 you\n3\n")
    status, _, err = tool("make-ogg-zip", tmp_path, tmp_path / "text", tmp_path / "x.zip")
    assert status == 0
    assert f"1 audio file without a text in '{tmp_path}/text' left out, such as '{tmp_path}/4.wav'." in err
    assert f"there are several sample rates: {RATE // 2} Hz in 1, such as '2', {RATE} Hz in 2, such as '1'." in err
    assert "there is audio of several channels: 1 channel in 2, such as '1', 2 channels in 1, such as '3'." in err
    assert "the text of 1 recording is empty, such as that of '3'." in err
    (tmp_path / "text").write_text("1 hello\n2 you\n3 a\n4 b\n")
    missing = tmp_path / "missing"
    err = tool("make-ogg-zip", tmp_path, tmp_path / "text", missing / "x.zip")[2]
    assert err == f"error: cannot write the file '{missing}/x.zip': there is no folder '{missing}'.\n"
    assert tool("make-ogg-zip", missing, tmp_path / "text", "x.zip")[2] == f"error: there is no folder '{missing}'.\n"
