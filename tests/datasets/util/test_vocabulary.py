from __future__ import annotations

import collections
import gzip
import io
import json
import pickle
import unicodedata

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from returnn.datasets.util.vocabulary import (
    BytePairEncoding,
    CharacterTargets,
    HuggingFaceTokenizer,
    SamplingBytePairEncoding,
    SentencePieces,
    Utf8ByteTargets,
    Vocabulary,
)
from returnn.util.errors import ConfigError, UserError

WORDS = ["a", "house", "is", "UNK", "the", "</s>"]
label_lists = st.lists(st.text(alphabet="abcdä{[<>", min_size=1, max_size=4), min_size=1, max_size=8, unique=True)


def write(path, content):
    path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)
    return str(path)


FORMATS = {
    "words.txt": "\n".join,
    "words.txt.gz": lambda labels: gzip.compress("\n".join(labels).encode("utf-8")),
    "crlf.txt": lambda labels: "".join(label + "\r\n" for label in labels),
    "python": lambda labels: repr({label: i for i, label in enumerate(labels)}),
    "list.py": repr,
    "json": lambda labels: json.dumps({label: i for i, label in enumerate(labels)}),
    "dict.pkl": lambda labels: pickle.dumps({label: i for i, label in enumerate(labels)}),
    "list.pickle.gz": lambda labels: gzip.compress(pickle.dumps(labels)),
}


@pytest.mark.parametrize("filename", FORMATS)
@given(labels=label_lists.filter(lambda labels: not labels[0].startswith("{")))
def test_all_formats_have_the_same_labels(tmp_path_factory, filename, labels):
    path = write(tmp_path_factory.mktemp("vocab") / filename, FORMATS[filename](labels))
    assert Vocabulary(path).labels == labels


@given(labels=label_lists, data=st.data())
def test_get_seq_labels_is_the_reverse_of_get_seq(labels, data):
    vocab = Vocabulary(None, labels=labels)
    words = data.draw(st.lists(st.sampled_from(labels)))
    seq = vocab.get_seq("  ".join(words))
    assert seq == [labels.index(word) for word in words]
    assert vocab.get_seq_labels(seq).split() == words
    assert vocab.serialize_labels(numpy.array(seq, dtype="int32")).split() == words


@given(text=st.text(alphabet="abc d"))
def test_characters_there_and_back(text):
    vocab = CharacterTargets(None, labels=list("abcd @"))
    assert vocab.get_seq_labels(vocab.get_seq(text)) == text


@given(text=st.text())
def test_bytes_there_and_back(text):
    vocab = Utf8ByteTargets(seq_postfix=[255])
    seq = vocab.get_seq(text)
    assert seq[-1] == 255
    assert vocab.get_seq_labels(seq[:-1]) == text


def test_label_and_index_are_checked():
    vocab = Vocabulary(None, labels=WORDS)
    assert vocab.to_id("the") == vocab.to_id(4) == vocab.label_to_id("the") == 4
    assert vocab.id_to_label(4) == "the"
    assert vocab.to_id(None, allow_none=True) is None
    assert vocab.to_id("x", default=None) is None
    assert vocab.id_to_label(6, default="?") == "?"
    assert [vocab.is_id_valid(i) for i in (-1, 0, 5, 6)] == [False, True, True, False]
    for call in (lambda: vocab.to_id("x"), lambda: vocab.to_id(6), lambda: vocab.id_to_label(-1)):
        with pytest.raises(KeyError):
            call()


def test_special_symbols_by_label_index_and_file(tmp_path):
    special = write(tmp_path / "special", "{'eos_label': '</s>', 'unknown_label': 'the', 'control_symbols': {'x': 1}}")
    vocab = Vocabulary(
        None,
        labels=WORDS,
        unknown_label="UNK",
        bos_label=5,
        special_symbols_via_file=special,
        user_defined_symbols={"article": "a"},
    )
    assert (vocab.unknown_label, vocab.unknown_label_id) == ("UNK", 3)
    assert (vocab.bos_label_id, vocab.eos_label_id, vocab.pad_label_id) == (5, 5, None)
    assert vocab.control_symbol_ids == {"x": 1}
    assert vocab.user_defined_symbol_ids == {"article": 0}


