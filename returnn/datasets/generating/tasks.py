"""
Artificial tasks, each of which a recurrent network can learn: from symbols to symbols.

Sequences are generated as text and converted at the end: the input is one-hot, (time, symbol).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from returnn.datasets.core.dataset_seq import Array, DatasetSeq
from returnn.datasets.generating.base import GeneratingDataset
from returnn.util.errors import ConfigError

_PAIR_OF_DIGIT = {"1": "AX", "2": "BY"}  # of the 12-AX task


class _SymbolTask(GeneratingDataset):
    """A derived class has both alphabets, and defines `generate_input_seq` and `make_output_seq`."""

    fixed_options = ("input_dim", "output_dim")

    _input_classes: Sequence[str]
    _output_classes: Sequence[str]

    def __init__(self, *, num_seqs: float = math.inf, **kwargs: Any) -> None:
        super().__init__(
            input_dim=len(self._input_classes), output_dim=len(self._output_classes), num_seqs=num_seqs, **kwargs
        )
        self.labels = {"data": list(self._input_classes), "classes": list(self._output_classes)}

    def _random_letters(self, letters: Sequence[str], length: int) -> str:
        return "".join(letters[i] for i in self.random.randint(len(letters), size=length))

    def _make_seq(self, seq_idx: int, input_seq: Sequence[str], output_seq: Sequence[str]) -> DatasetSeq:
        features = one_hot([self._input_classes.index(symbol) for symbol in input_seq], len(self._input_classes))
        targets = np.array([self._output_classes.index(symbol) for symbol in output_seq], dtype=np.int32)
        return DatasetSeq(seq_idx, features, targets=targets)


def one_hot(labels: Sequence[int], num_labels: int) -> Array:
    """:return: (time, label), float32"""
    return np.eye(num_labels, dtype=np.float32)[np.asarray(labels, dtype=np.int64)]


class Task12AXDataset(_SymbolTask):
    """
    The 12-AX task (O'Reilly and Frank 2006, doi 10.1162/089976606775093909).

    The output is R for an X after an A since the last digit was 1, and for a Y after a B since it was 2; otherwise L.
    Between A and X, or B and Y, there may be other symbols; each of them is looked for from the last digit on.
    """

    _input_classes = "123ABCXYZ"
    _output_classes = "LR"

    def __init__(self, *, num_seqs: float = math.inf, **kwargs: Any) -> None:
        """:param num_seqs: in each epoch; infinite by default"""
        super().__init__(num_seqs=num_seqs, **kwargs)

    def get_random_seq_len(self) -> int:
        """:return: between 10 and 100"""
        return int(self.random.randint(10, 100))

    def generate_input_seq(self, seq_len: int) -> str:
        """:return: a digit and some pairs, such as 1AXBYAX, and again; every second pair is one with the output R"""
        text = ""
        while len(text) < seq_len:
            digit = self._random_letters("12", 1)
            text += digit + self._random_letters("CZ", int(self.random.randint(0, 3)))
            for _ in range(int(self.random.randint(1, 5))):
                is_target = self.random.random_sample() < 0.5
                any_pair = self._random_letters("AB", 1) + self._random_letters("XY", 1)
                text += _PAIR_OF_DIGIT[digit] if is_target else any_pair
        return text[:seq_len]

    @classmethod
    def make_output_seq(cls, input_seq: str) -> str:
        """:return: one symbol for each symbol of the input"""
        digit, last_letter = "", ""
        output = ""
        for symbol in input_seq:
            if symbol in "123":
                digit, last_letter = symbol, ""
            output += "R" if _PAIR_OF_DIGIT.get(digit) == last_letter + symbol else "L"
            if symbol in "ABC":
                last_letter = symbol
        return output

    def estimate_output_class_priors(self, num_trials: int, seq_len: int = 10) -> tuple[float, float]:
        """:return: share of L and of R in that many random sequences"""
        outputs = "".join(self.make_output_seq(self.generate_input_seq(seq_len)) for _ in range(num_trials))
        share = outputs.count("R") / len(outputs)
        return 1.0 - share, share

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        input_seq = self.generate_input_seq(self.get_random_seq_len())
        return self._make_seq(seq_idx, input_seq, self.make_output_seq(input_seq))


class TaskEpisodicCopyDataset(_SymbolTask):
    """
    Copy letters after a while: 10 letters, 20 to 40 blanks, a delimiter; then the letters come as output.

    Several such episodes after each other. Symbols: letters A to H, "." is the blank, and "|" the delimiter.
    """

    _input_classes = "ABCDEFGH.|"
    _output_classes = "ABCDEFGH."

    def __init__(self, *, num_seqs: float = math.inf, **kwargs: Any) -> None:
        """:param num_seqs: in each epoch; infinite by default"""
        super().__init__(num_seqs=num_seqs, **kwargs)

    def generate_input_seq(self) -> str:
        """:return: one to three episodes"""
        episodes = []
        for _ in range(int(self.random.randint(1, 4))):
            letters = self._random_letters("ABCDEFGH", 10)
            blanks = "." * int(self.random.randint(20, 41))
            episodes.append(letters + blanks + "|" + "." * len(letters))
        return "".join(episodes)

    @classmethod
    def make_output_seq(cls, input_seq: str) -> str:
        """:return: blanks, and after each delimiter the letters before it"""
        output, letters = [], ""
        pending = ""
        for symbol in input_seq:
            if symbol == "|":
                pending, letters = letters, ""
                output.append(".")
                continue
            output.append(pending[:1] or ".")
            pending = pending[1:]
            letters += symbol if symbol != "." else ""
        return "".join(output)

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        input_seq = self.generate_input_seq()
        return self._make_seq(seq_idx, input_seq, self.make_output_seq(input_seq))


class TaskXmlModelingDataset(_SymbolTask):
    """
    Predict the next symbol of nested tags, as `<ab><cde></cde></ab>`: needs a stack (after Jozefowicz et al. 2015).

    The output at each position is the symbol which comes next.
    """

    _input_classes = " <>/abcdefgh"
    _output_classes = " <>/abcdefgh"

    def __init__(self, *, limit_stack_depth: int = 4, num_seqs: float = math.inf, **kwargs: Any) -> None:
        """
        :param limit_stack_depth: how deep tags are nested
        :param num_seqs: in each epoch; infinite by default
        """
        super().__init__(num_seqs=num_seqs, **kwargs)
        self.limit_stack_depth = limit_stack_depth

    def generate_input_seq(self) -> str:
        """:return: tags which are all closed in the end"""
        stack: list[str] = []
        text = ""
        num_tags = int(self.random.randint(2, 8))
        while num_tags or stack:
            may_open = num_tags > 0 and len(stack) < self.limit_stack_depth
            if may_open and (not stack or self.random.random_sample() < 0.5):
                stack.append(self._random_letters("abcdefgh", int(self.random.randint(2, 11))))
                text += f"<{stack[-1]}>"
                num_tags -= 1
            else:
                text += f"</{stack.pop()}>"
        return text

    @classmethod
    def make_output_seq(cls, input_seq: str) -> str:
        """:return: the input, one position earlier, with a blank at the end"""
        return input_seq[1:] + " "

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        input_seq = self.generate_input_seq()
        return self._make_seq(seq_idx, input_seq, self.make_output_seq(input_seq))


class TaskVariableAssignmentDataset(_SymbolTask):
    """
    Find the value of a variable, as in `ml=a,qc=n,?(ml)a.`: it is asked at the end (after Jozefowicz et al. 2015).

    The output at each position is the symbol which comes next. So the value has to be known before it is seen.
    """

    _input_classes = " (),.=?abcdefghijklmnopqrstuvwxyz"
    _output_classes = " (),.=?abcdefghijklmnopqrstuvwxyz"

    def __init__(self, *, num_seqs: float = math.inf, **kwargs: Any) -> None:
        """:param num_seqs: in each epoch; infinite by default"""
        super().__init__(num_seqs=num_seqs, **kwargs)

    def generate_input_seq(self) -> str:
        """:return: assignments, a question and its answer"""
        letters = "abcdefghijklmnopqrstuvwxyz"
        values: dict[str, str] = {}
        for _ in range(int(self.random.randint(1, 6))):
            name = self._random_letters(letters, int(self.random.randint(2, 5)))
            values[name] = self._random_letters(letters, 1)
        asked = sorted(values)[int(self.random.randint(len(values)))]
        return "".join(f"{name}={value}," for name, value in values.items()) + f"?({asked}){values[asked]}."

    @classmethod
    def make_output_seq(cls, input_seq: str) -> str:
        """:return: the input, one position earlier, with a blank at the end"""
        return input_seq[1:] + " "

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        input_seq = self.generate_input_seq()
        return self._make_seq(seq_idx, input_seq, self.make_output_seq(input_seq))


class TaskNumberBaseConvertDataset(_SymbolTask):
    """Convert a number from one base to another. The input is labels here, not one-hot."""

    _max_base = 36

    def __init__(
        self,
        *,
        input_base: int = 8,
        output_base: int = 2,
        min_input_seq_len: int = 1,
        max_input_seq_len: int = 8,
        num_seqs: float = math.inf,
        **kwargs: Any,
    ) -> None:
        """
        :param input_base: of the input, 2 to 36
        :param output_base: of the output, 2 to 36
        :param min_input_seq_len: digits of the input, at least
        :param max_input_seq_len: digits of the input, at most
        :param num_seqs: in each epoch; infinite by default
        """
        for option, base in (("input_base", input_base), ("output_base", output_base)):
            if not 2 <= base <= self._max_base:
                raise ConfigError(f"{type(self).__name__}: option {option!r}: {base} is not between 2 and 36.")
        if not 1 <= min_input_seq_len <= max_input_seq_len:
            raise ConfigError(
                f"{type(self).__name__}: options 'min_input_seq_len' and 'max_input_seq_len': {min_input_seq_len} to "
                f"{max_input_seq_len} digits are not possible."
            )
        digits = "0123456789abcdefghijklmnopqrstuvwxyz"
        self._input_classes = digits[:input_base]
        self._output_classes = digits[:output_base]
        super().__init__(num_seqs=num_seqs, **kwargs)
        self.num_outputs["data"] = (input_base, 1)
        self.input_base = input_base
        self.output_base = output_base
        self.min_input_seq_len = min_input_seq_len
        self.max_input_seq_len = max_input_seq_len

    def get_random_input_seq_len(self) -> int:
        """:return: number of digits"""
        return int(self.random.randint(self.min_input_seq_len, self.max_input_seq_len + 1))

    def generate_input_seq(self) -> str:
        """:return: digits; the first one is not 0"""
        length = self.get_random_input_seq_len()
        return self._random_letters(self._input_classes[1:], 1) + self._random_letters(self._input_classes, length - 1)

    def make_output_seq(self, input_seq: str) -> str:
        """:return: digits of the same number"""
        number = int(input_seq, self.input_base)
        output = ""
        while number or not output:
            number, digit = divmod(number, self.output_base)
            output = self._output_classes[digit] + output
        return output

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        input_seq = self.generate_input_seq()
        features = np.array([self._input_classes.index(digit) for digit in input_seq], dtype=np.int32)
        targets = np.array([self._output_classes.index(digit) for digit in self.make_output_seq(input_seq)], np.int32)
        return DatasetSeq(seq_idx, features, targets=targets)


class CopyTaskDataset(GeneratingDataset):
    """Copy symbols after they have ended: the input is symbols and then blanks, the output blanks and then symbols."""

    fixed_options = ("input_dim", "output_dim")

    def __init__(
        self,
        nsymbols: int,
        minlen: int = 0,
        maxlen: int = 0,
        minlen_epoch_factor: float = 0,
        maxlen_epoch_factor: float = 0,
        **kwargs: Any,
    ) -> None:
        """
        :param nsymbols: number of symbols, beside the blank and the delimiter
        :param minlen: symbols per sequence, at least
        :param maxlen: symbols per sequence, at most
        :param minlen_epoch_factor: added to `minlen` for each epoch
        :param maxlen_epoch_factor: added to `maxlen` for each epoch
        """
        super().__init__(input_dim=nsymbols + 1, output_dim=nsymbols + 1, **kwargs)
        self.nsymbols = nsymbols
        self.minlen = minlen
        self.maxlen = maxlen
        self.minlen_epoch_factor = minlen_epoch_factor
        self.maxlen_epoch_factor = maxlen_epoch_factor

    def get_random_seq_len(self) -> int:
        """:return: number of symbols, by the epoch; at least one"""
        epoch = ((self.epoch or 1) - 1) // self.partition_epoch + 1
        low = max(int(self.minlen + self.minlen_epoch_factor * epoch), 1)
        high = max(int(self.maxlen + self.maxlen_epoch_factor * epoch), low)
        return int(self.random.randint(low, high + 1))

    def generate_seq(self, seq_idx: int) -> DatasetSeq:
        symbols = self.random.randint(1, self.nsymbols + 1, size=self.get_random_seq_len())
        blanks = np.zeros_like(symbols)
        features = one_hot(np.concatenate([symbols, blanks]).tolist(), self.nsymbols + 1)
        targets = np.concatenate([blanks, symbols]).astype(np.int32)
        return DatasetSeq(seq_idx, features, targets=targets)
