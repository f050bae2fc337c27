from __future__ import annotations

import gzip
import pickle

import numpy
import pytest

from returnn.datasets.lm import ConfusionNetworkDataset, TranslationDataset, TranslationFactorsDataset
from returnn.util.errors import ConfigError, UserError
from tests.datasets.corpus_checks import assert_equal_seqs, check_corpus_dataset, seqs_of_epoch

SOURCE = "das haus\nein haus und das\nund\ndas und ein\n"
TARGET = "the house\na house and the\nand\nthe and a\n"


def write(path, content):
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)


def write_vocab(path, text):
    words = dict.fromkeys(("</s>", "<unk>", *text.split()))
    write(path, pickle.dumps({word: i for i, word in enumerate(words)}))


@pytest.fixture
def folder(tmp_path):
    write(tmp_path / "source.train", SOURCE)
    write(tmp_path / "target.train.gz", gzip.compress(TARGET.encode()))
    write_vocab(tmp_path / "source.vocab.pkl", SOURCE)
    write_vocab(tmp_path / "target.vocab.pkl", TARGET)
    return tmp_path


def make(folder, cls=TranslationDataset, **opts):
    return cls(**{"path": str(folder), "file_postfix": "train", **opts})


def texts(dataset, key):
    dataset.init_seq_order(epoch=1)
    return [dataset.serialize_data(key, data[key]) for _, data in seqs_of_epoch(dataset)]


def test_properties(folder):
    check_corpus_dataset(lambda **opts: make(folder, target_postfix=" </s>", **opts))


def test_lines(folder):
    dataset = make(folder, target_postfix=" </s>")
    assert texts(dataset, "data") == SOURCE.splitlines()
    assert texts(dataset, "classes") == [line + " </s>" for line in TARGET.splitlines()]
    assert dataset.get_all_tags() == ["line-0", "line-1", "line-2", "line-3"]
    assert dataset.num_outputs == {"data": (6, 1), "classes": (6, 1)}


def test_ends_of_source_lines(folder):
    plain = texts(make(folder), "data")
    dataset = make(folder, source_postfix=" </s>")
    assert texts(dataset, "data") == [f"{line} </s>" for line in plain]
    assert texts(dataset, "classes") == texts(make(folder), "classes")
    with pytest.raises(UserError, match="data key 'data': the word '<s>' is not in the vocabulary"):
        texts(make(folder, source_postfix=" <s>"), "data")


def test_source_only(folder):
    dataset = make(folder, source_only=True)
    assert dataset.get_data_keys() == ["data"]
    assert texts(dataset, "data") == SOURCE.splitlines()


def test_search_without_reference(folder):
    (folder / "target.train.gz").unlink()
    dataset = make(folder, search_without_reference=True)
    assert texts(dataset, "data") == SOURCE.splitlines()
    assert texts(dataset, "classes") == [""] * 4


def test_texts_and_ends_that_do_not_fit_to_the_vocabulary_are_warnings(folder, capsys):
    write(folder / "target.train", "XYZ\n" * 200)
    write(folder / "source.train", "das\n" * 200)
    dataset = make(folder, unknown_label="<unk>", target_postfix=" <end>")
    texts(dataset, "data")
    out = "".join(capsys.readouterr())
    assert "option 'target_postfix': there is no label '<end>' in the vocabulary of 'classes', so it becomes" in out
    assert (
        "the vocabulary of 'classes' has not 100 of the first 100 labels of the texts (100.0%): 'XYZ', '<end>'." in out
    )
    assert "the vocabulary of 'data'" not in out


def test_unknown_label_for_each_key(folder):
    write(folder / "source.train", SOURCE.replace("haus", "xyz"))
    assert texts(make(folder, unknown_label={"data": "<unk>"}), "data")[0] == "das <unk>"
    assert texts(make(folder, unknown_label="<unk>"), "data")[0] == "das <unk>"


def test_seq_list_file_can_repeat_lines(folder):
    write(folder / "list", "2\n0\n2\n")
    dataset = make(folder, seq_list_file=str(folder / "list"))
    assert texts(dataset, "data") == ["und", "das haus", "und"]
    assert dataset.get_all_tags() == ["line-2", "line-0", "line-2"]
    write(folder / "list", "2\n4\n")
    with pytest.raises(UserError, match="line 2: '4' is no line number below 4"):
        make(folder, seq_list_file=str(folder / "list"))


@pytest.fixture
def factors_folder(folder):
    write(folder / "source.train", "das|D haus|N\nein|D haus|N\nund|K\n")
    write(folder / "target.train.gz", gzip.compress(b"the|x\na|y\nand|x\n"))
    write_vocab(folder / "source.pos.vocab.pkl", "D N K")
    write_vocab(folder / "case.vocab.pkl", "x y")
    return folder


def test_factors(factors_folder):
    def make_factors(**opts):
        return make(factors_folder, TranslationFactorsDataset, source_factors=["pos"], target_factors=["case"], **opts)

    check_corpus_dataset(make_factors)
    dataset = make_factors()
    assert texts(dataset, "data") == ["das haus", "ein haus", "und"]
    assert texts(dataset, "pos") == ["D N", "D N", "K"]
    assert texts(dataset, "case") == ["x", "y", "x"]
    assert dataset.get_target_list() == ["classes", "case"]