def test_label_that_pads(tmp_path):
    for label in ("</s>", 5):
        vocab = Vocabulary.create_vocab(labels=WORDS, pad_label=label)
        assert vocab.pad_label_id == WORDS.index("</s>")
    special = write(tmp_path / "special", "{'pad_label': 'a'}")
    assert Vocabulary(None, labels=WORDS, special_symbols_via_file=special).pad_label_id == WORDS.index("a")
    for label, message in [("<pad>", "there is no label '<pad>'"), (77, "77 is no index")]:
        with pytest.raises(ConfigError, match=f"option 'pad_label': {message}"):
            Vocabulary(None, labels=WORDS, pad_label=label)


def test_unknown_label_is_unk_by_default_if_there_is_one():
    assert Vocabulary(None, labels=WORDS).get_seq("the garden") == [4, 3]
    assert Vocabulary(None, labels=["a"]).unknown_label is None


def test_postfix_and_single_spaces():
    vocab = Vocabulary(None, labels=["", "a", "b"], seq_postfix=[2], single_whitespace_split=True)
    assert vocab.get_seq("a  b") == [1, 0, 2, 2]
    assert vocab.get_seq("") == [2]


def test_labels_can_share_an_index(tmp_path):
    vocab = Vocabulary(write(tmp_path / "vocab", "{'</s>': 0, '<s>': 0, 'a': 1}"))
    assert vocab.num_labels == 2
    assert vocab.labels == ["<s>", "a"]
    assert vocab.get_seq("<s> a </s>") == [0, 1, 0]


def test_create_vocab_finds_the_class(tmp_path):
    codes = write(tmp_path / "codes", "#version: 0.2\nl o\nlo w</w>\n")
    labels = write(tmp_path / "vocab", "{'low': 0, 'lo@@': 1, 'w@@': 2, 'er': 3, '<unk>': 4, 'e@@': 5, 'r': 6}")
    opts = {"vocab_file": labels, "unknown_label": "<unk>"}
    assert isinstance(Vocabulary.create_vocab(**{"class": "Utf8ByteTargets"}), Utf8ByteTargets)
    bpe = Vocabulary.create_vocab(**opts, bpe_file=codes)
    assert isinstance(bpe, BytePairEncoding)
    assert bpe.get_seq("low lower x") == [0, 1, 2, 5, 6, 4]
    sampling = Vocabulary.create_vocab(**opts, **{"class": "SamplingBytePairEncoder", "breadth_prob": 0.0})
    assert isinstance(sampling, SamplingBytePairEncoding)
    assert sampling.get_seq("lower low x") == [1, 2, 3, 0, 4]
    assert isinstance(Vocabulary.create_vocab_from_labels(["a", "b"]), CharacterTargets)
    assert not isinstance(Vocabulary.create_vocab_from_labels(["a", "bc"]), CharacterTargets)


def test_sampling_is_repeated_by_its_seed(tmp_path):
    labels = write(tmp_path / "vocab", "\n".join(["a", "b", "a@@", "b@@", "ab", "ab@@", "ba@@"]))
    vocab = SamplingBytePairEncoding(labels, breadth_prob=0.5)

    def draw(seed):
        vocab.set_random_seed(seed)
        return [vocab.get_seq("abab baba") for _ in range(20)]

    assert draw(1) == draw(1) != draw(2)
    assert all(vocab.get_seq_labels(seq).replace("@@ ", "") == "abab baba" for seq in draw(3))


@pytest.mark.parametrize(("labels", "options", "splits"), [
    ("a b ab a@@", {}, {"ab b": {"ab b", "a@@ b b"}}),
    ("a b ab a+", {"label_postfix_merge_symbol": "+"}, {"ab b": {"ab b", "a+ b b"}}),
    ("_a b _ab _b", {"word_prefix_symbol": "_"}, {"ab b": {"_ab _b", "_a b _b"}}),
    ("_a b _ab _b", {"word_prefix_symbol": "_", "label_postfix_merge_symbol": None}, {"ab b": {"_ab _b", "_a b _b"}}),
])  # fmt: skip
def test_borders_of_words_when_sampling(labels, options, splits, tmp_path):
    path = write(tmp_path / "vocab", "\n".join(labels.split()))
    vocab = Vocabulary.create_vocab(
        **{"class": "SamplingBytePairEncoding", "vocab_file": path, "breadth_prob": 0.5, **options}
    )
    for text, possible in splits.items():
        assert {vocab.get_seq_labels(vocab.get_seq(text)) for _ in range(50)} == possible


