"""The script `score.py`."""

import wave

import pytest


@pytest.fixture
def files(tmp_path):
    (tmp_path / "hyps.txt").write_text("a b@@ c d\nx\n")
    (tmp_path / "hyps.py").write_text("{\n'one': [\n(-1.0, 'a b@@ c d'),\n(-2.0, 'z')],\n'two': [\n(-1.0, 'x')],\n}\n")
    (tmp_path / "refs.txt").write_text("a bc e\nx\n")
    (tmp_path / "refs.py").write_text("{\n'two': 'x',\n'one': 'a bc e',\n}\n")
    return tmp_path


@pytest.mark.parametrize("hyps", ["hyps.txt", "hyps.py"])
@pytest.mark.parametrize("refs", ["refs.txt", "refs.py"])
def test_files_of_all_kinds(hyps, refs, tool, files):
    if (hyps, refs) == ("hyps.txt", "refs.py"):  # lines belong to the sequences in their order, which is another one
        (files / "refs.py").write_text("{\n'one': 'a bc e',\n'two': 'x',\n}\n")
    status, out, err = tool("score", files / hyps, files / refs, "--metric", "wer", "bleu", "--alignment")
    assert (status, err) == (0, "")
    assert "WER 25.00% (1 error: 1 substitution, 0 deletions, 0 insertions; 4 words), 1 of 2 sequences" in out
    assert "  ref a bc e\n  hyp a bc d\n           S\n" in out
    assert "BLEU" in out


def test_references_of_a_data_set_are_the_texts_that_a_search_writes(tool, files):
    """Characters are put together, the label of the end is left out, and sequences are in the order of the corpus."""
    (files / "chars.txt").write_text("['</s>', '<unk>', ' ', 'a', 'b', 'c']")
    (files / "text.txt").write_text("abc a\nb\nc ab\n")
    vocab = {"class": "CharacterTargets", "vocab_file": str(files / "chars.txt"), "unknown_label": None}
    (files / "my.config").write_text(
        "#!rnn.py\n"
        f"vocab = { ({**vocab, 'seq_postfix': [0]})!r}\n"
        f"dev = {{'class': 'LmDataset', 'corpus_file': {str(files / 'text.txt')!r}, 'orth_vocab': vocab,\n"
        "    'seq_ordering': 'sorted'}\n"
        "extern_data = {'data': {'vocab': vocab}}\n"
    )
    (files / "hyps.txt").write_text("abc a\nb\nc a\n")
    options = ["--config", files / "my.config", "--dataset", "dev", "--key", "data", "--metric", "wer", "cer"]
    status, out, err = tool("score", files / "hyps.txt", *options)
    assert (status, err) == (0, "")
    assert "WER 20.00% (1 error: 1 substitution, 0 deletions, 0 insertions; 5 words), 1 of 3 sequences is wrong" in out
    assert "CER 10.00% (1 error: 0 substitutions, 1 deletion, 0 insertions; 10 characters)" in out


def test_another_number_of_lines(tool, files):
    (files / "refs.txt").write_text("a\n")
    status, _, err = tool("score", files / "hyps.txt", files / "refs.txt")
    assert status == 1
    assert "refs.txt' has 1 line, and a line is a sequence. '" in err
    assert "hyps.txt' has 2 sequences.\n  Are both of the same data?" in err


def test_a_table_of_texts(tool, files):
    (files / "refs.tsv").write_text("file\ttext\n1.wav\ta bc e\n")
    status, _, err = tool("score", files / "hyps.txt", files / "refs.tsv")
    assert (status, "refs.tsv' is a table, but lines of text are required" in err) == (1, True)


def test_references_are_needed(tool, files):
    assert "a file with references is required, or the option '--dataset'" in tool("score", files / "hyps.txt")[2]


@pytest.mark.parametrize("hyps", ["a b\nc\n", "rec1 a b\nrec2 c\n", "rec2 c\nrec1 a b\n"])
def test_lines_with_tags(hyps, tool, tmp_path):
    """As `make-ogg-zip` reads them. Tags are no words, and say which lines belong together."""
    (tmp_path / "hyps.txt").write_text(hyps)
    (tmp_path / "refs.txt").write_text("rec1 a b\nrec2 c\n")
    status, out, err = tool("score", tmp_path / "hyps.txt", tmp_path / "refs.txt", "--tagged")
    assert (status, err) == (0, "")
    assert "WER 0.00% (0 errors: 0 substitutions, 0 deletions, 0 insertions; 3 words)" in out
    _, _, err = tool("score", tmp_path / "hyps.txt", tmp_path / "refs.txt")
    assert "begins with another word, such as 'rec1'" in err
    assert "'--tagged'" in err


