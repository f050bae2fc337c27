"""
Whole training steps of net dicts against the same models by hand in plain TensorFlow: feeding, loss, gradients, their
clipping by the global norm, and Adam. They take turns, so that other load on the machine meets both; the median counts.

    python -m benchmarks.training_steps [--models transformer,blstm_ctc] [--threads 1] [--repeat 10] [--profile]

"transformer" is that of `demos/translation`, "blstm_ctc" some bidirectional LSTMs with CTC. First, it is checked that
both have the same losses in some steps, without dropout. `--profile` prints which operations take how long.
"""

from __future__ import annotations

import argparse
import math
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parent.parent / "demos" / "translation"))

import numpy
import tensorflow as tf
from transformer import Transformer

from benchmarks.cpus import use_cpus
from returnn.config import Config, set_global_config
from returnn.tensor import batch_dim
from returnn.tf.engine.session.built_network import build_network
from returnn.tf.frontend_low_level.raw_random import run_seed_feed
from returnn.util.behavior_version import BehaviorVersion

tf1 = tf.compat.v1

Arrays = dict[str, numpy.ndarray]  # by data key, and lengths by KEY_seq_lens
NetDict = dict[str, Any]
KEYS = ("data", "data_seq_lens", "classes", "classes_seq_lens")
LEARNING_RATE, MAX_NORM = 0.001, 1.0


@dataclass
class Steps:
    """A graph with everything that a training step needs."""

    session: tf1.Session
    fetches: list[Any]  # the update, and the loss
    placeholders: dict[str, tf.Tensor]  # for `KEYS`
    params: dict[str, tf.Variable]  # by name
    constant_feed: dict[Any, Any]
    num_seqs: tf.Tensor | None = None  # to be fed as well

    def step(self, arrays: Arrays, **options: Any) -> float:
        """:return: loss, the sum over labels or sequences"""
        return float(self.session.run(self.fetches, self._feed(arrays), **options)[1])

    def _feed(self, arrays: Arrays) -> dict[Any, Any]:
        feed = {**self.constant_feed, **{self.placeholders[key]: arrays[key] for key in KEYS}}
        if self.num_seqs is not None:
            feed[self.num_seqs] = len(arrays["data"])
        return feed

    def loss_and_gradients(self, arrays: Arrays) -> dict[str, numpy.ndarray]:
        """:return: of this batch, by name of the parameter"""
        loss = self.fetches[1]
        with self.session.graph.as_default():
            grads = tf1.gradients(loss, list(self.params.values()))
            fetches = {name: tf.convert_to_tensor(grad) for name, grad in zip(self.params, grads, strict=True)}
            found: dict[str, numpy.ndarray] = self.session.run({"loss": loss, **fetches}, self._feed(arrays))
        return found

    def load(self, values: dict[str, numpy.ndarray]) -> None:
        """Sets all parameters."""
        with self.session.graph.as_default():
            self.session.run(tf1.global_variables_initializer())
            for name, variable in self.params.items():
                variable.load(values[name], self.session)

    def num_ops(self) -> int:
        """:return: those that a step runs, with those that TensorFlow's optimizer of graphs removes"""
        ops, stack = set(), [fetch.op if tf.is_tensor(fetch) else fetch for fetch in self.fetches]
        while stack:
            op = stack.pop()
            if op not in ops:
                ops.add(op)
                stack += [x.op for x in op.inputs] + list(op.control_inputs)
        return sum(op.type not in ("Const", "Identity", "NoOp", "Placeholder") for op in ops)

    def profile(self, arrays: Arrays, num: int) -> None:
        """Prints seconds by type of operation."""
        totals: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        options = tf1.RunOptions(trace_level=tf1.RunOptions.FULL_TRACE)
        for _ in range(num):
            metadata = tf1.RunMetadata()
            self.step(arrays, options=options, run_metadata=metadata)
            for device in metadata.step_stats.dev_stats:
                for node in device.node_stats:
                    kind = node.timeline_label.split(" = ")[-1].split("(")[0]
                    totals[kind][0] += node.op_end_rel_micros / 1000 / num
                    totals[kind][1] += 1 / num
        for kind, (millis, count) in sorted(totals.items(), key=lambda item: -item[1][0])[:25]:
            print(f"    {kind:<40}{millis:>9.2f} ms {count:>7.0f} ops")