@pytest.mark.parametrize("options", [
    {"label_postfix_merge_symbol": None},
    {"label_postfix_merge_symbol": "@@", "word_prefix_symbol": "_"},
])  # fmt: skip
def test_words_without_borders_or_with_two_kinds_are_an_error(options, tmp_path):
    path = write(tmp_path / "vocab", "a\nb\n")
    with pytest.raises(UserError, match="give one of 'label_postfix_merge_symbol'"):
        SamplingBytePairEncoding(path, breadth_prob=0.5, **options)


def test_sampling_never_draws_a_special_label(tmp_path):
    labels = write(tmp_path / "vocab", "\n".join(["u", "u@@", "n@@", "k", "un@@"]))
    vocab = SamplingBytePairEncoding(labels, breadth_prob=0.0, pad_label="un@@")
    assert vocab.get_seq_labels(vocab.get_seq("unk")) == "u@@ n@@ k"


@pytest.fixture(scope="module")
def sentence_piece_model(tmp_path_factory):
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the house is low", "a low house", "the lower house"] * 5),
        model_writer=model,
        vocab_size=30,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    path = tmp_path_factory.mktemp("spm") / "model"
    path.write_bytes(model.getvalue())
    return str(path)


def test_sentence_pieces(sentence_piece_model):
    vocab = Vocabulary.create_vocab(
        **{
            "class": "SentencePieces",
            "model_file": sentence_piece_model,
            "add_eos": True,
            "control_symbols": {"e": "</s>"},
        }
    )
    assert isinstance(vocab, SentencePieces)
    seq = vocab.get_seq("the house")
    assert seq[-1] == vocab.eos_label_id == vocab.control_symbol_ids["e"]
    assert vocab.get_seq_labels(seq[:-1]).replace(" ", "").replace("▁", " ").strip() == "the house"
    assert [vocab.label_to_id(label) for label in vocab.labels] == list(range(vocab.num_labels))
    assert vocab.label_to_id("xyz", None) is None
    assert vocab.unknown_label_id in vocab.get_seq("Q")


def test_sentence_pieces_sampling_is_repeated_by_its_seed(sentence_piece_model):
    vocab = SentencePieces(model_file=sentence_piece_model, enable_sampling=True, nbest_size=-1, alpha=0.1)

    def draw(seed):
        vocab.set_random_seed(seed)
        return [vocab.get_seq("the lower house") for _ in range(10)]

    assert draw(1) == draw(1) != draw(2)


class FakeTokenizer:
    """As much of the interface of `transformers.PreTrainedTokenizer` as is used."""

    tokens = ("<s>", "</s>", "<unk>", "a", "b")
    unk_token, unk_token_id, eos_token_id, bos_token_id, pad_token_id = "<unk>", 2, 1, 0, None

    def __len__(self):
        return len(self.tokens)

    def get_vocab(self):
        return {token: i for i, token in enumerate(self.tokens)}

    def convert_ids_to_tokens(self, ids):
        return self.tokens[ids] if isinstance(ids, int) else [self.tokens[i] for i in ids]

    def convert_tokens_to_ids(self, tokens):
        return [self.get_vocab().get(token, self.unk_token_id) for token in tokens]

    def encode(self, text, *, add_special_tokens):
        assert not add_special_tokens
        return self.convert_tokens_to_ids(text.split())

    def decode(self, ids):
        return " ".join(self.convert_ids_to_tokens(ids))


def test_huggingface_tokenizer():
    vocab = HuggingFaceTokenizer(tokenizer=FakeTokenizer(), map_bos_to_eos=True, text_preprocessing=str.lower)
    assert vocab.get_seq("A b c") == [3, 4, 2]
    assert vocab.get_seq_labels(numpy.array([3, 4])) == "a b"
    assert (vocab.bos_label_id, vocab.eos_label_id, vocab.pad_label_id) == (1, 1, None)
    assert vocab.labels == list(FakeTokenizer.tokens)
    assert vocab.to_id("b") == 4
    with pytest.raises(ConfigError, match="option 'bpe_dropout': this tokenizer has no merges"):
        HuggingFaceTokenizer(tokenizer=FakeTokenizer(), bpe_dropout=0.1)


