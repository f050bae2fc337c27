"""Walks through a data set, and shows what is in there: on the screen, in files, as statistics."""

from __future__ import annotations

import ast
import getpass
import gzip
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy

from returnn.datasets.core.dataset import Dataset
from returnn.tools.dataset_pictures import DataPictures, section_of_seq, write_sections
from returnn.util.errors import UserError, check_known
from returnn.util.files.atomic_file import open_atomic
from returnn.util.files.text_file import iter_lines
from returnn.util.numbers.numbers_dict import NumbersDict
from returnn.util.numbers.stats import Stats
from returnn.util.system.debug_shell import debug_shell
from returnn.util.texts.counted import counted
from returnn.util.texts.human_readable import hms

DUMP_TYPES = {
    "stdout": "prints the data of all keys",
    "print_tag": "prints the tags",
    "print_shape": "prints shape and dtype for all keys",
    "dump_tag": "writes the tags to a file",
    "dump_seq_len": "writes the lengths to a file, as a Python dict",
    "numpy": "writes the data to text files, one per sequence",
    "plot": "writes pictures of the data, one per sequence",
    "interactive": "opens a shell for each sequence",
    "null": "only loads the data",
}


@dataclass(frozen=True)
class Selection:
    """Which sequences of an epoch."""

    epoch: int = 1
    start: int = 0
    end: int | None = None  # exclusive
    tags: frozenset[str] | None = None
    min_length: NumbersDict | None = None
    max_length: NumbersDict | None = None

    def seqs_of(self, dataset: Dataset) -> Iterator[int]:
        """:return: numbers of the sequences, loaded"""
        dataset.init_seq_order(self.epoch)
        seq_idx = self.start
        while (self.end is None or seq_idx < self.end) and dataset.is_less_than_num_seqs(seq_idx):
            dataset.load_seqs(seq_idx, seq_idx + 1)
            if self._has(dataset, seq_idx):
                yield seq_idx
            seq_idx += 1

    def _has(self, dataset: Dataset, seq_idx: int) -> bool:
        if self.tags is not None and dataset.get_tag(seq_idx) not in self.tags:
            return False
        length = dataset.get_seq_length(seq_idx)
        is_short = self.min_length is not None and length.any_compare(self.min_length, lambda a, b: a < b)
        is_long = self.max_length is not None and length.any_compare(self.max_length, lambda a, b: a > b)
        return not (is_short or is_long)


def parse_tags(text: str | None) -> frozenset[str] | None:
    """:return: from a file with a tag per line, or tags with commas between"""
    if text is None:
        return None
    return frozenset(line.strip() for line in iter_lines(text)) if os.path.exists(text) else frozenset(text.split(","))


def parse_lengths(text: str | None) -> NumbersDict | None:
    """
    :param text: a number, or a dict from data key to number
    :raises UserError: if it is neither
    """
    if text is None:
        return None
    try:
        return NumbersDict(ast.literal_eval(text))
    except (ValueError, SyntaxError, TypeError, AssertionError) as exc:
        raise UserError(f"sequence length {text!r}: expected a number, or a dict like {{'data': 10}}.") from exc


def default_prefix(prog: str) -> str:
    """:return: what names of dumped files begin with"""
    return os.path.join(tempfile.gettempdir(), f"{getpass.getuser()}.{prog}.dump.")