def make_session(graph: tf.Graph, threads: int) -> tf1.Session:
    """:return: with this number of threads"""
    config = tf1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    return tf1.Session(graph=graph, config=config)


def of_net_dict(net_dict: NetDict, extern_data: dict[str, Any], threads: int) -> Steps:
    """:return: training step of a net dict, as the engine has it"""
    config = Config({
        "extern_data": extern_data, "network": net_dict, "optimizer": {"class": "adam"},
        "learning_rate": LEARNING_RATE, "gradient_clip_global_norm": MAX_NORM,
    })  # fmt: skip
    set_global_config(config)
    built = build_network(config, net_dict, epoch=1, is_training=True, eval_flag=True, search_flag=False)
    with built.graph.as_default():
        losses = [holder.get_loss_value() for holder in built.network.get_losses_initialized()[0].values()]
        fetches = [built.updater.get_optim_op(), tf.add_n(losses)]
        tensors = {key: built.network.extern_data.data[key] for key in ("data", "classes")}
        placeholders = {key: tensor.raw_tensor for key, tensor in tensors.items()}
        placeholders |= {f"{key}_seq_lens": x.dims[1].dyn_size_ext.raw_tensor for key, x in tensors.items()}
        num_seqs = batch_dim.dyn_size if batch_dim.dyn_size.op.type.startswith("Placeholder") else None
        session = make_session(built.graph, threads)
        feed = {**built.flags_feed(train_flag=True), **run_seed_feed(built.graph, [1, 1])}
        session.run(tf1.global_variables_initializer(), run_seed_feed(built.graph, [1]))
    params = {p.name.split(":")[0]: p for p in built.network.get_params_list()}
    return Steps(session, fetches, placeholders, params, feed, num_seqs)


# By hand.


class ByHand:
    """What models of one day's work have in common. Losses are normalized by their number, as ours are."""

    def __init__(self, values: dict[str, numpy.ndarray], data_shape: list[int | None], dtype: tf.DType) -> None:
        """
        :param values: initial values of the parameters by name
        :param data_shape: of the input
        :param dtype: of the input
        """
        self.p = {name: tf1.get_variable(name, initializer=value, use_resource=True) for name, value in values.items()}
        self.data = tf1.placeholder(dtype, data_shape)
        self.lengths = tf1.placeholder(tf.int32, [None])
        self.targets = tf1.placeholder(tf.int32, [None, None])
        self.target_lengths = tf1.placeholder(tf.int32, [None])

    def linear(self, name: str, x: tf.Tensor) -> tf.Tensor:
        """:return: of all but the last axis, on one matrix"""
        weights = self.p[f"{name}/W"]
        y = tf.matmul(tf.reshape(x, [-1, weights.shape[0]]), weights)
        if f"{name}/b" in self.p:
            y = tf.nn.bias_add(y, self.p[f"{name}/b"])
        return tf.reshape(y, tf.concat([tf.shape(x)[:-1], weights.shape[1:]], axis=0))

    def steps(self, loss: tf.Tensor, norm: tf.Tensor, threads: int) -> Steps:
        """:return: training step with this loss"""
        variables = list(self.p.values())
        grads, _ = tf.clip_by_global_norm(tf1.gradients(loss / tf.cast(norm, tf.float32), variables), MAX_NORM)
        optimizer = tf1.train.AdamOptimizer(LEARNING_RATE)
        update = optimizer.apply_gradients(list(zip(grads, variables, strict=True)))
        placeholders = [self.data, self.lengths, self.targets, self.target_lengths]
        session = make_session(tf1.get_default_graph(), threads)
        session.run(tf1.global_variables_initializer())
        return Steps(session, [update, loss], dict(zip(KEYS, placeholders, strict=True)), self.p, {})