def test_huggingface_tokenizer_of_a_folder(tmp_path):
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.WordLevel({"<unk>": 0, "</s>": 1, "a": 2, "b": 3}, "<unk>"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=model, unk_token="<unk>", eos_token="</s>")
    tokenizer.save_pretrained(tmp_path / "repo")
    vocab = Vocabulary.create_vocab(**{"class": "HuggingFaceTokenizer", "huggingface_repo_dir": str(tmp_path / "repo")})
    assert vocab.labels == ["<unk>", "</s>", "a", "b"]
    assert vocab.get_seq("b a c") == [3, 2, 0]
    assert (vocab.unknown_label_id, vocab.eos_label_id, vocab.bos_label_id, vocab.pad_label_id) == (0, 1, None, None)
    (tmp_path / "empty").mkdir()
    for folder in ("empty", "missing"):
        with pytest.raises(UserError, match=f"'{tmp_path}/{folder}': cannot load the tokenizer"):
            HuggingFaceTokenizer(huggingface_repo_dir=str(tmp_path / folder))
    with pytest.raises(ConfigError, match="give one of the options 'huggingface_repo_dir' and 'tokenizer'"):
        HuggingFaceTokenizer()


def test_pickle_may_have_numpy_numbers(tmp_path):
    content = collections.OrderedDict((label, numpy.int64(i)) for i, label in enumerate(WORDS))
    for protocol in (0, 2, 4):
        vocab = Vocabulary(write(tmp_path / "vocab.pkl", pickle.dumps(content, protocol=protocol)))
        assert vocab.labels == WORDS
        assert all(type(index) is int for index in vocab.get_seq("a the"))


class Runs:
    def __reduce__(self):
        return print, ("a pickle runs code",)


@pytest.mark.parametrize(
    ("filename", "content", "message"),
    [
        ("vocab", b"", "it is empty"),
        ("vocab", b"a\n\xff\n", r"vocab', line 2: not UTF-8, byte 0xff in b'a\\n\\xff\\n'"),
        ("vocab", b"a\n\nb\n", "line 2 is empty, expected one label per line"),
        ("vocab", b"a\nb\na\n", "label 'a' occurs twice, as index 0 and 2"),
        ("vocab", b"{'a': 0, 'b': 2}", "no label has the index 1, but the largest index is 2"),
        ("vocab", b"{'a': -1}", "label 'a' has the negative index -1"),
        ("vocab", b"{'a': 'b'}", "label 'a' has the index 'b', which is no integer"),
        ("vocab", b"['a', 'b',\n'c", "it begins as a list of labels, but is none. Was it written to its end"),
        ("vocab", b'[\n "a",\n "b', "it begins as a list of labels, but is none"),
        ("vocab", b"{0: 'a'}", "label 0 is of type int, expected str"),
        ("vocab", b"{'a': 0,\n'b'", "line 1: it is no Python or JSON literal"),
        ("vocab.pkl", b"xyz", "it is no pickle of plain data"),
        ("vocab.pkl", pickle.dumps({"a": Runs()}), "it contains an object of builtins.print"),
        ("vocab.gz", b"xyz", "broken or not complete"),
        ("vocab.gz", gzip.compress(b"a\nb", mtime=0)[:-9], "broken or not complete"),
    ],
)
def test_wrong_file_is_named(tmp_path, filename, content, message, capsys):
    path = write(tmp_path / filename, content)
    with pytest.raises(UserError, match=message) as error:
        Vocabulary(path)
    assert path in str(error.value)
    assert len(str(error.value).splitlines()) <= 5
    assert "runs code" not in capsys.readouterr().out


def test_missing_file_is_named(tmp_path):
    with pytest.raises(UserError, match=r"Cannot open the file '.*vocab': No such file or directory"):
        Vocabulary(str(tmp_path / "vocab"))


