"""The symbols of a text, characters or words, by the options of `LmDataset`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from returnn.datasets.util.vocab_file import (
    check_vocab,
    labels_by_index,
    read_literal_file,
    read_vocab_file,
    vocab_from_labels,
)
from returnn.util.errors import ConfigError, UserError
from returnn.util.files.text_file import iter_lines, read_text
from returnn.util.texts.orthography import parse_orthography, parse_orthography_into_symbols


class SymbolTable:
    """From text to indices of symbols."""

    def __init__(
        self,
        *,
        symbols_file: str | None,
        symbols_map_file: str | None,
        replace_map_file: str | None,
        word_based: bool,
        word_end_symbol: str | None,
        seq_end_symbol: str | None,
        unknown_symbol: str | None,
        parse_orth_opts: Mapping[str, Any],
        on_unknown: Callable[[str], None],
    ):
        """
        :param symbols_file: a symbol per line
        :param symbols_map_file: instead, a dict from symbol to index, or lines of a symbol and its index
        :param replace_map_file: JSON dict from symbol to symbols
        :param word_based: symbols are words, otherwise characters
        :param word_end_symbol: stands after each word, instead of spaces between them
        :param seq_end_symbol: stands at the end; None: nothing
        :param unknown_symbol: for symbols that are not there; None: they are an error
        :param parse_orth_opts: of `parse_orthography`
        :param on_unknown: called with symbols that are not there
        """
        filename = symbols_map_file or symbols_file
        assert filename
        self._where = f"symbols {filename!r}"
        if symbols_map_file is None:
            self.index = vocab_from_labels(filter(None, iter_lines(filename)), where=self._where)
            check_vocab(self.index, where=self._where)
        else:
            self.index = _read_symbols_map(symbols_map_file, self._where)
        self.symbols = self.labels = labels_by_index(self.index)
        self.replace_map = _read_replace_map(replace_map_file, word_based) if replace_map_file else {}
        self.parse_orth_opts = {
            "word_based": word_based,
            "postfix": [seq_end_symbol] if seq_end_symbol is not None else [],
            **parse_orth_opts,
        }
        self._word_end_symbol = None if word_based else word_end_symbol
        self._on_unknown = on_unknown
        for option, symbol in [
            ("seq_end_symbol", seq_end_symbol),
            ("word_end_symbol", self._word_end_symbol),
            ("unknown_symbol", unknown_symbol),
        ]:
            if symbol is not None and symbol not in self.index:
                raise ConfigError(f"{self._where}: option {option!r}: there is no symbol {symbol!r}.")
        self._unknown_index = None if unknown_symbol is None else self.index[unknown_symbol]

    def indices(self, text: str) -> list[int]:
        """:raises UserError: if a symbol is not there, and there is no unknown symbol"""
        symbols = self._with_word_ends(parse_orthography(text, **self.parse_orth_opts))
        if self.replace_map:
            symbols = [new for symbol in symbols for new in self.replace_map.get(symbol, [symbol])]
        return [self._index_of(symbol) for symbol in symbols]

    def _index_of(self, symbol: str) -> int:
        index = self.index.get(symbol)
        if index is not None:
            return index
        if self._unknown_index is None:
            raise UserError(
                f"there is no symbol {symbol!r} in the {self._where}, and 'auto_replace_unknown_symbol' is not set"
            )
        self._on_unknown(symbol)
        return self._unknown_index

    def _with_word_ends(self, symbols: list[str]) -> list[str]:
        if self._word_end_symbol is None:
            return symbols
        postfix = list(self.parse_orth_opts["postfix"])
        end = len(symbols) - len(postfix)
        text = [self._word_end_symbol if symbol == " " else symbol for symbol in symbols[:end]]
        return [*text, *([self._word_end_symbol] if text else []), *postfix]


def _read_symbols_map(filename: str, where: str) -> dict[str, int]:
    if filename.removesuffix(".gz").endswith((".pkl", ".pickle")) or read_text(filename).lstrip().startswith("{"):
        return read_vocab_file(filename)
    index: dict[str, int] = {}
    for line_nr, line in enumerate(iter_lines(filename), start=1):
        if not line.strip():
            continue
        match = re.fullmatch(r"(.+)[ \t](\d+)", line.rstrip())
        if not match:
            raise UserError(f"{where}, line {line_nr}: expected a symbol and its index, got {line[:80]!r}.")
        index[match[1]] = int(match[2])
    check_vocab(index, where=where)
    return index


def _read_replace_map(filename: str, word_based: bool) -> dict[str, list[str]]:
    content = read_literal_file(filename)
    if not isinstance(content, dict):
        raise UserError(f"symbol replacements {filename!r}: expected a dict, got {type(content).__name__}.")
    return {
        symbol: list(new) if isinstance(new, list) else parse_orthography_into_symbols(new, word_based=word_based)
        for symbol, new in content.items()
    }