@dataclass(frozen=True)
class Dump:
    """What happens with each sequence."""

    kind: str = "stdout"
    key: str = "data"
    prefix: str = "dump."
    postfix: str = ".txt.gz"
    stdout_limit: float | None = None  # number of values, above which arrays are shortened
    stdout_as_bytes: bool = False

    def run(
        self,
        dataset: Dataset,
        selection: Selection,
        stats: Stats | None = None,
        pictures: DataPictures | None = None,
    ) -> int:
        """
        :param dataset: the data
        :param selection: of its sequences
        :param stats: collects the data of the key
        :param pictures: collects the sequences
        :return: number of sequences
        """
        check_known("type", self.kind, DUMP_TYPES, where="option '--type'")
        check_known("data key", self.key, dataset.get_data_keys(), where="option '--key'")
        show: dict[str, Callable[[Dataset, int], None]] = {
            "stdout": self._print,
            "print_tag": _print_tag,
            "print_shape": _print_shape,
            "numpy": self._write_text,
            "plot": self._plot,
            "interactive": _open_shell,
        }
        tags, lengths = [], {}
        for seq_idx in selection.seqs_of(dataset):
            tags.append(dataset.get_tag(seq_idx))
            lengths[tags[-1]] = int(dataset.get_seq_length(seq_idx)[self.key])
            if self.kind in show:
                show[self.kind](dataset, seq_idx)
            if stats is not None:
                stats.collect(dataset.get_data(seq_idx, self.key))
            if pictures is not None:
                pictures.add(dataset, seq_idx)
        if self.kind == "dump_tag":
            self._write_file("tags", [f"{tag}\n" for tag in tags])
        elif self.kind == "dump_seq_len":
            self._write_file("seq_len", ["{\n", *(f"{tag!r}: {length},\n" for tag, length in lengths.items()), "}\n"])
        return len(tags)

    def _print(self, dataset: Dataset, seq_idx: int) -> None:
        threshold = numpy.inf if self.stdout_limit is None else self.stdout_limit
        with numpy.printoptions(threshold=threshold, linewidth=120):
            print(f"seq {seq_idx} {dataset.get_tag(seq_idx)!r}")
            for key in dataset.get_data_keys():
                data = dataset.get_data(seq_idx, key)
                print(f"  {key} {_described(data)}: {self._text_of(dataset, key, data)}")

    def _text_of(self, dataset: Dataset, key: str, data: numpy.ndarray) -> str:
        if self.stdout_as_bytes and data.dtype == numpy.uint8:
            return repr(bytes(data))
        if dataset.can_serialize_data(key) and dataset.is_data_sparse(key):
            return f"{data} {dataset.serialize_data(key, data)!r}"
        return str(data)

    def _filename(self, name: str) -> str:
        return f"{self.prefix}{name}{self.postfix}"

    def _write_file(self, name: str, lines: Sequence[str]) -> None:
        filename = self._filename(name)
        content = "".join(lines).encode("utf8")
        with open_atomic(filename, "wb") as file:
            file.write(gzip.compress(content, mtime=0) if filename.endswith(".gz") else content)
        print(f"wrote {filename}")

    def _write_text(self, dataset: Dataset, seq_idx: int) -> None:
        for key in dataset.get_data_keys():
            data = dataset.get_data(seq_idx, key)
            lines = [" ".join(map(str, numpy.atleast_1d(frame).flatten())) + "\n" for frame in numpy.atleast_1d(data)]
            self._write_file(f"{seq_idx}.{key}", lines)

    def _plot(self, dataset: Dataset, seq_idx: int) -> None:
        filename = f"{self.prefix}{seq_idx}.{self.key}.png"
        write_sections(filename, [section_of_seq(dataset, seq_idx, [self.key])])
        print(f"wrote {filename}")


def _described(data: numpy.ndarray) -> str:
    return f"{data.dtype}{list(data.shape)}"


def _print_tag(dataset: Dataset, seq_idx: int) -> None:
    print(dataset.get_tag(seq_idx))


def _print_shape(dataset: Dataset, seq_idx: int) -> None:
    shapes = ", ".join(f"{key} {_described(dataset.get_data(seq_idx, key))}" for key in dataset.get_data_keys())
    print(f"seq {seq_idx} {dataset.get_tag(seq_idx)!r}: {shapes}")


def _open_shell(dataset: Dataset, seq_idx: int) -> None:
    names: dict[str, Any] = {key: dataset.get_data(seq_idx, key) for key in dataset.get_data_keys()}
    debug_shell({"dataset": dataset, "seq_idx": seq_idx, "data": names}, exit_afterwards=False)


def in_words(num_seqs: int, seconds: float) -> str:
    """:return: the last line"""
    return f"{counted(num_seqs, 'sequence')}, {hms(seconds)}"