@pytest.mark.parametrize(
    ("opts", "message"),
    [
        ({"class": "Vocabular"}, "there is no class 'Vocabular'.\n  Did you mean 'Vocabulary'?"),
        (
            {"unknown_lable": "UNK"},
            r"\(class 'Vocabulary'\): there is no option 'unknown_lable'.\n  Did you mean 'unknown",
        ),
        ({"eos_label": "</S>"}, "option 'eos_label': there is no label '</S>'.\n  Did you mean '</s>'?"),
        ({"bos_label": 7}, "option 'bos_label': 7 is no index below 6"),
        ({"control_symbols": {"x": "y"}}, r"option \"control_symbols\['x'\]\": there is no label 'y'"),
        ({"seq_postfix": [6]}, "option 'seq_postfix': 6 is no index below 6"),
        ({"num_labels": 7}, "option 'num_labels' is 7, but there are 6"),
        ({"vocab_file": "x"}, "give one of the options 'vocab_file' and 'labels'"),
        ({"class": "SentencePieces"}, "there is no option 'vocab_file'"),
        ({"class": "BytePairEncoding"}, r"option 'bpe_file' is missing. Given: vocab_file, labels"),
    ],
)
def test_wrong_option_is_named(opts, message):
    with pytest.raises(ConfigError, match=message) as error:
        Vocabulary.create_vocab(**{"vocab_file": None, "labels": WORDS, **opts})
    assert len(str(error.value).splitlines()) <= 5


def test_words_with_a_vocabulary_of_characters_say_which_class_cuts_them(tmp_path):
    vocab = Vocabulary(write(tmp_path / "vocab", "\n".join(["</s>", "<unk>", *"abcdef"])), unknown_label=None)
    with pytest.raises(UserError, match="there is no label 'fade'") as error:
        vocab.get_seq("fade")
    assert str(error.value).endswith('single characters: "class": "CharacterTargets" cuts texts into these.')


def test_unknown_label_without_unknown_label_is_named(tmp_path):
    vocab = Vocabulary(write(tmp_path / "vocab", "\n".join(WORDS)), unknown_label=None)
    with pytest.raises(UserError, match="vocab': there is no label 'hause', and no 'unknown_label' is set") as error:
        vocab.get_seq("a hause")
    assert str(error.value).endswith("Did you mean 'house'?")


def test_texts_that_do_not_fit_to_the_vocabulary_are_a_warning(tmp_path, capsys):
    file = write(tmp_path / "vocab", "\n".join(["<unk>", "yes", "no"]))
    vocab = Vocabulary(file, unknown_label="<unk>")
    for _ in range(200):
        vocab.get_seq("YES NO yes")
    shown = capsys.readouterr()
    text = shown.out + shown.err
    assert f"vocabulary {file!r} has not 68 of the first 102 labels of the texts (66.7%): 'YES', 'NO'." in text
    assert text.count("has not") == 1
    fits = Vocabulary(file, unknown_label="<unk>")
    for _ in range(200):
        fits.get_seq("YES yes no")
    assert "has not" not in "".join(capsys.readouterr())


@pytest.mark.parametrize(("known", "form"), [("caf\u00e9", "NFC"), ("cafe\u0301", "NFD")])
def test_labels_in_another_unicode_form_are_said(known, form, tmp_path, capsys):
    other = unicodedata.normalize("NFD" if form == "NFC" else "NFC", known)
    file = write(tmp_path / "vocab", f"<unk>\na\n{known}")
    hint = f"It has it in another Unicode form, {form}: unicodedata.normalize({form!r}, text) makes that."
    vocab = Vocabulary(file, unknown_label="<unk>")
    text = warning_of(vocab, capsys, f"a a a {known} {other}")
    assert text.count(f"vocabulary {file!r}: {other!r} of the texts becomes '<unk>'. {hint}") == 1
    with pytest.raises(UserError) as error:
        Vocabulary(file, unknown_label=None).get_seq(other)
    assert str(error.value).endswith(f"\n  {hint}")


def test_end_that_is_the_unknown_label_is_a_warning(tmp_path, capsys):
    file = write(tmp_path / "vocab", "<unk>\na\nb\n</s>")
    Vocabulary(file, unknown_label="<unk>", eos_label=0)
    assert "option 'eos_label': 0 is '<unk>', the same label as 'unknown_label'" in capsys.readouterr().out
    Vocabulary(file, unknown_label="<unk>", eos_label=3)
    assert "WARNING" not in capsys.readouterr().out


