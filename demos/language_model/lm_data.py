"""
The text: subwords as one long stream, which is cut into parallel ones, so that a batch goes on where the last one
ended.

With the environment variable `LM_DATA`, it is that of a folder with `train.txt`, `valid.txt` and `test.txt`, or the
same with `.gz`, words with spaces between them, such as WikiText-2. Otherwise, it is the documentation of the toolkit.

Perplexities are those of words, with the end of each line as one of them, as published ones are: the loss of all
subwords of a text, divided by the number of its words. So they do not depend on how words are divided.
"""

from __future__ import annotations

import collections
import functools
import glob
import gzip
import io
import os
import re

import numpy
import sentencepiece

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.realpath(__file__))))
END_OF_LINE = "<end>"
UNKNOWN = "<unk>"
NUM_SUBWORDS = 2000
MIN_COUNT = 2  # of a word of the documentation; prepared text has its unknown words marked


def dataset(split, *, size, streams, length, parts=1, fraction=1):
    """
    :param split: "train", "valid" or "test"
    :param size: number of subwords
    :param streams: so many parts of the text are read in parallel: the sequences of a batch
    :param length: in subwords, of a sequence
    :param parts: of the same number of sequences, into which the data set can be divided
    :param fraction: of the text, from its beginning
    :return: data set, whose sequence `i * streams + k` is the part `i` of stream `k`
    """
    ids = encoded(split, size)
    ids = ids[: int(len(ids) * fraction)]
    per_stream = (len(ids) - 1) // streams
    if parts > 1:
        per_stream -= per_stream % (parts * length)
    if per_stream < 1:
        raise ValueError(f"the text {split!r} is too short: {len(ids)} subwords for {streams} streams in {parts} parts")
    subwords, following = (ids[start:][: per_stream * streams].reshape(streams, per_stream) for start in (0, 1))
    seqs = [
        {"data": subwords[k, i : i + length], "classes": following[k, i : i + length], "seq_tag": f"{split}-{k}-{i}"}
        for i in range(0, per_stream, length)
        for k in range(streams)
    ]
    output_dim = dict.fromkeys(("data", "classes"), (size, 1))
    return {"class": "StaticDataset", "data": seqs, "output_dim": output_dim, "seq_ordering": "default"}


def subwords_per_word(split, size):
    """:return: by which the loss of a subword becomes the one of a word"""
    return len(encoded(split, size)) / sum(len(line.split()) + 1 for line in _lines(split))


@functools.cache
def encoded(split, size):
    """:return: (n,): the subwords of all lines, each of which ends with `END_OF_LINE`"""
    model = _subword_model(size)
    end = model.piece_to_id(END_OF_LINE)
    return numpy.array([i for ids in model.encode(_lines(split)) for i in (*ids, end)], "int32")


@functools.cache
def _subword_model(size):
    """:return: byte pair encoding of the words of the training data (Sennrich et al. 2016), made in a few seconds"""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(_lines("train")), model_writer=model, vocab_size=size, model_type="bpe",
        user_defined_symbols=[END_OF_LINE, UNKNOWN], unk_piece="<none>", bos_id=-1, eos_id=-1, num_threads=1,
        character_coverage=1.0, minloglevel=2, normalization_rule_name="identity",
    )  # fmt: skip
    return sentencepiece.SentencePieceProcessor(model_proto=model.getvalue())


@functools.cache
def _lines(split):
    folder = os.environ.get("LM_DATA")
    return _lines_of_docs()[split] if folder is None else _lines_of_file(folder, split)


def _lines_of_file(folder, split):
    path = os.path.join(folder, f"{split}.txt")
    if os.path.exists(path):
        with open(path, encoding="utf8") as file:
            return file.read().split("\n")[:-1]
    if not os.path.exists(f"{path}.gz"):
        raise FileNotFoundError(f"LM_DATA: there is neither {path!r} nor {f'{path}.gz'!r}.")
    with gzip.open(f"{path}.gz", "rt", encoding="utf8") as file:
        return file.read().split("\n")[:-1]


@functools.cache
def _lines_of_docs():
    """
    :return: by split. Each tenth line is for the validation, and each tenth one for the test. What pages repeat is
        there once, so that none of those is known from the training
    """
    lines = []
    for path in sorted(glob.glob(os.path.join(ROOT, "docs", "**", "*.md"), recursive=True)):
        with open(path, encoding="utf8") as file:
            lines += [" ".join(re.findall(r"\w+|[^\w\s]", line.lower())) for line in file if line.strip()]
    if not lines:
        docs = os.path.join(ROOT, "docs")
        raise FileNotFoundError(
            f"there is no documentation in {docs!r} to learn from: set LM_DATA to a folder with texts."
        )
    lines = list(dict.fromkeys(lines))
    splits = {"valid": lines[8::10], "test": lines[9::10]}
    splits["train"] = [line for i, line in enumerate(lines) if i % 10 < 8]
    counts = collections.Counter(word for line in splits["train"] for word in line.split())
    return {
        split: [" ".join(word if counts[word] >= MIN_COUNT else UNKNOWN for word in line.split()) for line in part]
        for split, part in splits.items()
    }
