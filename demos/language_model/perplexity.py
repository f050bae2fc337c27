"""
Perplexities of words, after `lm.config ++task forward` on both splits:

    LM_DATA=FOLDER python demos/language_model/perplexity.py [--num_subwords N]

Those of the network, of n-grams with Kneser-Ney smoothing that are counted here, and of both together with a cache:
what came after the same subword in the last part of the text (Kuhn and de Mori 1990, "A cache-based natural
language model for speech recognition"; Grave et al. 2017 compare hidden states in place of subwords). How much each
counts is learned from the validation data, by expectation maximization.
"""

from __future__ import annotations

import argparse
import collections
import os
import sys
from collections.abc import Mapping

import h5py
import lm_data
import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kneser_ney import KneserNey, pack_ngrams

ORDER = 5
CACHE_SIZE = 3000  # subwords

Probabilities = dict[str, numpy.ndarray]  # by model, (n,): of each subword of a split


def main(folder: str, num_subwords: int) -> None:
    """Prints a table."""
    bits = (num_subwords - 1).bit_length()
    ngrams = KneserNey(_ngrams("train", num_subwords, bits), order=ORDER, bits=bits)
    models = {split: probabilities(folder, split, num_subwords, ngrams) for split in ("valid", "test")}
    weights = learn_weights(models["valid"])
    print(f"{'perplexity of words':20} valid   test   weight")
    for name in models["valid"]:
        alone = [_perplexity(split, found[name], num_subwords) for split, found in models.items()]
        columns = [f"{value:7.1f}" for value in alone] if name != "cache" else [" " * 7] * 2
        print(f"{name:18} {' '.join(columns)} {weights[name]:8.2f}")
    mixed = [_perplexity(split, mix(found, weights), num_subwords) for split, found in models.items()]
    print(f"{'all':18} {mixed[0]:7.1f} {mixed[1]:7.1f}")


def probabilities(folder: str, split: str, num_subwords: int, ngrams: KneserNey) -> Probabilities:
    """
    :param folder: of the outputs of the network
    :param split: "valid" or "test"
    :param num_subwords: of the config
    :param ngrams: learned from the training data
    :return: of all subwords but the first one; of the cache, 0 for those whose subword before was not seen
    """
    ids = lm_data.encoded(split, num_subwords)
    of_network = _read_log_probs(os.path.join(folder, f"{split}.hdf"), len(ids) - 1)
    num = len(of_network)
    of_ngrams = ngrams.probabilities(_ngrams(split, num_subwords, ngrams.bits), uniform=1 / num_subwords)
    return {"network": numpy.exp(of_network), f"{ORDER}-grams": of_ngrams[1:][:num], "cache": cached(ids)[1:][:num]}


def _ngrams(split: str, num_subwords: int, bits: int) -> numpy.ndarray:
    return pack_ngrams(lm_data.encoded(split, num_subwords), order=ORDER, bits=bits)


def _read_log_probs(filename: str, num: int) -> numpy.ndarray:
    """
    :param filename: what `forward` has written
    :param num: of subwords that have one before them
    :return: (n,): log probability of each; the last few of them are missing if they were no sequence
    """
    if not os.path.exists(filename):
        split = os.path.splitext(os.path.basename(filename))[0]
        sys.exit(f"There is no file {filename!r}. `rnn.py lm.config ++task forward ++split {split}` writes it.")
    with h5py.File(filename) as file:
        values, lengths = file["inputs"][()].reshape(-1), file["seqLengths"][:, 0]
        tags = [tag.decode() if isinstance(tag, bytes) else tag for tag in file["seqTags"][()]]
    streams = len({tag.split("-")[1] for tag in tags})
    if lengths.sum() != num - num % streams:
        sys.exit(f"{filename!r} is of another text, or of other subwords: give --num_subwords as for the network.")
    found = numpy.empty(lengths.sum())
    starts = numpy.cumsum(lengths) - lengths
    for tag, start, length in zip(tags, starts, lengths, strict=True):
        _, stream, offset = tag.split("-")
        place = int(stream) * (num // streams) + int(offset)
        found[place : place + length] = values[start : start + length]
    return found


def cached(ids: numpy.ndarray) -> numpy.ndarray:
    """
    :param ids: (n,): a text
    :return: (n,): how often each subword came after the one before it, of all that came after that one, in the last
        part of the text
    """
    counts: dict[int, collections.Counter[int]] = collections.defaultdict(collections.Counter)
    totals: collections.Counter[int] = collections.Counter()
    pairs = list(zip([-1, *ids.tolist()], ids.tolist(), strict=False))
    result = numpy.zeros(len(ids))
    for i, (before, subword) in enumerate(pairs):
        if i > CACHE_SIZE:
            oldest, its_subword = pairs[i - CACHE_SIZE - 1]
            counts[oldest][its_subword] -= 1
            totals[oldest] -= 1
        if totals[before]:
            result[i] = counts[before][subword] / totals[before]
        counts[before][subword] += 1
        totals[before] += 1
    return result


def learn_weights(models: Probabilities) -> Mapping[str, float]:
    """:return: by model, such that the mixture is most probable"""
    stacked = numpy.stack(list(models.values()))  # (models, n)
    weights = numpy.full(len(models), 1 / len(models))
    for _ in range(50):
        shares = weights[:, None] * stacked
        weights = (shares / shares.sum(axis=0)).mean(axis=1)
    return dict(zip(models, weights.tolist(), strict=True))


def mix(models: Probabilities, weights: Mapping[str, float]) -> numpy.ndarray:
    """:return: (n,)"""
    return numpy.asarray(sum(weights[name] * found for name, found in models.items()))


def _perplexity(split: str, found: numpy.ndarray, num_subwords: int) -> float:
    """:return: of a word"""
    with numpy.errstate(divide="ignore"):
        score = -numpy.log(found).mean()
    return float(numpy.exp(score * lm_data.subwords_per_word(split, num_subwords)))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Perplexities of words, of the network and together with n-grams.")
    parser.add_argument("--folder", default="language-model", help="with valid.hdf and test.hdf")
    parser.add_argument("--num_subwords", type=int, default=lm_data.NUM_SUBWORDS, help="as for lm.config")
    args = parser.parse_args()
    main(args.folder, args.num_subwords)