class TransformerByHand(ByHand):
    """The one of `demos/translation`, in training."""

    def __init__(self, sizes: Transformer, values: dict[str, numpy.ndarray]) -> None:
        """
        :param sizes: of all parts
        :param values: of the parameters
        """
        super().__init__(values, [None, None], tf.int32)
        self.sizes = sizes

    def loss(self) -> tuple[tf.Tensor, tf.Tensor]:
        """:return: sum over all labels, and their number"""
        outside = self._outside(self.lengths, tf.shape(self.data)[1])
        x = self._embedded("source_embed", self.data)
        for i in range(self.sizes.encoder_layers):
            x = self._self_attention(f"enc{i}_self", x, outside)
            x = self._feed_forward(f"enc{i}_ff", x)
        encoder = self._norm("encoder", x)
        num = tf.shape(self.targets)[1]
        later = tf.where(tf.linalg.band_part(tf.ones([num, num], tf.bool), -1, 0), 0.0, float("-inf"))[None, None]
        x = self._embedded("output/rec/target_embed", tf.pad(self.targets[:, :-1], [[0, 0], [1, 0]]))
        for i in range(self.sizes.decoder_layers):
            x = self._self_attention(f"output/rec/dec{i}_self", x, later)
            x = self._cross_attention(i, x, encoder, outside)
            x = self._feed_forward(f"output/rec/dec{i}_ff", x)
        logits = self.linear("output/rec/prob", self._norm("output/rec/decoder", x))
        smoothing, num_labels = self.sizes.label_smoothing, logits.shape[-1]
        keep, rest = 1.0 - smoothing, smoothing / (num_labels - 1)
        losses = tf.nn.softmax_cross_entropy_with_logits(tf.one_hot(self.targets, num_labels, keep, rest), logits)
        losses += keep * math.log(keep) + smoothing * math.log(rest)  # so that 0 is the best
        mask = tf.sequence_mask(self.target_lengths, num)
        return tf.reduce_sum(tf.where(mask, losses, 0.0)), tf.reduce_sum(self.target_lengths)

    def _embedded(self, name: str, labels: tf.Tensor) -> tf.Tensor:
        size = self.sizes.size
        rates = tf.exp(tf.range(size // 2, dtype=tf.float32) * -(numpy.log(10000.0) / (size // 2 - 1)))
        angles = tf.range(tf.shape(labels)[1], dtype=tf.float32)[:, None] * rates
        positions = tf.concat([tf.sin(angles), tf.cos(angles)], axis=-1)
        return self._dropout(tf.gather(self.p[f"{name}/W"], labels) * size**0.5 + positions)

    def _dropout(self, x: tf.Tensor) -> tf.Tensor:
        return tf.nn.dropout(x, self.sizes.dropout) if self.sizes.dropout else x

    def _norm(self, name: str, x: tf.Tensor) -> tf.Tensor:
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return tf.nn.batch_normalization(x, mean, variance, self.p[f"{name}/bias"], self.p[f"{name}/scale"], 1e-6)

    @staticmethod
    def _outside(lengths: tf.Tensor, num: tf.Tensor) -> tf.Tensor:
        return tf.where(tf.sequence_mask(lengths, num), 0.0, float("-inf"))[:, None, None]

    def _by_head(self, x: tf.Tensor) -> tf.Tensor:
        """:return: (B, T, F) as (B, heads, T, F / heads)"""
        shape = tf.shape(x)
        heads = self.sizes.heads
        return tf.transpose(tf.reshape(x, [shape[0], shape[1], heads, self.sizes.size // heads]), [0, 2, 1, 3])

    def _attention(self, query: tf.Tensor, key: tf.Tensor, value: tf.Tensor, outside: tf.Tensor) -> tf.Tensor:
        query *= (self.sizes.size // self.sizes.heads) ** -0.5
        weights = self._dropout(tf.nn.softmax(tf.matmul(query, key, transpose_b=True) + outside))
        merged = tf.transpose(tf.matmul(weights, value), [0, 2, 1, 3])
        return tf.reshape(merged, tf.concat([tf.shape(merged)[:2], [self.sizes.size]], axis=0))

    def _self_attention(self, name: str, x: tf.Tensor, outside: tf.Tensor) -> tf.Tensor:
        normed = self._norm(f"{name}_norm", x)
        weights = self.p[f"{name}_att/QKV"]  # query, key and value of a head side by side
        flat = tf.matmul(tf.reshape(normed, [-1, self.sizes.size]), weights)
        shape = tf.shape(x)
        by_head = tf.reshape(flat, [shape[0], shape[1], self.sizes.heads, 3 * self.sizes.size // self.sizes.heads])
        parts = tf.split(tf.transpose(by_head, [0, 2, 1, 3]), 3, axis=-1)
        return x + self._dropout(self.linear(f"{name}_out", self._attention(*parts, outside)))

    def _cross_attention(self, i: int, x: tf.Tensor, encoder: tf.Tensor, outside: tf.Tensor) -> tf.Tensor:
        name = f"output/rec/dec{i}_cross"
        query = self._by_head(self.linear(f"{name}_query_all", self._norm(f"{name}_norm", x)))
        key, value = (self._by_head(self.linear(f"dec{i}_{kind}_all", encoder)) for kind in ("key", "value"))
        return x + self._dropout(self.linear(f"{name}_out", self._attention(query, key, value, outside)))

    def _feed_forward(self, name: str, x: tf.Tensor) -> tf.Tensor:
        hidden = tf.nn.relu(self.linear(f"{name}_hidden", self._norm(f"{name}_norm", x)))
        return x + self._dropout(self.linear(f"{name}_out", self._dropout(hidden)))


class BlstmByHand(ByHand):
    """Bidirectional LSTMs, each a loop over frames whose input is projected before it, with TensorFlow's CTC."""

    def __init__(self, num_layers: int, num_features: int, values: dict[str, numpy.ndarray]) -> None:
        """
        :param num_layers: of which each has two directions
        :param num_features: of the input
        :param values: of the parameters
        """
        super().__init__(values, [None, None, num_features], tf.float32)
        self.num_layers = num_layers

    def loss(self) -> tuple[tf.Tensor, tf.Tensor]:
        """:return: sum over all sequences, and the number of labels"""
        x = tf.transpose(self.data, [1, 0, 2])
        mask = tf.transpose(tf.sequence_mask(self.lengths, tf.shape(self.data)[1], tf.float32))[..., None]
        for i in range(self.num_layers):
            forward = self._lstm(f"fw{i}/rec", x) * mask
            backward = self._reversed(self._lstm(f"bw{i}/rec", self._reversed(x))) * mask
            x = tf.concat([forward, backward], axis=-1)
        labels = tf.where(tf.sequence_mask(self.target_lengths, tf.shape(self.targets)[1]))
        targets = tf.SparseTensor(labels, tf.gather_nd(self.targets, labels), tf.shape(self.targets, tf.int64))
        losses = tf1.nn.ctc_loss(targets, self.linear("output", x), self.lengths)
        return tf.reduce_sum(losses), tf.reduce_sum(self.target_lengths)

    def _reversed(self, x: tf.Tensor) -> tf.Tensor:
        return tf.reverse_sequence(x, self.lengths, seq_axis=0, batch_axis=1)

    def _lstm(self, name: str, x: tf.Tensor) -> tf.Tensor:
        weights = self.p[f"{name}/W_re"]
        size = weights.shape[0]
        z_all = tf.tensordot(x, self.p[f"{name}/W"], 1) + self.p[f"{name}/b"]
        num, batch = tf.shape(x)[0], tf.shape(x)[1]
        inputs = tf.TensorArray(tf.float32, size=num, element_shape=[None, 4 * size]).unstack(z_all)
        outputs = tf.TensorArray(tf.float32, size=num, element_shape=[None, size])
        zeros = tf.ensure_shape(tf.zeros([batch, size]), [None, size])

        def step(t: Any, c: Any, h: Any, outputs: Any) -> list[Any]:
            j, i, f, o = tf.split(inputs.read(t) + tf.matmul(h, weights), 4, axis=-1)
            c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(j)
            h = tf.sigmoid(o) * tf.tanh(c)
            return [t + 1, c, h, outputs.write(t, h)]

        return tf1.while_loop(lambda t, *_: t < num, step, [tf.constant(0), zeros, zeros, outputs])[-1].stack()


# The models.


@dataclass(frozen=True)
class Task:
    """A model in both ways, and batches for it."""

    net_dict: NetDict
    extern_data: dict[str, Any]
    by_hand: Callable[[dict[str, numpy.ndarray]], Any]
    batches: list[Arrays]


def transformer_task(dropout: float, args: argparse.Namespace) -> Task:
    """:return: batches of about 1000 labels on both sides"""
    sizes = Transformer(
        size=args.size, hidden=4 * args.size, heads=4, encoder_layers=args.layers, decoder_layers=args.layers,
        dropout=dropout,
    )  # fmt: skip
    extern_data = {key: {"dim": args.labels, "sparse": True, "shape": (None,)} for key in ("data", "classes")}
    random = numpy.random.RandomState(1)
    batches = [labels_of_both(random, 40, 25, args.labels), labels_of_both(random, 80, 12, args.labels)]
    return Task(sizes.network(), extern_data, lambda values: TransformerByHand(sizes, values), batches)


def labels_of_both(random: numpy.random.RandomState, num_seqs: int, longest: int, num_labels: int) -> Arrays:
    """:return: a batch of sequences that are about equally long"""
    batch: Arrays = {}
    for key in ("data", "classes"):
        lengths = random.randint(longest - 4, longest + 1, [num_seqs]).astype("int32")
        lengths[0] = longest
        batch[key] = random.randint(1, num_labels, [num_seqs, longest]).astype("int32")
        batch[f"{key}_seq_lens"] = lengths
    return batch


def blstm_ctc_task(dropout: float, args: argparse.Namespace) -> Task:
    """:return: batches of 16 sequences; there is no dropout"""
    num_features, num_labels = 40, 80
    net: NetDict = {}
    source: str | list[str] = "data"
    for i in range(args.layers):
        names = [f"fw{i}", f"bw{i}"]
        for name, direction in zip(names, (1, -1), strict=True):
            net[name] = {"class": "rec", "unit": "nativelstm2", "n_out": args.size, "direction": direction,
                         "from": source}  # fmt: skip
        source = names
    net["output"] = {"class": "softmax", "from": source, "target": "classes", "loss": "ctc",
                     "loss_opts": {"beam_width": 1}}  # fmt: skip
    extern_data = {
        "data": {"dim": num_features, "shape": (None, num_features)},
        "classes": {"dim": num_labels, "sparse": True, "shape": (None,)},
    }
    random = numpy.random.RandomState(1)
    batches = []
    for longest in (60, 120):
        lengths = random.randint(longest * 3 // 4, longest + 1, [16]).astype("int32")
        lengths[0] = longest
        batch = {"data": random.normal(size=[16, longest, num_features]).astype("float32"), "data_seq_lens": lengths}
        batch["classes"] = random.randint(0, num_labels, [16, longest // 6]).astype("int32")
        batch["classes_seq_lens"] = random.randint(longest // 10, longest // 6 + 1, [16]).astype("int32")
        batch["classes_seq_lens"][0] = longest // 6
        batches.append(batch)
    return Task(net, extern_data, lambda values: BlstmByHand(args.layers, num_features, values), batches)


TASKS = {"transformer": transformer_task, "blstm_ctc": blstm_ctc_task}


# Measurement.


def both(task: Task, threads: int) -> tuple[Steps, Steps]:
    """:return: the net dict, and by hand, with the same parameters"""
    ours = of_net_dict(task.net_dict, task.extern_data, threads)
    random = numpy.random.RandomState(2)
    values: dict[str, numpy.ndarray] = {}
    for name, variable in sorted(ours.params.items()):
        shape = tuple(variable.shape)
        scale = shape[0] ** -0.5 if len(shape) > 1 else 0.1
        values[name] = random.normal(float(name.endswith("/scale")), scale, shape).astype("float32")
    ours.load(values)
    with tf.Graph().as_default():
        model = task.by_hand(values)
        by_hand = model.steps(*model.loss(), threads)
    return ours, by_hand


def check_same(task: Task, threads: int) -> None:
    """
    :raises AssertionError: if losses or gradients of some batch differ. What Adam makes of them does not say much: it
        divides rounding errors by their own size where a gradient is 0. Gradients are compared as a whole: of millions
        of sums before a ReLU, some are 0 but for rounding, and such a unit has a gradient in one way alone
    """
    of_both = both(task, threads)
    for arrays in task.batches:
        found, expected = (steps.loss_and_gradients(arrays) for steps in of_both)
        numpy.testing.assert_allclose(found.pop("loss"), expected.pop("loss"), rtol=1e-5)
        for name, value in expected.items():
            difference, size = numpy.linalg.norm(found[name] - value), numpy.linalg.norm(value)
            assert difference <= 0.01 * size + 1e-5 * value.size**0.5, f"{name}: {difference} of {size}"


def seconds_of_steps(steps: Steps, batches: list[Arrays]) -> list[float]:
    """:return: processor time and time of all batches"""
    before = time.process_time(), time.perf_counter()
    for arrays in batches:
        steps.step(arrays)
    return [time.process_time() - before[0], time.perf_counter() - before[1]]


def compare(name: str, args: argparse.Namespace) -> None:
    """Prints a row for each of both, and the ratios."""
    check_same(TASKS[name](0.0, args), args.threads)
    task = TASKS[name](args.dropout, args)
    ways = dict(zip(("net dict", "by hand"), both(task, args.threads), strict=True))
    seconds: dict[str, list[list[float]]] = {way: [] for way in ways}
    for turn in range(args.repeat + 1):
        for way, steps in ways.items():
            found = seconds_of_steps(steps, task.batches)
            if turn:  # the first turn warms up
                seconds[way].append(found)
    print(f"{name}, size {args.size}, {args.layers} layers, {args.threads} threads")
    for way, steps in ways.items():
        processor, wall = (1000 * statistics.median(column) for column in zip(*seconds[way], strict=True))
        print(f"  {way:<10}{processor:>9.1f} ms processor{wall:>9.1f} ms{steps.num_ops():>7} ops")
        if args.profile:
            steps.profile(task.batches[0], 3)
    pairs = list(zip(seconds["net dict"], seconds["by hand"], strict=True))
    ratios = [statistics.median(a[k] / b[k] for a, b in pairs) for k in (0, 1)]
    print(f"  {'ratio':<10}{ratios[0]:>9.2f}{'':<13}{ratios[1]:>9.2f}", flush=True)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(TASKS))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--size", type=int, default=256, help="of the Transformer, or of one direction of an LSTM")
    parser.add_argument("--layers", type=int, default=2, help="of the encoder, and of the decoder if there is one")
    parser.add_argument("--labels", type=int, default=4000, help="of translation")
    parser.add_argument("--dropout", type=float, default=0.1, help="of the Transformer")
    parser.add_argument("--profile", action="store_true", help="print the operations that take longest")
    args = parser.parse_args()
    BehaviorVersion.set(30)
    use_cpus(args.threads)
    for name in args.models.split(","):
        compare(name, args)


if __name__ == "__main__":
    main()
