"""
A search of the size of speech recognition, with native kernels against the same without: attention with feedback over
the frames of an encoder, an LSTM of 1000 units, 12 hypotheses, 30 steps. The encoder is given.

Run as `python -m benchmarks.speech_search [--features 2048] [--batch 8] [--frames 20 150] [--threads 1]`. Both take
turns, and are checked to find the same.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy

from benchmarks.cpus import use_cpus
from benchmarks.loop import tf, tf1
from benchmarks.rec_units import kernels
from returnn.config import Config
from returnn.tf.network import TFNetwork

BEAM_SIZE, STEPS, LABELS, UNITS, ATTENTION = 12, 30, 1000, 1000, 1024


def _linear(source: Any, size: int, **options: Any) -> dict[str, Any]:
    return {"class": "linear", "activation": None, "with_bias": False, "n_out": size, "from": source, **options}


UNIT = {
    "output": {"class": "choice", "target": "classes", "beam_size": BEAM_SIZE, "from": "prob", "initial_output": 0},
    "end": {"class": "compare", "kind": "greater_equal", "from": ":i", "value": STEPS - 1},
    "embedding": _linear("output", 620, initial_output=0),
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": UNITS, "from": ["prev:embedding", "prev:att"]},
    "query": _linear("s", ATTENTION),
    "feedback": _linear("prev:sum_weights", ATTENTION),
    "hidden": {"class": "combine", "kind": "add", "from": ["base:keys", "query", "feedback"]},
    "hidden_tanh": {"class": "activation", "activation": "tanh", "from": "hidden"},
    "energy": _linear("hidden_tanh", 1),
    "weights": {"class": "softmax_over_spatial", "from": "energy"},
    "sum_weights": {
        "class": "eval", "eval": "source(0) + source(1) * source(2) * 0.5",
        "from": ["prev:sum_weights", "weights", "base:fertility"], "out_type": {"dim": 1, "shape": (None, 1)},
    },
    "att": {"class": "generic_attention", "weights": "weights", "base": "base:data"},
    "readout_in": {**_linear(["s", "prev:embedding", "att"], 1000), "with_bias": True},
    "readout": {"class": "reduce_out", "mode": "max", "num_pieces": 2, "from": "readout_in"},
    "prob": {"class": "softmax", "from": "readout", "target": "classes"},
}  # fmt: skip
NETWORK = {
    "keys": _linear("data", ATTENTION),
    "fertility": {**_linear("data", 1), "activation": "sigmoid"},
    "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 2 * STEPS, "unit": UNIT},
    "decision": {"class": "decide", "from": "output", "is_output_layer": True},
}

Search = Callable[[numpy.ndarray], numpy.ndarray]  # from the encoder (B, T, F) to labels (B, STEPS)


def make_search(args: argparse.Namespace, *, native: bool) -> Search:
    """:return: function that decodes a batch"""
    extern_data = {"data": {"dim": args.features}, "classes": {"dim": LABELS, "sparse": True}}
    options = {"extern_data": extern_data, "network": NETWORK, "behavior_version": 30}
    with tf.Graph().as_default(), kernels(native):
        net = TFNetwork(config=Config(options), train_flag=False, search_flag=True)
        net.construct_from_dict(NETWORK)
        data, decision = net.extern_data.data["data"], net.get_layer("decision").output.copy_as_batch_major()
        settings = tf1.ConfigProto(intra_op_parallelism_threads=args.threads, inter_op_parallelism_threads=args.threads)
        session = tf1.Session(config=settings)
        random = numpy.random.RandomState(1)
        for param in sorted(net.get_params_list(), key=lambda p: p.name):
            param.load(random.normal(0.0, 0.05, param.shape).astype("float32"), session)
        feeds = [data.raw_tensor, data.dims[1].dyn_size_ext.raw_tensor]
        feeds += [data.batch.dim] if tf.is_tensor(data.batch.dim) else []
        run = session.make_callable(decision.raw_tensor, feeds)

    def search(encoder: numpy.ndarray) -> numpy.ndarray:
        batch, frames, _ = encoder.shape
        return run(*[encoder, numpy.full([batch], frames, "int32"), numpy.int32(batch)][: len(feeds)])

    return search


def seconds_of(search: Search, encoder: numpy.ndarray) -> list[float]:
    """:return: time and processor time"""
    start = time.perf_counter(), time.process_time()
    search(encoder)
    return [time.perf_counter() - start[0], time.process_time() - start[1]]


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--features", type=int, default=2048)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--frames", type=int, nargs="+", default=[20, 150])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    use_cpus(args.threads)
    searches = {name: make_search(args, native=name == "native") for name in ("native", "without")}
    for frames in args.frames:
        encoder = numpy.random.RandomState(frames).normal(size=(args.batch, frames, args.features)).astype("float32")
        found = [search(encoder) for search in searches.values()]
        assert (found[0] != found[1]).any(axis=1).mean() <= 0.2, "other labels"  # some hypotheses are nearly as good
        times = [[seconds_of(search, encoder) for search in searches.values()] for _ in range(args.repeat)]
        (wall, processor), (other_wall, other_processor) = (
            [statistics.median(column) for column in zip(*rows, strict=True)] for rows in zip(*times, strict=True)
        )
        print(
            f"{frames:>5} frames: {wall:.2f} s, processor {processor:.2f} s; "
            f"as fast as without: {other_wall / wall:.2f} times, processor {other_processor / processor:.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
