"""
The attention decoder of `demos/g2p`, as the loop compiler makes it, against the same model written by hand in plain
TensorFlow: one training step (loss and all gradients) and one search. Prints ratios of time, of graph ops, and of ops
in each step of the loop, after checking that both compute the same. Then the time to construct loops of 10 to 300
layers. Run as `python -m benchmarks.loop [--batch 200] [--letters 9] [--phonemes 8] [--threads 1]`.

There is no dropout, so that both are the same. The encoder is given: what is measured is the decoder.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from benchmarks.cpus import use_cpus
from returnn.config import Config
from returnn.tf.network import TFNetwork

tf1 = tf.compat.v1

CONFIG = Path(__file__).parent.parent / "demos" / "g2p" / "attention.config"
NUM_ENCODER = 256  # features of the encoder
BEAM_SIZE = 12

Params = dict[str, Any]


@dataclass
class Model:
    """A graph, what it computes, and what that needs."""

    graph: tf.Graph
    fetches: dict[str, Any]
    feeds: list[tf.Tensor]  # encoder, its lengths, targets, their lengths
    params: Params  # variables by name

    def runner(self, values: Params, batch: list[numpy.ndarray], threads: int) -> Callable[[], dict[str, Any]]:
        """:return: function that runs one step with these values of the parameters"""
        config = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
        session = tf1.Session(graph=self.graph, config=config)
        with self.graph.as_default():
            for name, variable in self.params.items():
                variable.load(values[name], session)
        names = sorted(self.fetches)
        run = session.make_callable([self.fetches[name] for name in names], self.feeds)
        return lambda: dict(zip(names, run(*batch), strict=True))

    def num_ops(self) -> int:
        """:return: of the whole graph, without the bodies of loops and other functions"""
        return sum(op.type not in _NO_WORK for op in self.graph.get_operations())

    def ops_in_loops(self) -> list[int]:
        """:return: for each loop, in the order of size, ops in its body"""
        functions = {f.signature.name: f.node_def for f in self.graph.as_graph_def().library.function}
        loops = [op for op in self.graph.get_operations() if op.type in ("While", "StatelessWhile")]
        bodies = [functions[op.get_attr("body").name] for op in loops]
        return sorted((sum(node.op not in _NO_WORK for node in body) for body in bodies), reverse=True)


_NO_WORK = ("Const", "Identity", "NoOp", "Placeholder")


# Ours.


def decoder_of_demo(*, search: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """:return: network and `extern_data`, with the encoder as input, and without dropout"""
    config = Config()
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            config.load_file(str(CONFIG))
        finally:
            os.chdir(here)
    network = dict(config.typed_dict["network"])
    output = dict(network["output"])
    output["unit"] = {name: {k: v for k, v in desc.items() if k != "dropout"} for name, desc in output["unit"].items()}
    layers = {
        "encoder": {"class": "copy", "from": "data"},
        "enc_ctx": network["enc_ctx"],
        "output": output,
        "decision": {"class": "decide", "from": "output", "only_on_search": True, "is_output_layer": True},
    }
    if search:
        layers["scores"] = {"class": "choice_get_beam_scores", "from": "output", "is_output_layer": True}
    extern_data = {"data": {"dim": NUM_ENCODER, "shape": (None, NUM_ENCODER)},
                   "classes": config.typed_dict["extern_data"]["classes"]}  # fmt: skip
    return layers, extern_data


def ours(*, search: bool) -> Model:
    """:return: what the loop compiler makes"""
    layers, extern_data = decoder_of_demo(search=search)
    with tf.Graph().as_default() as graph:
        config = Config({"extern_data": extern_data, "network": layers, "behavior_version": 21})
        net = TFNetwork(config=config, train_flag=not search, search_flag=search)
        net.construct_from_dict(layers)
        data, classes = (net.extern_data.data[key] for key in ("data", "classes"))
        params = {p.name.split(":")[0]: p for p in net.get_params_list()}
        feeds = [data.raw_tensor, data.dims[1].dyn_size_ext.raw_tensor]
        if search:
            decision = net.get_layer("decision").output.copy_as_batch_major()
            scores = tf.reshape(net.get_layer("scores").output.raw_tensor, [-1, BEAM_SIZE])
            lengths = decision.get_sequence_lengths()
            fetches = {"labels": decision.raw_tensor, "lengths": lengths, "scores": scores}
        else:
            feeds += [classes.raw_tensor, classes.dims[1].dyn_size_ext.raw_tensor]
            losses = net.get_losses_initialized()[0].values()
            loss = tf.add_n([holder.get_loss_value() for holder in losses])
            fetches = {"loss": loss, **gradients(loss, {**params, "encoder": data.raw_tensor})}
        if tf.is_tensor(data.batch.dim):
            fed = data.batch.dim
            feeds.append(fed)
        return Model(graph, fetches, feeds, params)


def gradients(loss: tf.Tensor, targets: Params) -> dict[str, tf.Tensor]:
    """:return: gradient of each target that the loss depends on, by name"""
    grads = tf1.gradients(loss, list(targets.values()))
    return {f"grad {k}": tf.convert_to_tensor(g) for k, g in zip(targets, grads, strict=True) if g is not None}


# By hand.


class ByHand:
    """The decoder, as one would write it down for this model alone."""

    def __init__(self, values: Params) -> None:
        """
        :param values: of the parameters, by name
        """
        self.p = {name: tf1.get_variable(name, initializer=value, use_resource=True) for name, value in values.items()}
        self.encoder = tf1.placeholder(tf.float32, [None, None, NUM_ENCODER])
        self.lengths = tf1.placeholder(tf.int32, [None])
        self.batch_size = tf.shape(self.encoder)[0]
        self.context = self._linear("enc_ctx", self.encoder)
        mask = tf.sequence_mask(self.lengths, tf.shape(self.encoder)[1])
        self.outside = tf.where(mask, 0.0, float("-inf"))  # (B, S)

    def _linear(self, name: str, x: tf.Tensor) -> tf.Tensor:
        return tf.tensordot(x, self.p[f"{name}/W"], 1) + self.p[f"{name}/b"]

    def _of_step(self, name: str) -> tf.Variable:
        return self.p[f"output/rec/{name}"]

    def lstm(self, x: tf.Tensor, c: tf.Tensor, h: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """
        :param x: (N, F_in)
        :param c: (N, F), like h
        :return: new c and h
        """
        z = tf.matmul(tf.concat([x, h], axis=-1), self._of_step("s/rec/lstm_cell/kernel"))
        z = tf.nn.bias_add(z, self._of_step("s/rec/lstm_cell/bias"))
        i, j, f, o = tf.split(z, 4, axis=-1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return c, tf.tanh(c) * tf.sigmoid(o)

    def readout(self, s: tf.Tensor, phoneme: tf.Tensor, att: tf.Tensor) -> tf.Tensor:
        """:return: logits"""
        x = tf.concat([s, phoneme, att], axis=-1)
        flat = tf.reshape(x, [-1, x.shape[-1]])
        hidden = tf.tanh(tf.matmul(flat, self._of_step("readout/W")) + self._of_step("readout/b"))
        logits = tf.matmul(hidden, self._of_step("prob/W")) + self._of_step("prob/b")
        return tf.reshape(logits, tf.concat([tf.shape(x)[:-1], logits.shape[-1:]], axis=0))

    # Training.

    def training(self) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """:return: loss; what has to be fed"""
        targets, lengths = tf1.placeholder(tf.int32, [None, None]), tf1.placeholder(tf.int32, [None])
        phonemes = tf.gather(self._of_step("phoneme/W"), tf.transpose(targets)[:-1])
        before = tf.pad(phonemes, [[1, 0], [0, 0], [0, 0]])  # (T, B, F)
        s, att = self._all_frames(before)
        logits = self.readout(s, before, att)
        keep, other = 0.9, 0.1 / (logits.shape[-1] - 1)
        smoothed = tf.one_hot(tf.transpose(targets), logits.shape[-1], keep, other)
        losses = tf.nn.softmax_cross_entropy_with_logits(labels=smoothed, logits=logits)
        losses += keep * math.log(keep) + 0.1 * math.log(other)  # so that 0 is the best
        mask = tf.transpose(tf.sequence_mask(lengths, tf.shape(targets)[1]))
        return tf.reduce_sum(tf.where(mask, losses, 0.0)), [self.encoder, self.lengths, targets, lengths]

    def _all_frames(self, before: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """:return: output of the LSTM, and attention, of all frames"""
        num, batch = tf.shape(before)[0], self.batch_size
        inputs = tf.TensorArray(tf.float32, size=num, element_shape=[None, 64]).unstack(before)
        arrays = [tf.TensorArray(tf.float32, size=num, element_shape=[None, size]) for size in (256, NUM_ENCODER)]
        sizes = (256, 256, NUM_ENCODER)
        state = [*(tf.zeros([batch, size]) for size in sizes), tf.zeros_like(self.outside)]

        def step(t: Any, c: Any, h: Any, att: Any, sum_weights: Any, s_all: Any, att_all: Any) -> list[Any]:
            c, h = self.lstm(tf.concat([inputs.read(t), att], axis=-1), c, h)
            feedback = sum_weights[..., None] * self._of_step("feedback/W")
            query = tf.matmul(h, self._of_step("s_ctx/W"))
            hidden = tf.tanh(self.context + feedback + query[:, None])
            energy = tf.linalg.matvec(hidden, self._of_step("energy/W")[:, 0])
            weights = tf.nn.softmax(energy + self.outside)
            att = tf.matmul(weights[:, None], self.encoder)[:, 0]
            return [t + 1, c, h, att, sum_weights + weights, s_all.write(t, h), att_all.write(t, att)]

        shapes = [tf.TensorShape([None, size]) for size in sizes]
        scalar = tf.TensorShape([])
        *_, s_all, att_all = tf1.while_loop(
            lambda t, *_: t < num, step, [tf.constant(0), *state, *arrays],
            shape_invariants=[scalar, *shapes, tf.TensorShape([None, None]), scalar, scalar],
        )  # fmt: skip
        return s_all.stack(), att_all.stack()

    # Search.

    def search(self, num_labels_of: tf.Tensor | None = None) -> dict[str, tf.Tensor]:
        """
        :param num_labels_of: (B,), after how many labels hypotheses end; without, by label 0
        :return: the best labels (B, T), their lengths, and the scores of all hypotheses (B, K)
        """
        batch, beam = self.batch_size, BEAM_SIZE
        longest = tf.shape(self.encoder)[1] + 8 if num_labels_of is None else tf.constant(100)
        num_labels = self._of_step("prob/W").shape[-1]
        only_end = tf.where(tf.equal(tf.range(num_labels), 0), 0.0, -1e30)
        context, outside = self.context[:, None], self.outside[:, None]
        state = [
            tf.constant(0), tf.zeros([batch, beam, 256]), tf.zeros([batch, beam, 256]),
            tf.zeros([batch, beam, NUM_ENCODER]), tf.zeros([batch, beam, tf.shape(self.encoder)[1]]),
            tf.zeros([batch, beam, 64]), tf.zeros([batch, beam], tf.bool), tf.zeros([batch, beam], tf.int32),
            tf.tile(tf.where(tf.equal(tf.range(beam), 0), 0.0, float("-inf"))[None], [batch, 1]),
        ]  # fmt: skip
        arrays = [tf.TensorArray(tf.int32, size=0, dynamic_size=True, element_shape=[None, beam]) for _ in range(2)]

        def step(t: Any, c: Any, h: Any, att: Any, sums: Any, phoneme: Any, ended: Any, lengths: Any, scores: Any,
                 labels_all: Any, sources_all: Any) -> list[Any]:  # fmt: skip
            x = tf.concat([phoneme, att], axis=-1)
            c, h = self.lstm(*(tf.reshape(value, [-1, value.shape[-1]]) for value in (x, c, h)))
            c, h = (tf.reshape(value, [-1, beam, 256]) for value in (c, h))
            query = tf.tensordot(h, self._of_step("s_ctx/W"), 1)[:, :, None]
            hidden = tf.tanh(context + sums[..., None] * self._of_step("feedback/W") + query)
            weights = tf.nn.softmax(tf.linalg.matvec(hidden, self._of_step("energy/W")[:, 0]) + outside)
            att = tf.matmul(weights, self.encoder)
            log_prob = tf.nn.log_softmax(self.readout(h, phoneme, att))
            step_scores = tf.where(ended[..., None], only_end, log_prob)
            time_step = tf.cast(t, tf.float32)
            growth = (time_step + 1.0) / tf.maximum(time_step, 1.0)
            total = step_scores + (scores * tf.where(ended, growth, 1.0))[..., None]
            scores, best = tf.math.top_k(tf.reshape(total, [-1, beam * num_labels]), beam)
            sources, labels = best // num_labels, best % num_labels
            c, h, att, sums, ended, lengths = (
                tf.gather(value, sources, axis=1, batch_dims=1) for value in (c, h, att, sums + weights, ended, lengths)
            )
            ended |= tf.equal(labels, 0) if num_labels_of is None else (t >= num_labels_of)[:, None]
            lengths += tf.cast(~ended, tf.int32)
            phoneme = tf.gather(self._of_step("phoneme/W"), labels)
            arrays = labels_all.write(t, labels), sources_all.write(t, sources)
            return [t + 1, c, h, att, sums, phoneme, ended, lengths, scores, *arrays]

        shapes = [value.shape for value in state]
        *_, lengths, scores, labels, sources = tf1.while_loop(
            lambda t, *values: (t < longest) & ~tf.reduce_all(values[5]), step, [*state, *arrays],
            shape_invariants=[*shapes, tf.TensorShape([]), tf.TensorShape([])], back_prop=False,
        )  # fmt: skip
        best = tf.argmax(scores, axis=-1, output_type=tf.int32)
        scores = scores / (tf.cast(tf.reduce_max(lengths), tf.float32) + 1.0)
        lengths = tf.gather(lengths, best, batch_dims=1)
        return {
            "labels": self._traced_back(labels.stack(), sources.stack(), best),
            "lengths": lengths,
            "scores": scores,
        }

    @staticmethod
    def _traced_back(labels: tf.Tensor, sources: tf.Tensor, best: tf.Tensor) -> tf.Tensor:
        """:return: (B, T)"""

        def step(index: Any, frame: Any) -> Any:
            labels, sources = frame
            return tf.gather(sources, index[0], batch_dims=1), tf.gather(labels, index[0], batch_dims=1)

        _, traced = tf.scan(step, (labels, sources), (best, best), reverse=True)
        return tf.transpose(traced)


def by_hand(values: Params, *, search: bool) -> Model:
    """:return: the same model in plain TensorFlow"""
    with tf.Graph().as_default() as graph:
        model = ByHand(values)
        if search:
            return Model(graph, model.search(), [model.encoder, model.lengths], model.p)
        loss, feeds = model.training()
        grads = gradients(loss, {**model.p, "encoder": model.encoder})
        return Model(graph, {"loss": loss, **grads}, feeds, model.p)


# The comparison.


def example_batch(args: argparse.Namespace) -> list[numpy.ndarray]:
    """:return: encoder, its lengths, targets, their lengths"""
    rnd = numpy.random.RandomState(1)
    lengths = rnd.randint(max(args.letters - 3, 1), args.letters + 1, [args.batch]).astype("int32")
    target_lengths = rnd.randint(max(args.phonemes - 3, 1), args.phonemes + 1, [args.batch]).astype("int32")
    lengths[0], target_lengths[0] = args.letters, args.phonemes
    encoder = rnd.normal(0.0, 0.5, [args.batch, args.letters, NUM_ENCODER]).astype("float32")
    targets = rnd.randint(1, 40, [args.batch, args.phonemes]).astype("int32")
    return [encoder, lengths, targets, target_lengths]


def example_params(model: Model) -> Params:
    """:return: values by name"""
    rnd = numpy.random.RandomState(2)
    return {
        name: rnd.normal(0.0, shape[0] ** -0.5, shape).astype("float32")
        for name, shape in sorted((name, tuple(p.shape)) for name, p in model.params.items())
    }


def check_same(actual: dict[str, Any], expected: dict[str, Any], lengths_of_labels: bool) -> None:
    """Raises an error if both do not compute the same."""
    assert set(actual) == set(expected), (sorted(actual), sorted(expected))
    for name in sorted(expected):
        a, b = actual[name], expected[name]
        if name == "labels" and lengths_of_labels:
            a, b = ([row[:n] for row, n in zip(x, expected["lengths"], strict=True)] for x in (a, b))
            a, b = numpy.concatenate(a), numpy.concatenate(b)
        numpy.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4, err_msg=name)


def median_times(steps: list[Callable[[], object]], repeat: int) -> list[list[float]]:
    """
    :return: of each, median seconds of time and of processor time. They take turns, so that other load on the machine
        meets all of them
    """
    times: list[list[list[float]]] = [[] for _ in steps]
    for i in range(repeat + 2):
        for step, seconds in zip(steps, times, strict=True):
            start = time.perf_counter(), time.process_time()
            step()
            if i >= 2:
                seconds.append([time.perf_counter() - start[0], time.process_time() - start[1]])
    return [[statistics.median(values) for values in zip(*seconds, strict=True)] for seconds in times]


def compare(args: argparse.Namespace, *, search: bool) -> None:
    """Prints one row for each of both, and the ratios."""
    batch = example_batch(args)
    mine = ours(search=search)
    values = example_params(mine)
    other = by_hand(values, search=search)
    feeds = batch[:2] if search else batch
    with_size = [*feeds, numpy.int32(len(batch[0]))] if len(mine.feeds) > len(feeds) else feeds
    steps = [mine.runner(values, with_size, args.threads), other.runner(values, feeds, args.threads)]
    check_same(steps[0](), steps[1](), lengths_of_labels=search)
    seconds = median_times(steps, args.repeat)
    rows = [[*s, m.num_ops(), *m.ops_in_loops()] for s, m in zip(seconds, (mine, other), strict=True)]
    print("search" if search else "training")
    for name, (wall, processor, num_ops, *in_loops) in zip(("ours", "by hand"), rows, strict=True):
        loops = " ".join(f"{count:>5}" for count in in_loops)
        times = f"{wall * 1000:>9.1f} ms, processor {processor * 1000:>9.1f} ms"
        print(f"  {name:<8} {times}  {num_ops:>6} ops in the graph  ops in a step: {loops}")
    wall, processor, num_ops, *in_loops = (a / b for a, b in zip(*rows, strict=False))
    loops = " ".join(f"{ratio:>5.2f}" for ratio in in_loops)
    print(f"  {'ratio':<8} {wall:>9.2f}     {'':<10}{processor:>9.2f}     {num_ops:>6.2f} {'':<31}{loops}", flush=True)


def construction_time(num_layers: int) -> float:
    """:return: seconds to construct a loop of so many layers, each of which depends on the frame before"""
    unit: dict[str, Any] = {"l0": {"class": "combine", "kind": "add", "from": ["data:source", "prev:output"]}}
    for i in range(1, num_layers - 1):
        unit[f"l{i}"] = {"class": "linear", "activation": "tanh", "n_out": 8, "from": [f"l{i - 1}", f"prev:l{i}"]}
    unit["output"] = {"class": "copy", "from": f"l{num_layers - 2}"}
    net_dict = {"output": {"class": "rec", "from": "data", "unit": unit}}
    config = Config({"extern_data": {"data": {"dim": 8}}, "network": net_dict, "behavior_version": 21})
    with tf.Graph().as_default():
        start = time.perf_counter()
        net = TFNetwork(config=config, train_flag=True)
        net.construct_from_dict(net_dict)
        return time.perf_counter() - start


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--letters", type=int, default=9)
    parser.add_argument("--phonemes", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=15)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--only", choices=["training", "search", "construction"])
    args = parser.parse_args()
    use_cpus(args.threads)
    if args.only in (None, "training"):
        compare(args, search=False)
    if args.only in (None, "search"):
        compare(args, search=True)
    if args.only in (None, "construction"):
        construction_time(5)
        for number in (10, 30, 100, 300):
            seconds = construction_time(number)
            print(
                f"construction of {number:>3} layers: {seconds:>6.2f} s, {1000 * seconds / number:>5.1f} ms per layer"
            )


if __name__ == "__main__":
    main()
