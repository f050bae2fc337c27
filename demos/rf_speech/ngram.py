"""
A language model of word triples: estimated from sentences, written as an ARPA file, and asked through KenLM.

KenLM's own tool that estimates models is not in its package for Python, so there is a small one here: Witten-Bell
smoothing (Witten and Bell 1991), where what was not seen gets the probability of the shorter context. Of a text with
a sentence per line, words between spaces:

    python demos/rf_speech/ngram.py text words.arpa
"""

from __future__ import annotations

import collections
import math
import os
import sys
from collections.abc import Iterable, Sequence

import numpy

from returnn.util.errors import UserError
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.text_file import iter_lines
from returnn.util.python.optional_import import import_optional

BEGIN, END, UNKNOWN = "<s>", "</s>", "<unk>"
_ORDER = 3
_NEVER = -99.0  # log10 of the probability of what is only a context

NGram = tuple[str, ...]


def write_arpa(sentences: Iterable[Sequence[str]], filename: str) -> str:
    """
    :param sentences: words
    :param filename: ARPA file; is written if it is not there
    :return: the same
    """
    if os.path.exists(filename):
        return filename
    counts: collections.Counter[NGram] = collections.Counter()
    for sentence in sentences:
        tokens = [BEGIN, *sentence, END]
        counts.update(tuple(tokens[i : i + n]) for n in range(1, _ORDER + 1) for i in range(len(tokens) - n + 1))
    del counts[(BEGIN,)]
    following: dict[NGram, list[NGram]] = collections.defaultdict(list)
    for ngram in counts:
        following[ngram[:-1]].append(ngram)
    probabilities = {(BEGIN,): 0.0, (UNKNOWN,): 0.0, **_probabilities(counts, following)}
    lines = ["\\data\\"]
    of_order = {n: sorted(ngram for ngram in probabilities if len(ngram) == n) for n in range(1, _ORDER + 1)}
    lines += [f"ngram {n}={len(ngrams)}" for n, ngrams in of_order.items()]
    for n, ngrams in of_order.items():
        lines += ["", f"\\{n}-grams:"]
        for ngram in ngrams:
            backoff = f"\t{math.log10(_unseen(ngram, counts, following)):.6f}" if n < _ORDER else ""
            p = probabilities[ngram]
            lines.append(f"{math.log10(p) if p else _NEVER:.6f}\t{' '.join(ngram)}{backoff}")
    write_atomic(filename, "\n".join([*lines, "", "\\end\\", ""]))
    return filename


def _probabilities(counts: collections.Counter[NGram], following: dict[NGram, list[NGram]]) -> dict[NGram, float]:
    """:return: p(last word | words before), of all that was seen: mixed with that of the shorter context"""
    probabilities: dict[NGram, float] = {}
    for ngram in sorted(counts, key=len):
        context = ngram[:-1]
        total = sum(counts[other] for other in following[context])
        share = _unseen(context, counts, following)
        shorter = probabilities[ngram[1:]] if len(ngram) > 1 else 1 / len(following[()])
        probabilities[ngram] = (1 - share) * counts[ngram] / total + share * shorter
    return probabilities


def _unseen(context: NGram, counts: collections.Counter[NGram], following: dict[NGram, list[NGram]]) -> float:
    """:return: probability that another word follows than one that was seen to; 1 if none was"""
    kinds = len(following.get(context, ()))
    if not kinds:
        return 1.0
    return kinds / (kinds + sum(counts[ngram] for ngram in following[context]))


class NGramTable:
    """
    All that a model of triples can say of a small vocabulary. Then a search needs no call to Python in each frame.

    A context is the last two words, as one number: `before * (number of words + 1) + last`; what stands for "no word
    yet" is the number of words.
    """

    def __init__(self, filename: str, words: Sequence[str]) -> None:
        """
        :param filename: ARPA file, or binary file of KenLM
        :param words: the labels
        """
        kenlm = import_optional("kenlm", needed_for="language models by KenLM")
        config = kenlm.Config()
        config.show_progress = False
        model = kenlm.Model(filename, config)
        self.num_words = len(words)
        self.begin = self.num_words * (self.num_words + 1) + self.num_words
        rows = []
        for before in [*words, BEGIN]:
            for last in [*words, BEGIN]:
                state, after = kenlm.State(), kenlm.State()
                model.BeginSentenceWrite(state)
                for word in (before, last):
                    if word != BEGIN:
                        model.BaseScore(state, word, after)
                        state, after = after, state
                rows.append([model.BaseScore(state, word, kenlm.State()) for word in [*words, END]])
        scores = numpy.array(rows, dtype="float32") * math.log(10)
        self.scores = scores[:, :-1]  # (contexts, words): log probability of a word behind a context
        self.end_scores = scores[:, -1]  # (contexts,): of the end


def main(args: Sequence[str]) -> None:
    """:param args: of the command line: a text, and the ARPA file, which is not there yet"""
    if len(args) != 2 or os.path.exists(args[1]):
        raise SystemExit(f"{args[1]!r} exists." if len(args) == 2 else "usage: ngram.py TEXT FILE.arpa")
    try:
        sentences = [line.split() for line in iter_lines(args[0])]
    except UserError as exc:
        raise SystemExit(str(exc)) from exc
    if not any(sentences):
        raise SystemExit(f"there are no words in {args[0]!r}.")
    write_arpa([sentence for sentence in sentences if sentence], args[1])


if __name__ == "__main__":
    main(sys.argv[1:])
