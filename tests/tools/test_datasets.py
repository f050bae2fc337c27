"""Scripts about data sets."""

import gzip
import re

import h5py
import numpy
import pytest

DATA = {"class": "Task12AXDataset", "num_seqs": 4}


def unzipped(path):
    return gzip.decompress(path.read_bytes()).decode("utf8")


def dump(tool, *args):
    status, out, err = tool("dump-dataset", *args, "--verbosity", 1)
    assert (status, err) == (0, "")
    return out


def test_print(tool):
    out = dump(tool, DATA, "--endseq", 1, "--stdout_limit", 5)
    assert out.startswith("seq 0 'seq-0'\n  data float32[84, 9]: [[")
    assert "\n  classes int32[84]: [0 0 1 ... 1 0 1] 'LLR" in out
    assert "1 sequence" in out


def test_selection(tool, tmp_path):
    all_tags = ["seq-0", "seq-1", "seq-2", "seq-3"]
    assert dump(tool, DATA, "--type", "print_tag").split("\n")[:4] == all_tags
    assert dump(tool, DATA, "--type", "print_tag", "--seqtags", "seq-2,seq-0").split("\n")[:2] == ["seq-0", "seq-2"]
    (tmp_path / "tags").write_text("seq-3\n")
    assert dump(tool, DATA, "--type", "print_tag", "--seqtags", tmp_path / "tags").startswith("seq-3\n1 sequence")
    assert dump(tool, DATA, "--type", "print_tag", "--startseq", 3, "--endseq", -1).startswith("seq-3\n1 sequence")
    assert dump(tool, DATA, "--get_num_seqs", "--min_seq_length", "{'data': 65}", "--max_seq_length", 90) == "2\n"


def test_shapes_of_a_data_set_of_a_config(tool, config_file):
    config = config_file(dev=DATA, train={**DATA, "num_seqs": 2})
    assert dump(tool, config, "--type", "print_shape").count("\n") == 3
    out = dump(tool, config, "--type", "print_shape", "--dataset", "dev", "--endseq", "1")
    assert "data float32[" in out
    assert tool("dump-dataset", config, "--dataset", "devv")[2] == (
        "error: the config has no data set 'devv'.\n  Did you mean 'dev'?\n"
    )


def test_data_without_the_usual_key(tool, tmp_path):
    """As an archive that is read for its texts, which has no "data"."""
    assert "  classes int64[2]: [1 2]" in dump(tool, {"class": "StaticDataset", "data": [{"classes": [1, 2]}]})


def test_all_parts_or_those_of_an_epoch(tool, config_file, tmp_path):
    config = config_file(train={**DATA, "partition_epoch": 2, "fixed_random_seed": 1})
    assert dump(tool, config, "--get_num_seqs") == "4\n"
    assert dump(tool, config, "--get_num_seqs", "--epoch", 1) == "2\n"
    assert "seqs=4, " in dump(tool, config, "--type", "null", "--stats")
    assert "seqs=2, " in dump(tool, config, "--type", "null", "--stats", "--epoch", 2)
    for name, options, num in (("all", [], 4), ("part", ["--epoch", 1], 2)):
        hdf = tmp_path / f"{name}.hdf"
        assert tool("hdf_dump", config, hdf, *options)[0] == 0
        with h5py.File(hdf) as file:
            assert len(file["seqTags"]) == num


def test_files(tool, tmp_path):
    prefix = tmp_path / "x."
    dump(tool, DATA, "--type", "dump_tag", "--dump_prefix", prefix)
    assert unzipped(tmp_path / "x.tags.txt.gz") == "seq-0\nseq-1\nseq-2\nseq-3\n"
    dump(tool, DATA, "--type", "dump_seq_len", "--dump_prefix", prefix, "--dump_postfix", ".py")
    assert eval((tmp_path / "x.seq_len.py").read_text()) == {"seq-0": 84, "seq-1": 15, "seq-2": 65, "seq-3": 97}
    dump(tool, DATA, "--type", "numpy", "--dump_prefix", prefix, "--dump_postfix", ".txt", "--endseq", 2)
    assert numpy.loadtxt(tmp_path / "x.1.data.txt").shape == (15, 9)
    assert numpy.loadtxt(tmp_path / "x.1.classes.txt").shape == (15,)


def test_plots(tool, tmp_path):
    pytest.importorskip("matplotlib")
    for key in ("data", "classes"):
        dump(tool, DATA, "--type", "plot", "--dump_prefix", tmp_path / "x.", "--endseq", 1, "--key", key)
        assert (tmp_path / f"x.0.{key}.png").read_bytes().startswith(b"\x89PNG")


def test_statistics(tool, tmp_path):
    out = dump(tool, DATA, "--type", "null", "--dump_stats", tmp_path / "stats")
    assert "seqs=4, frames=261" in out
    assert numpy.loadtxt(tmp_path / "stats.mean.txt").sum() == pytest.approx(1.0)


