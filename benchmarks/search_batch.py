"""
Searches whose sequences leave the batch when they have ended, against the same with `search_shrinks_batch = False`, and
against the same search written by hand in plain TensorFlow.

The decoder of `demos/g2p/attention.config`, with random parameters, where each word ends after the number of phonemes
that it has in the CMU Pronouncing Dictionary. Batches of words in random order, of words sorted by their letters as the
recipe does it, and of words that all have as many phonemes, where nothing can be won. All take turns batch by batch,
and are checked to find the same. Run as `python -m benchmarks.search_batch [--batch 64] [--threads 1]`.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy

from benchmarks.cpus import use_cpus
from benchmarks.loop import CONFIG, NUM_ENCODER, ByHand, decoder_of_demo, tf, tf1
from returnn.config import Config
from returnn.tf.network import TFNetwork

sys.path.insert(0, str(CONFIG.parent))
from g2p_data import pronunciations

Batch = list[numpy.ndarray]  # encoder, number of letters, number of phonemes
Search = Callable[[Batch], list[numpy.ndarray]]  # gives labels and their lengths


def make_search(*, shrinks: bool, threads: int) -> Search:
    """:return: function that decodes a batch"""
    layers, extern_data = decoder_of_demo(search=True)
    unit = {**layers["output"]["unit"], "end": {
        "class": "compare", "kind": "greater_equal", "from": [":i", "base:data:phonemes"]}}  # fmt: skip
    layers["output"] = {**layers["output"], "unit": unit, "max_seq_len": 100}
    extern_data["phonemes"] = {"shape": (), "dtype": "int32", "dim": None, "available_for_inference": True}
    options = {"search_depends_on_batch": False, "search_shrinks_batch": shrinks, "behavior_version": 21}
    with tf.Graph().as_default():
        config = Config({"extern_data": extern_data, "network": layers, **options})
        net = TFNetwork(config=config, train_flag=False, search_flag=True)
        net.construct_from_dict(layers)
        decision = net.get_layer("decision").output.copy_as_batch_major()
        data = net.extern_data.data["data"]
        feeds = [data.raw_tensor, data.dims[1].dyn_size_ext.raw_tensor, net.extern_data.data["phonemes"].raw_tensor]
        params = {p.name.split(":")[0]: p for p in net.get_params_list()}
        with_size = [*feeds, data.batch.dim] if tf.is_tensor(data.batch.dim) else feeds
        run = _runner([decision.raw_tensor, decision.get_sequence_lengths()], with_size, params, threads)
    return lambda batch: run(*[*batch, numpy.int32(len(batch[0]))][: len(with_size)])


def search_by_hand(threads: int) -> Search:
    """:return: the same in plain TensorFlow"""
    with tf.Graph().as_default():
        net = TFNetwork(config=Config({"extern_data": decoder_of_demo(search=False)[1], "behavior_version": 21}))
        net.construct_from_dict(decoder_of_demo(search=False)[0])
        shapes = {p.name.split(":")[0]: p for p in net.get_params_list()}
    with tf.Graph().as_default():
        model = ByHand(_values_of(shapes))
        phonemes = tf1.placeholder(tf.int32, [None])
        found = model.search(phonemes)
        run = _runner([found["labels"], found["lengths"]], [model.encoder, model.lengths, phonemes], model.p, threads)
    return lambda batch: run(*batch)


def _runner(
    fetches: list[tf.Tensor], feeds: list[tf.Tensor], params: dict[str, Any], threads: int
) -> Callable[..., list[numpy.ndarray]]:
    """:return: function that takes the values of the feeds, with random parameters"""
    settings = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    session = tf1.Session(config=settings)
    for name, value in _values_of(params).items():
        params[name].load(value, session)
    return session.make_callable(fetches, feeds)


def _values_of(params: dict[str, Any]) -> dict[str, numpy.ndarray]:
    rnd = numpy.random.RandomState(2)
    return {
        name: rnd.normal(0.0, shape[0] ** -0.5, shape).astype("float32")
        for name, shape in sorted((name, tuple(p.shape)) for name, p in params.items())
    }


def batches_of_words(args: argparse.Namespace, order: str) -> list[Batch]:
    """:return: as many as are wanted"""
    rnd = numpy.random.RandomState(1)
    words = sorted(pronunciations("test").items())
    rnd.shuffle(words)
    words = words[: args.batch * args.num_batches]
    if order == "sorted":
        words.sort(key=lambda entry: len(entry[0]))
    out = []
    for start in range(0, len(words), args.batch):
        part = words[start : start + args.batch]
        letters = numpy.array([len(word) for word, _ in part], "int32")
        phonemes = numpy.array([len(candidates[0]) for _, candidates in part], "int32")
        if order == "all as long":
            phonemes[:] = round(phonemes.mean())
        encoder = rnd.normal(0.0, 0.5, [len(part), letters.max(), NUM_ENCODER]).astype("float32")
        out.append([encoder, letters, phonemes])
    return out


def compare(args: argparse.Namespace, searches: dict[str, Search], order: str) -> None:
    """Prints the ratios."""
    wall, cpu = dict.fromkeys(searches, 0.0), dict.fromkeys(searches, 0.0)
    for index, batch in enumerate(batches_of_words(args, order)):
        found = {}
        for name, search in searches.items():
            start = time.perf_counter(), time.process_time()
            found[name] = search(batch)
            if index:
                wall[name] += time.perf_counter() - start[0]
                cpu[name] += time.process_time() - start[1]
        labels, lengths = found.pop("shrinks")
        for name, (expected, expected_lengths) in found.items():
            assert (lengths == expected_lengths).all(), name
            different = sum((a[:n] != b[:n]).any() for a, b, n in zip(labels, expected, lengths, strict=True))
            assert different <= len(labels) / 50, (name, different)  # by rounding, if two hypotheses are as good
    print(f"{order:<12} shrinks {wall['shrinks']:>6.2f} s, processor {cpu['shrinks']:>6.2f} s", end="")
    for name in found:
        ratios = f"{wall[name] / wall['shrinks']:>5.2f}, processor {cpu[name] / cpu['shrinks']:>5.2f}"
        print(f"; times of {name}: {ratios}", end="")
    print(flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--num_batches", type=int, default=15)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    use_cpus(args.threads)
    searches = {name: make_search(shrinks=name == "shrinks", threads=args.threads) for name in ("stays", "shrinks")}
    searches["by hand"] = search_by_hand(args.threads)
    for order in ("random", "sorted", "all as long"):
        compare(args, searches, order)


if __name__ == "__main__":
    main()
