"""
Perplexities of words, after `lm.config ++task forward` on both splits:

    LM_DATA=FOLDER python demos/language_model/perplexity.py [--num_subwords N]

Those of the network, of n-grams with Kneser-Ney smoothing that are counted here, and of both together with a cache:
what came next in the last part of the text, where the network was in a similar state (Grave et al. 2017, "Improving
neural language models with a continuous cache"). How much each counts is learned from the validation data, by
expectation maximization, and so is the scale of the similarity.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import h5py
import lm_data
import numpy

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from kneser_ney import KneserNey, pack_ngrams

MAX_ORDER = 5
CACHE_SIZE = 2000  # subwords
BLOCK = 500
SCALES = (0.2, 0.4, 0.8, 1.2, 1.6)  # of the similarity of states

Probabilities = dict[str, numpy.ndarray]  # by model, (n,): of each subword of a split


def main(folder: str, num_subwords: int) -> None:
    """Prints a table."""
    bits = (num_subwords - 1).bit_length()
    order = min(MAX_ORDER, 63 // bits)
    ngrams = KneserNey(_ngrams("train", num_subwords, order, bits), order=order, bits=bits)
    outputs = {split: read_outputs(folder, split, num_subwords) for split in ("valid", "test")}
    models = {split: probabilities(outputs[split], split, num_subwords, ngrams) for split in outputs}
    network = {"network": models["valid"]["network"]}
    scale = max(SCALES, key=lambda scale: likelihood({**network, "cache": outputs["valid"].cached(scale)}))
    for split, of_split in models.items():
        of_split["cache"] = outputs[split].cached(scale)
    of_valid = models["valid"]
    mixtures = {name: (name,) for name in of_valid if name != "cache"}
    mixtures["network, cache"] = ("network", "cache")
    mixtures["all"] = tuple(of_valid)
    print(f"{'perplexity of words':20} valid   test   weights")
    for title, names in mixtures.items():
        weights = learn_weights({name: of_valid[name] for name in names})
        found = [_perplexity(split, mix(of_split, weights), num_subwords) for split, of_split in models.items()]
        shown = ", ".join(f"{name} {weight:.2f}" for name, weight in weights.items())
        print(f"{title:18} {found[0]:7.1f} {found[1]:7.1f}   {shown}")
    print(f"scale of the similarity of states: {scale}")


@dataclass(frozen=True)
class Outputs:
    """Of the network, for all subwords of a text but the first one."""

    subwords: numpy.ndarray  # (n,)
    log_probs: numpy.ndarray  # (n,)
    states: numpy.ndarray  # (n, F): before each of them

    def cached(self, scale: float) -> numpy.ndarray:
        """:return: (n,): probability by what came after similar states"""
        return neural_cache(self.states, self.subwords, scale=scale)


def probabilities(outputs: Outputs, split: str, num_subwords: int, ngrams: KneserNey) -> Probabilities:
    """
    :param outputs: of the network
    :param split: "valid" or "test"
    :param num_subwords: of the config
    :param ngrams: learned from the training data
    :return: of all subwords but the first one
    """
    order = len(ngrams.orders)
    of_ngrams = ngrams.probabilities(_ngrams(split, num_subwords, order, ngrams.bits), uniform=1 / num_subwords)
    return {"network": numpy.exp(outputs.log_probs), f"{order}-grams": of_ngrams[1:][: len(outputs.log_probs)]}


def _ngrams(split: str, num_subwords: int, order: int, bits: int) -> numpy.ndarray:
    return pack_ngrams(lm_data.encoded(split, num_subwords), order=order, bits=bits)


def read_outputs(folder: str, split: str, num_subwords: int) -> Outputs:
    """
    :param folder: where `forward` has written its files
    :param split: "valid" or "test"
    :param num_subwords: of the config
    :return: of the subwords in the order of the text; the last few of them are missing if they were no sequence
    """
    filename, ids = os.path.join(folder, f"{split}.hdf"), lm_data.encoded(split, num_subwords)
    if not os.path.exists(filename):
        sys.exit(f"There is no file {filename!r}. `rnn.py lm.config ++task forward ++split {split}` writes it.")
    with h5py.File(filename) as file:
        values, lengths = file["inputs"][()], file["seqLengths"][:, 0]
        tags = [tag.decode() if isinstance(tag, bytes) else tag for tag in file["seqTags"][()]]
    num, streams = len(ids) - 1, len({tag.split("-")[1] for tag in tags})
    if lengths.sum() != num - num % streams:
        sys.exit(f"{filename!r} is of another text, or of other subwords: give --num_subwords as for the network.")
    found = numpy.empty_like(values)
    starts = numpy.cumsum(lengths) - lengths
    for tag, start, length in zip(tags, starts, lengths, strict=True):
        _, stream, offset = tag.split("-")
        place = int(stream) * (num // streams) + int(offset)
        found[place : place + length] = values[start : start + length]
    return Outputs(subwords=ids[1:][: len(found)], log_probs=found[:, 0], states=found[:, 1:])


def neural_cache(
    states: numpy.ndarray, subwords: numpy.ndarray, *, scale: float, size: int = CACHE_SIZE
) -> numpy.ndarray:
    """
    :param states: (n, F): of the network, before each subword
    :param subwords: (n,)
    :param scale: of the products of states, as logits
    :param size: so many subwords before are in the cache
    :return: (n,): probability of each by what came after those states: 0 if it did not come, and for the first one
    """
    found = numpy.zeros(len(subwords))
    for begin in range(0, len(subwords), BLOCK):
        first, end = max(begin - size, 0), min(begin + BLOCK, len(subwords))
        logits = states[begin:end] @ states[first:end].T * scale
        distance = numpy.arange(begin, end)[:, None] - numpy.arange(first, end)
        logits[(distance < 1) | (distance > size)] = -numpy.inf
        weights = numpy.exp(logits - logits.max(axis=1, keepdims=True, initial=numpy.finfo(logits.dtype).min))
        same = subwords[begin:end, None] == subwords[first:end]
        found[begin:end] = (weights * same).sum(axis=1) / numpy.maximum(weights.sum(axis=1), 1e-30)
    return found


def likelihood(models: Probabilities) -> float:
    """:return: mean log probability of the best mixture"""
    return float(numpy.log(mix(models, learn_weights(models))).mean())


def learn_weights(models: Probabilities) -> Mapping[str, float]:
    """:return: by model, such that the mixture is most probable"""
    stacked = numpy.stack(list(models.values()))  # (models, n)
    weights = numpy.full(len(models), 1 / len(models))
    for _ in range(50):
        shares = weights[:, None] * stacked
        weights = (shares / shares.sum(axis=0)).mean(axis=1)
    return dict(zip(models, weights.tolist(), strict=True))


def mix(models: Probabilities, weights: Mapping[str, float]) -> numpy.ndarray:
    """:return: (n,): of those models that have a weight"""
    return numpy.asarray(sum(weight * models[name] for name, weight in weights.items()))


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