def test_statistics_of_nothing(tool, tmp_path):
    empty = str({"class": "DummyDataset", "input_dim": 2, "output_dim": 3, "num_seqs": 0})
    assert "data 'data' Stats(no data)\n" in dump(tool, empty, "--type", "null", "--stats")
    prefix = tmp_path / "stats"
    status, _, err = tool("dump-dataset", empty, "--type", "null", "--dump_stats", prefix, "--verbosity", 1)
    assert (status, err) == (
        1, f"error: statistics '{prefix}': there are no frames, and so no mean that could be written.\n",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (
            (DATA, "--type", "print_tags"),
            "option '--type': there is no type 'print_tags'.\n  Did you mean 'print_tag' or 'print_shape'?",
        ),
        ((DATA, "--key", "dat"), "option '--key': there is no data key 'dat'.\n  Did you mean 'data'?"),
        ((DATA, "--min_seq_length", "x"), "sequence length 'x': expected a number, or a dict like {'data': 10}."),
        (("{1:",), "data set '{1:': is no dict of literals: line 1: '{' was never closed."),
        (("/nowhere.config",), "config '/nowhere.config': No such file or directory."),
    ],
)
def test_wrong_options(tool, args, error):
    assert tool("dump-dataset", *args) == (1, "", f"error: {error}\n")


def test_hdf_of_any_data_set_has_the_same_data(tool, tmp_path):
    hdf = tmp_path / "x.hdf"
    assert tool("hdf_dump", DATA, hdf, "--start_seq", 1, "--end_seq", 3)[0] == 0
    with h5py.File(hdf) as file:
        assert [tag.decode() for tag in file["seqTags"]] == ["seq-1", "seq-2"]
    before = dump(tool, DATA, "--startseq", 1, "--endseq", 3, "--key", "classes").split("\n")
    after = dump(tool, hdf, "--key", "classes").split("\n")
    assert [line for line in before if "classes" in line] == [line for line in after if "classes" in line]
    status, _, err = tool("hdf_dump", DATA, hdf)
    assert status == 1
    assert err.startswith(f"error: HDF file {hdf} exists already.")


def test_an_hdf_file_that_is_not_complete_is_not_there(tool, tmp_path):
    status, _, err = tool(
        "hdf_dump", "{'class': 'StaticDataset', 'data': [{'x': [1]}], 'output_dim': {'x': (3, 1)}}", tmp_path / "x.hdf"
    )
    assert status == 1
    assert "has no data key 'data'" in err
    assert list(tmp_path.iterdir()) == []


def test_batches(tool, config_file):
    config = config_file(train=DATA, batch_size=200, max_seqs=3)
    status, out, err = tool("analyze-dataset-batches", config, "--verbosity", 1)
    assert (status, err) == (0, "")
    assert out == (
        "2 batches, 4 sequences, 261 frames of 'data'\n"
        "sequences per batch: 2 to 2, mean 2.0, median 2\n"
        "longest sequence of a batch: 84 to 97, mean 90.5, median 90.5\n"
        "frames per batch: 99 to 162, mean 130.5, median 130.5\n"
        "padding: 27.9% of all frames of 'data'\n"
        "no larger because of: batch_size 100.0% of the batches\n"
    )


@pytest.mark.parametrize(("options", "limit"), [
    ({"max_seqs": 1}, "max_seqs"), ({"batch_size": 100}, "batch_size"), ({"max_pad_size": 1}, "max_pad_size"),
])  # fmt: skip
def test_what_limits_batches_and_how_fast_they_are_loaded(tool, config_file, options, limit):
    config = config_file(train=DATA, **{"batch_size": 100_000, **options})
    status, out, _ = tool("analyze-dataset-batches", config, "--load", "--verbosity", 1)
    assert status == 0
    assert f"no larger because of: {limit} 100.0% of the batches" in out
    assert re.search(
        r"loading: \d+ sequences/s, \d+ frames/s; a batch in [\d.]+ ms, the slowest, number \d+, in [\d.]+ ms", out
    )


def test_texts_and_word_error_rate(tool, tmp_path):
    refs, hyps, rate = tmp_path / "refs.py.gz", tmp_path / "hyps.py", tmp_path / "rate"
    data = "{'class': 'StaticDataset', 'data': [{'raw': 'a b c d'}, {'raw': 'a b'}], 'output_dim': {'raw': (256, 0)}}"
    status, _out, err = tool("dump-dataset-raw-strings", "--dataset", data, "--out", refs, "--verbosity", 1)
    assert (status, err) == (0, "")
    assert unzipped(refs) == "{\n'seq-0': 'a b c d',\n'seq-1': 'a b',\n}\n"
    hyps.write_text("{'seq-0': [(-3.0, 'x'), (-1.0, 'a c x d e')]}")
    options = ["--hyps", hyps, "--verbosity", 1]
    expected = "WER 75.00% (3 errors: 0 substitutions, 1 deletion, 2 insertions; 4 words), 1 of 1 sequence is wrong\n"
    assert tool("calculate-word-error-rate", *options, "--refs", refs, "--out", rate) == (0, expected, "")
    assert float(rate.read_text()) == 75.0
    assert tool("calculate-word-error-rate", *options, "--dataset", data)[1] == expected
    assert tool("calculate-word-error-rate", *options, "--refs", refs, "--expect_full")[2] == (
        "error: there is no hypothesis for 1 of 2 references, as 'seq-1'.\n"
    )
    assert tool("calculate-word-error-rate", *options)[0] == 1
