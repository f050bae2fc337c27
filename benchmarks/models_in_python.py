"""
Models written in Python against plain PyTorch: one training step (loss, gradients, update) of all in turns.

    python -m benchmarks.models_in_python [--threads 1] [--repeat 10] [--models g2p,conformer] [--cpu-time]

"g2p" is the model of `demos/g2p`, with the sizes of its configs: in Python (`g2p_rf.py`) on PyTorch and on TensorFlow,
as a net dict, and written by hand in plain PyTorch. "conformer" is a Conformer encoder with CTC on log-mel features:
`rf.encoder.conformer` on both backends, and plain PyTorch. Sequences have different lengths, and batches take turns.

First, without dropout, it is checked that the models on PyTorch have the loss of the one by hand. The steps are those
of the engines, without loading of data. Printed are sequences per second by the median, and the median of the ratio to
plain PyTorch in the same turn (aim for the Conformer on PyTorch: at most 1.05). On a machine that does other things as
well, `--cpu-time` takes the time of all threads of this process.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).parent.parent / "demos" / "g2p"))

import g2p_data
import g2p_network
import g2p_rf
import numpy
import tensorflow as tf
import torch

import returnn.frontend as rf
from benchmarks.plain_torch import conformer as plain_conformer
from benchmarks.plain_torch import g2p as plain_g2p
from returnn.config import Config, set_global_config
from returnn.engine.frontend.batch_arrays import ArrayBatch
from returnn.engine.frontend.runner import ModelRunner, Step
from returnn.frontend.encoder.conformer import ConformerConvSubsample, ConformerEncoder
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.tf.engine.session.built_network import build_network
from returnn.tf.engine_rf.runner import GraphRunner
from returnn.tf.frontend_low_level.raw_random import run_seed_feed
from returnn.torch.engine.runner import TorchRunner
from returnn.util.behavior_version import BehaviorVersion

Arrays = dict[str, numpy.ndarray]  # by data key, and lengths by KEY_seq_lens
TrainStep = Callable[[Arrays], float]  # -> loss

G2P = {
    "embedding": 64, "encoder": 128, "decoder": 256, "attention": 128, "encoder_dropout": 0.1, "output_dropout": 0.2,
}  # fmt: skip
CONFORMER = {"size": 256, "num_layers": 4, "num_heads": 4, "kernel_size": 15, "channels": (32, 64), "dropout": 0.1}
NUM_MEL, NUM_LABELS = 80, 100
LEARNING_RATE, MAX_NORM = 0.001, 1.0


@dataclass(frozen=True)
class Task:
    """What the ways to write a model have in common."""

    name: str
    plain_model: Callable[..., Any]  # without arguments: as it is measured; `without_dropout`
    plain_loss: Callable[..., torch.Tensor]
    config: Callable[..., dict[str, Any]]  # for the model in Python
    batches: list[Arrays]

    net_dict: Callable[[], Any] | None = None


# Data.


def make_batches(
    num_batches: int,
    num_seqs: int,
    *,
    frames: tuple[int, int],
    labels: tuple[int, int],
    features: int | None,
    num_classes: tuple[int, int],
) -> list[Arrays]:
    """
    :param num_batches: how many
    :param num_seqs: in a batch
    :param frames: shortest and longest input
    :param labels: shortest and longest target
    :param features: of the input; None: sparse
    :param num_classes: of the input, if sparse, and of the targets
    :return: random batches
    """
    random = numpy.random.RandomState(1)
    batches = []
    for _ in range(num_batches):
        lengths = [random.randint(low, high + 1, num_seqs).astype("int32") for low, high in (frames, labels)]
        if features is None:
            data = random.randint(1, num_classes[0], (num_seqs, lengths[0].max())).astype("int32")
        else:
            data = random.normal(size=(num_seqs, lengths[0].max(), features)).astype("float32")
        targets = random.randint(1, num_classes[1], (num_seqs, lengths[1].max())).astype("int32")
        batches.append({"data": data, "data_seq_lens": lengths[0], "classes": targets, "classes_seq_lens": lengths[1]})
    return batches


# The ways to write a model.


def plain_step(task: Task, model: torch.nn.Module) -> TrainStep:
    """:return: a training step as one would write it by hand"""
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=LEARNING_RATE)

    def step(arrays: Arrays) -> float:
        data, classes = (torch.from_numpy(arrays[key]) for key in ("data", "classes"))
        lengths = [torch.from_numpy(arrays[f"{key}_seq_lens"]) for key in ("data", "classes")]
        loss = task.plain_loss(model, data, lengths[0], classes, lengths[1])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), MAX_NORM)
        optimizer.step()
        return loss.item()

    return step


def make_runner(task: Task, backend: str, threads: int, **options: Any) -> ModelRunner:
    """:return: the model in Python, as the engine has it"""
    config = Config({
        "backend": backend, "task": "train", "optimizer": {"class": "adam"}, "device": "cpu",
        "learning_rate": LEARNING_RATE, "gradient_clip_global_norm": MAX_NORM,
        "tf_session_opts": {"intra_op_parallelism_threads": threads, "inter_op_parallelism_threads": threads},
        **task.config(**options),
    })  # fmt: skip
    set_global_config(config)
    runner: ModelRunner = TorchRunner(config) if backend == "torch" else GraphRunner(config)
    runner.build(epoch=1, filename=None, is_training=True, is_own=False)
    runner.set_learning_rate(LEARNING_RATE)
    return runner


def runner_step(runner: Any) -> TrainStep:
    """:return: a training step of the engine"""
    select = rf.select_backend_torch if isinstance(runner, TorchRunner) else rf.select_backend_tf

    def step(arrays: Arrays) -> float:
        select()
        set_global_config(runner.config)
        tags = [str(i) for i in range(len(arrays["data"]))]
        batch = ArrayBatch(arrays, tags, num_frames=arrays["data"].shape[1], complete_frac=None)
        values = runner.train(batch, Step("train", 1, runner.train_step))
        name = next(name.removeprefix("loss:") for name in values if name.startswith("loss:"))
        return float(values[f"loss:{name}"] * values[f"norm:{name}"])

    return step


def net_dict_step(task: Task, threads: int) -> TrainStep:
    """:return: a training step of the net dict"""
    assert task.net_dict is not None
    config = Config({
        "extern_data": g2p_data.EXTERN_DATA, "optimizer": {"class": "adam"},
        "learning_rate": LEARNING_RATE, "gradient_clip_global_norm": MAX_NORM,
    })  # fmt: skip
    set_global_config(config)
    built = build_network(config, task.net_dict(), epoch=1, is_training=True, eval_flag=True, search_flag=False)
    options = tf.compat.v1.ConfigProto(intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads)
    with built.graph.as_default():
        session = tf.compat.v1.Session(graph=built.graph, config=options)
        fetches = [built.updater.get_optim_op(), built.network.get_objective()]
        session.run(tf.compat.v1.global_variables_initializer(), run_seed_feed(built.graph, [1]))
        tensors = {key: built.network.extern_data.data[key] for key in ("data", "classes")}
        lengths = {key: tensor.dims[1].dyn_size_ext.raw_tensor for key, tensor in tensors.items()}
        num_seqs = batch_dim.dyn_size
    num_steps = 0

    def step(arrays: Arrays) -> float:
        nonlocal num_steps
        num_steps += 1
        feed = {**built.flags_feed(train_flag=True), **run_seed_feed(built.graph, [1, num_steps])}
        if num_seqs.op.type.startswith("Placeholder"):
            feed[num_seqs] = len(arrays["data"])
        for key, tensor in tensors.items():
            feed[tensor.raw_tensor] = arrays[key]
            feed[lengths[key]] = arrays[f"{key}_seq_lens"]
        return float(session.run(fetches, feed)[1])

    return step


# The models.


def g2p_task() -> Task:
    """:return: the model of `demos/g2p`"""

    def sizes(without_dropout: bool = False) -> dict[str, Any]:
        return {**G2P, **({"encoder_dropout": 0.0, "output_dropout": 0.0} if without_dropout else {})}

    return Task(
        name="g2p",
        plain_model=lambda **options: plain_g2p.Model(**sizes(**options)),
        plain_loss=plain_g2p.loss_of,
        config=lambda **options: {
            "extern_data": g2p_rf.EXTERN_DATA, "train_step": g2p_rf.train_step,
            "get_model": lambda **_: g2p_rf.Model(**sizes(**options)),
        },
        batches=make_batches(4, 64, frames=(4, 12), labels=(4, 11), features=None, num_classes=(28, 40)),

        net_dict=lambda: g2p_network.attention_network(**G2P, decoder_dropout=0.0, beam_size=12),
    )  # fmt: skip


class ConformerModel(rf.Module):
    """The encoder, and a linear map to labels and blank."""

    def __init__(self, mel_dim: Dim, label_dim: Dim, *, dropout: float) -> None:
        """
        :param mel_dim: features that come in
        :param label_dim: with blank
        :param dropout: of all parts
        """
        super().__init__()
        self.label_dim = label_dim
        channels = [Dim(number, name="channels") for number in CONFORMER["channels"]]
        subsample = ConformerConvSubsample(
            mel_dim, out_dims=channels, filter_sizes=[(3, 3)] * len(channels), strides=[(2, 2)] * len(channels)
        )
        self.encoder = ConformerEncoder(
            mel_dim,
            Dim(CONFORMER["size"], name="encoder"),
            num_layers=CONFORMER["num_layers"],
            num_heads=CONFORMER["num_heads"],
            conv_kernel_size=CONFORMER["kernel_size"],
            input_layer=subsample,
            dropout=dropout,
            input_dropout=dropout,
            att_dropout=dropout,
        )
        self.logits = rf.Linear(self.encoder.out_dim, label_dim)


def conformer_config(without_dropout: bool = False) -> dict[str, Any]:
    """:return: options of a config"""
    mel_dim, label_dim = Dim(NUM_MEL, name="mel"), Dim(NUM_LABELS, name="label")
    frames_dim, labels_dim = Dim(None, name="frames"), Dim(None, name="labels")

    def train_step(*, model: ConformerModel, extern_data: TensorDict, **_kwargs: Any) -> None:
        encoded, out_dim = model.encoder(extern_data["data"], in_spatial_dim=frames_dim)
        loss: Tensor = rf.ctc_loss(
            logits=model.logits(encoded),
            targets=extern_data["classes"],
            input_spatial_dim=out_dim,
            targets_spatial_dim=labels_dim,
            blank_index=NUM_LABELS,
        )
        number = rf.reduce_sum(labels_dim.get_size_tensor(), axis=batch_dim)
        rf.get_run_ctx().mark_as_loss(loss, "ctc", custom_inv_norm_factor=number)

    dropout = 0.0 if without_dropout else CONFORMER["dropout"]
    return {
        "extern_data": {
            "data": {"dims": [batch_dim, frames_dim, mel_dim], "feature_dim": mel_dim},
            "classes": {"dims": [batch_dim, labels_dim], "sparse_dim": label_dim},
        },
        "get_model": lambda **_: ConformerModel(mel_dim, label_dim + 1, dropout=dropout),
        "train_step": train_step,
    }  # fmt: skip


def conformer_task() -> Task:
    """:return: batches of 16 sequences of 3 to 6 seconds"""

    def plain(without_dropout: bool = False) -> plain_conformer.Model:
        dropout = {"dropout": 0.0} if without_dropout else {}
        return plain_conformer.Model(num_mel=NUM_MEL, num_labels=NUM_LABELS, **{**CONFORMER, **dropout})

    return Task(
        name="conformer",
        plain_model=plain,
        plain_loss=plain_conformer.loss_of,
        config=conformer_config,
        batches=make_batches(2, 16, frames=(300, 600), labels=(10, 30), features=NUM_MEL, num_classes=(0, NUM_LABELS)),
    )


# Measurement.


def check_same(task: Task) -> None:
    """:raises AssertionError: if, without dropout, the losses of some steps differ from those of the model by hand"""
    runner: Any = make_runner(task, "torch", threads=1, without_dropout=True)
    plain = task.plain_model(without_dropout=True)
    plain.load({name: value.detach() for name, value in runner.parameters.items()})
    by_hand, ours = plain_step(task, plain), runner_step(runner)
    for arrays in task.batches:
        wanted, found = by_hand(arrays), ours(arrays)
        assert abs(wanted - found) < 1e-3 * abs(wanted), f"{task.name}: loss by hand {wanted}, in Python {found}"


def measure(
    steps: dict[str, TrainStep], batches: Sequence[Arrays], repeat: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """:return: for each way, the seconds of each turn"""
    times: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(repeat + 1):
        for name, step in steps.items():
            start = clock()
            for arrays in batches:
                step(arrays)
            if turn:  # the first turn warms up
                times[name].append(clock() - start)
    return times


def main() -> None:
    """Prints a table for each model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1, help="of each framework")
    parser.add_argument("--repeat", type=int, default=10, help="number of turns")
    parser.add_argument("--models", default="g2p,conformer", help="which ones")
    parser.add_argument("--cpu-time", action="store_true", help="of all threads, in place of the time that passes")
    args = parser.parse_args()
    clock = time.process_time if args.cpu_time else time.perf_counter
    torch.set_num_threads(args.threads)
    BehaviorVersion.set(30)  # dropout of single entries, as by hand
    tasks = {"g2p": g2p_task, "conformer": conformer_task}
    for name in args.models.split(","):
        task = tasks[name]()
        check_same(task)
        plain = "plain PyTorch"
        steps = {
            plain: plain_step(task, task.plain_model()),
            "rf, PyTorch": runner_step(make_runner(task, "torch", args.threads)),
            "rf, TensorFlow": runner_step(make_runner(task, "tensorflow", args.threads)),
        }
        if task.net_dict is not None:
            steps["net dict"] = net_dict_step(task, args.threads)
        times = measure(steps, task.batches, args.repeat, clock)
        num_seqs = sum(len(arrays["data"]) for arrays in task.batches)
        print(f"{name}:")
        for way, seconds in times.items():
            ratios = [a / b for a, b in zip(seconds, times[plain], strict=True)]
            rate = num_seqs / statistics.median(seconds)
            print(f"  {way:16} {rate:8.1f} seqs/s, time {statistics.median(ratios):5.2f} of {plain}")


if __name__ == "__main__":
    main()