def test_data_in_place_of_references(tool, tmp_path):
    (tmp_path / "text.txt").write_text("a b\nc\n")
    (tmp_path / "words.txt").write_text("['a', 'b', 'c']")
    (tmp_path / "hyps.txt").write_text("a b\nd\n")
    (tmp_path / "my.config").write_text(
        "#!rnn.py\n"
        f"vocab = {{'class': 'Vocabulary', 'vocab_file': {str(tmp_path / 'words.txt')!r}, 'unknown_label': None}}\n"
        f"dev = {{'class': 'LmDataset', 'corpus_file': {str(tmp_path / 'text.txt')!r}, 'orth_vocab': vocab}}\n"
    )
    status, out, _ = tool("score", tmp_path / "hyps.txt", tmp_path / "my.config", "--dataset", "dev", "--key", "data")
    assert status == 0
    assert "WER 33.33%" in out
    err = tool("score", tmp_path / "hyps.txt", tmp_path / "my.config")[2]
    assert "is a config. Say with '--dataset' which of its data has the references." in err


@pytest.mark.parametrize("with_config", [False, True])
def test_references_may_be_empty(with_config, tool, tmp_path):
    (tmp_path / "texts.txt").write_text("1 a b\n2\n3 c\n")
    (tmp_path / "audio").mkdir()
    for name in "123":
        with wave.open(str(tmp_path / "audio" / f"{name}.wav"), "wb") as file:
            file.setparams((1, 2, 8000, 0, "NONE", ""))
            file.writeframes(bytes(1600))
    assert tool("make-ogg-zip", tmp_path / "audio", tmp_path / "texts.txt", tmp_path / "test.zip")[0] == 0
    (tmp_path / "hyps.txt").write_text("a b\nd\nc\n")
    vocab = {"class": "Vocabulary", "vocab_file": None, "labels": ["a", "b", "c"], "unknown_label": None}
    dataset = {"class": "OggZipDataset", "path": str(tmp_path / "test.zip"), "audio": None, "targets": vocab}
    (tmp_path / "my.config").write_text(f"#!rnn.py\ndev = {dataset!r}\n")
    with_vocab = ["--config", tmp_path / "my.config", "--dataset", "dev"]
    options = with_vocab if with_config else ["--dataset", tmp_path / "test.zip"]
    status, out, err = tool("score", tmp_path / "hyps.txt", *options)
    assert (status, err) == (0, "")
    assert "WER 33.33% (1 error: 0 substitutions, 0 deletions, 1 insertion; 3 words)" in out


def test_misspelt_option_says_what_may_be_meant(tool, files, capsys):
    for option, said in (("--metrics", "error: unrecognized arguments: --metrics bleu.\n  Did you mean '--metric'? "),
                         ("--q", "error: unrecognized arguments: --q bleu.\n  '")):  # fmt: skip
        with pytest.raises(SystemExit):
            tool("score", files / "hyps.txt", files / "refs.txt", option, "bleu")
        assert capsys.readouterr().err.startswith(said)


def test_tags_of_other_data(tool, files):
    (files / "refs.py").write_text("{\n'dev-1': 'x',\n'dev-2': 'y',\n}\n")
    err = tool("score", files / "hyps.py", files / "refs.py")[2]
    assert (
        "there is no reference for 'one'; there are 2 references, such as for 'dev-1'. Are both of the same data?"
        in err
    )


@pytest.mark.parametrize("order", ["same", "other"])
def test_hypotheses_that_fit_to_no_reference(order, tool, tmp_path):
    lines = [f"word{i} and word{i * 7} of {i}\n" for i in range(20)]
    (tmp_path / "refs.txt").write_text("".join(lines))
    (tmp_path / "hyps.txt").write_text(
        "".join(lines if order == "same" else lines[10:] + lines[:10]).replace("and", "")
    )
    err = tool("score", tmp_path / "hyps.txt", tmp_path / "refs.txt")[2]
    assert ("fit to their references no better than to those of the next sequences" in err) == (order == "other")


def test_a_config_in_place_of_hypotheses(tool, files):
    (files / "my.config").write_text("#!rnn.py\n")
    assert (
        "my.config' is a config, but hypotheses are required"
        in tool("score", files / "my.config", files / "refs.txt")[2]
    )


@pytest.mark.parametrize("text", ['{"one": "a bc d", "two": "x"}', "{'one': 'a bc d', 'two': 'x'}"])
def test_a_dict_of_texts_in_one_line(text, tool, files):
    (files / "own.json").write_text(text)
    status, out, _ = tool("score", files / "own.json", files / "refs.py")
    assert status == 0
    assert "WER 25.00%" in out