def warning_of(vocab, capsys, *sentences, num=200):
    """:return: what is said of texts with these sentences"""
    capsys.readouterr()
    for i in range(num):
        vocab.get_seq(sentences[i % len(sentences)])
    return "".join(capsys.readouterr())


def test_texts_that_parts_of_words_do_not_make_are_a_warning(tmp_path, capsys):
    labels = write(tmp_path / "vocab", "\n".join(["<unk>", *"abcdef", *(f"{char}@@" for char in "abcdef")]))
    codes = write(tmp_path / "codes", "#version: 0.2\na b\n")
    kinds = (
        {"class": "BytePairEncoding", "bpe_file": codes, "vocab_file": labels},
        {"class": "CharacterTargets", "vocab_file": None, "labels": ["<unk>", *"abcdef "]},
    )
    for opts in kinds:
        few = ["abc def fed cab bed", "abc def fed cab bed ö"]  # 3 % unknown
        for sentences, part in ((few, "%)"), (["böd"], "(33.3%)"), (["abc", "def fed cab"], None)):
            text = warning_of(Vocabulary.create_vocab(**opts, unknown_label="<unk>"), capsys, *sentences)
            assert text.count("has not") == (part is not None)
            assert (part or "") in text
    words = Vocabulary(labels, unknown_label="<unk>")
    assert "has not" not in warning_of(words, capsys, "a b unknown")


def test_texts_that_sentence_pieces_do_not_make_are_a_warning(tmp_path, capsys):
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    texts = ["the cat sat on the mat"] * 50
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts), model_writer=model, vocab_size=25, hard_vocab_limit=False, minloglevel=2
    )
    for options in ({}, {"enable_sampling": True, "add_eos": True}):
        opts = {"class": "SentencePieces", "model_proto": model.getvalue(), **options}
        assert "has not" not in warning_of(Vocabulary.create_vocab(**opts), capsys, texts[0])
        text = warning_of(Vocabulary.create_vocab(**opts), capsys, "the кот sat")
        assert text.count("has not") == 1
        assert "'кот'" in text


def test_sentence_pieces_of_texts_with_unknown_words():
    sentencepiece = pytest.importorskip("sentencepiece")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["the cat sat on the mat unk"] * 50),
        model_writer=model,
        vocab_size=25,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    for options in ({}, {"add_bos": True, "add_eos": True, "reverse": True}):
        vocab = Vocabulary.create_vocab(**{"class": "SentencePieces", "model_proto": model.getvalue(), **options})
        for text in ("the {} sat", "{}", "{} {} the cat {}"):
            labels = vocab.get_seq(text.replace("{}", "<unk>"))
            assert labels == vocab.get_seq(text.replace("{}", "ю"))  # a character that it has not
            assert labels.count(vocab.unknown_label_id) == text.count("{}")


def test_merges_of_other_texts_are_a_warning(tmp_path, capsys):
    labels = ["<unk>", *"abcd", *(f"{char}@@" for char in "abcd"), "ab@@", "abc", "cd"]
    merges = {"own": ["a b", "ab c</w>", "c d</w>"], "other": ["b a", "ba d</w>", "d d</w>"]}
    for name, lines in merges.items():
        codes = write(tmp_path / name, "\n".join(["#version: 0.2", *lines]))
        vocab_file = write(tmp_path / f"{name}.vocab", "\n".join(labels))
        Vocabulary.create_vocab(vocab_file=vocab_file, bpe_file=codes, unknown_label="<unk>")
        text = "".join(capsys.readouterr())
        assert ("Do the two files belong together?" in text) == (name == "other")
        assert ("has 0 of the 3 labels" in text) == (name == "other")


def test_warning_of_words_that_are_characters_in_the_vocabulary(capsys):
    for labels, hint in ((list("abcdef "), '"class": "CharacterTargets" cuts texts'), (["be", "fed"], "these texts?")):
        vocab = Vocabulary(None, labels=["</s>", "<unk>", *labels], unknown_label="<unk>")
        assert vocab.get_seq("fade " * 200)[0] == 1
        assert hint in capsys.readouterr().out