@pytest.mark.parametrize("separator", ["&", "_|_", "."])
def test_separator_of_factors(factors_folder, separator):
    factors = {"source_factors": ["pos"], "target_factors": ["case"]}
    plain = make(factors_folder, TranslationFactorsDataset, **factors)
    plain.init_seq_order(epoch=1)
    expected = seqs_of_epoch(plain)
    for name in ("source.train", "target.train.gz"):
        path = factors_folder / name
        content = gzip.decompress(path.read_bytes()) if name.endswith("gz") else path.read_bytes()
        path.unlink()
        write(factors_folder / name.removesuffix(".gz"), content.replace(b"|", separator.encode()))
    dataset = make(factors_folder, TranslationFactorsDataset, factor_separator=separator, **factors)
    dataset.init_seq_order(epoch=1)
    assert_equal_seqs(seqs_of_epoch(dataset), expected)
    with pytest.raises(ConfigError, match="option 'factor_separator' is empty"):
        make(factors_folder, TranslationFactorsDataset, factor_separator="")


def test_end_of_lines_with_factors_is_the_end_in_each_factor(factors_folder):
    options = {"source_factors": ["pos"], "target_factors": ["case"], "target_postfix": " </s>"}
    dataset = make(factors_folder, TranslationFactorsDataset, source_postfix=" </s>|D", **options)
    assert texts(dataset, "classes") == ["the </s>", "a </s>", "and </s>"]
    assert texts(dataset, "case") == ["x </s>", "y </s>", "x </s>"]
    assert texts(dataset, "pos") == ["D N D", "D N D", "K D"]


def test_separator_is_a_part_of_words_that_have_no_factors(factors_folder):
    write(factors_folder / "source.train", "a|b c\na\n|\n")
    write_vocab(factors_folder / "source.vocab.pkl", "a|b c a |")
    dataset = make(factors_folder, TranslationFactorsDataset, target_factors=["case"])
    assert texts(dataset, "data") == ["a|b c", "a", "|"]
    assert texts(dataset, "case") == ["x", "y", "x"]


def test_wrong_number_of_factors_is_named(factors_folder):
    dataset = make(factors_folder, TranslationFactorsDataset, source_factors=["pos", "case"])
    dataset.init_seq_order()
    with pytest.raises(UserError, match=r"'line-0': the word 'das\|D' has 2 factors, expected 3: data, pos, case"):
        dataset.load_seqs(0, 1)


def test_confusion_networks(folder):
    write(folder / "source.train", "__ALT__ das|0.75__ein|0.25 haus|1\nein haus\nund\n__ALT__ und__das__ein\n")
    check_corpus_dataset(lambda **opts: make(folder, ConfusionNetworkDataset, max_density=2, **opts))
    dataset = make(folder, ConfusionNetworkDataset, max_density=2)
    dataset.init_seq_order()
    seqs = [data for _, data in seqs_of_epoch(dataset)]
    das, haus, ein, und = (dataset.labels["sparse_inputs"].index(word) for word in ("das", "haus", "ein", "und"))
    assert seqs[0]["sparse_inputs"].tolist() == [[das, ein], [haus, 0]]
    assert seqs[0]["sparse_weights"].tolist() == [[0.75, 0.25], [1, 0]]
    assert seqs[1]["sparse_inputs"].tolist() == [[ein, 0], [haus, 0]]
    assert seqs[3]["sparse_inputs"].tolist() == [[und, das]]
    assert seqs[0]["classes"].ndim == 1
    assert dataset.get_data_shape("sparse_weights") == [2]
    assert numpy.isfinite(seqs[3]["sparse_weights"]).all()
    write(folder / "source.train", "__ALT__ das|x\na\nb\nc\n")
    dataset = make(folder, ConfusionNetworkDataset)
    dataset.init_seq_order()
    with pytest.raises(UserError, match=r"'das\|x' is no word with its weight"):
        dataset.load_seqs(0, 1)


def test_wrong_data_is_named(folder):
    write(folder / "source.train", SOURCE.replace("ein haus", "ein hut"))
    dataset = make(folder)
    dataset.init_seq_order()
    with pytest.raises(UserError) as error:
        dataset.load_seqs(1, 2)
    assert str(error.value).splitlines() == [
        "TranslationDataset: sequence 'line-1': data key 'data': the word 'hut' is not in the vocabulary, "
        "and no 'unknown_label' is set.",
        f"  File: {folder / 'source.train'}, line 2",
    ]
    write(folder / "source.train", SOURCE + "und\n")
    with pytest.raises(UserError, match=r"source.train has 5 lines and target.train has 4 lines, expected the same"):
        make(folder)
    write(folder / "source.train", SOURCE.replace("und\n", "\n", 1))
    dataset = make(folder)
    dataset.init_seq_order()
    with pytest.raises(UserError, match="data key 'data' of sequence 'line-2': has no frames"):
        dataset.load_seqs(2, 3)


@pytest.mark.parametrize(
    ("opts", "message"),
    [
        ({"path": "nowhere"}, "option 'path': there is no folder 'nowhere'"),
        (
            {"file_postfix": "dev"},
            r"there is no file 'source.dev' in .*\n  Possible: source.dev, source.dev.gz. There is: ",
        ),
        ({"unknown_label": "UNK"}, "option 'unknown_label': there is no 'UNK' in the vocabulary of 'data'"),
        ({"unknown_label": {"source": "x"}}, "option 'unknown_label': there is no data key 'source'"),
    ],
)
def test_wrong_options_are_named(folder, opts, message):
    with pytest.raises(ConfigError, match=message):
        make(folder, **opts)


def test_unknown_tag_is_named(folder):
    with pytest.raises(ConfigError, match=r"there is no sequence 'line-9'\. The tags are 'line-0' to 'line-3'"):
        make(folder).init_seq_order(seq_list=["line-9"])
