"""
Alignments and edit distances: native kernels against the same as loops of TensorFlow, and CTC against
`torch.nn.functional.ctc_loss` and TensorFlow's own. Losses with their gradients. All of them take turns, so that other
load on the machine meets all; the fastest of some runs counts.

    python -m benchmarks.alignments [--threads 1 2] [--repeat 5]
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy
import tensorflow as tf

from benchmarks.cpus import use_cpus
from returnn.tf import native_op
from returnn.tf.frontend_low_level.kernels import alignments
from returnn.tf.util.losses.ctc_search import best_prefixes
from returnn.tf.util.losses.fsa import best_paths, ctc_fsa, posteriors
from returnn.tf.util.losses.transducer_loss import rna_loss, rnnt_loss
from returnn.util.python.optional_import import import_optional

tf1 = tf.compat.v1
torch = import_optional("torch", needed_for="the comparison with PyTorch")

Step = Callable[[], object]
random = numpy.random.RandomState(1)


@contextmanager
def kernels(is_on: bool):  # noqa: ANN201
    """Operations that are made meanwhile have kernels, or not."""
    before = os.environ.get("RETURNN_NATIVE", "1")
    os.environ["RETURNN_NATIVE"] = str(int(is_on))
    yield
    os.environ["RETURNN_NATIVE"] = before


def graph_step(make: Callable[..., Any], inputs: Mapping[str, Any], *, threads: int, native: bool) -> Step:
    """:return: step of a graph, with the gradient of the first input if it has floats"""
    with tf.Graph().as_default(), kernels(native):
        session = tf1.Session(config=tf1.ConfigProto(intra_op_parallelism_threads=threads))
        args = [tf1.placeholder(x.dtype, x.shape) for x in inputs.values()]
        outputs = make(*args)
        gradients = tf1.gradients(outputs, args[:1]) if args[0].dtype.is_floating else [None]
        fetches = [tf.reduce_sum(x) for x in (gradients if gradients[0] is not None else tf.nest.flatten(outputs))]
        run = session.make_callable(fetches, args)
        return lambda: run(*inputs.values())


def labels_of(num: int, size: int, classes: int) -> numpy.ndarray:
    """:return: (num, size)"""
    return random.randint(1, classes, size=(num, size)).astype("int32")


def ctc_inputs(batch: int, frames: int, classes: int, labels: int) -> dict[str, numpy.ndarray]:
    """:return: for CTC, with blank 0"""
    return {
        "logits": random.normal(size=(batch, frames, classes)).astype("float32"),
        "targets": labels_of(batch, labels, classes),
        "num_frames": numpy.full([batch], frames, "int32"),
        "num_labels": numpy.full([batch], labels, "int32"),
    }


def torch_ctc(inputs: Mapping[str, numpy.ndarray], threads: int) -> Step:
    """:return: step of PyTorch"""
    logits, targets, *lengths = (torch.tensor(x) for x in inputs.values())
    logits.requires_grad_()

    def step() -> None:
        torch.set_num_threads(threads)
        log_probs = torch.log_softmax(logits, dim=-1).transpose(0, 1)
        loss = torch.nn.functional.ctc_loss(log_probs, targets.long(), *(x.long() for x in lengths), reduction="sum")
        torch.autograd.grad(loss, logits)

    return step


def ctc_steps(batch: int, frames: int, classes: int, labels: int, threads: int) -> dict[str, Step]:
    """:return: steps by what they are of"""
    inputs = ctc_inputs(batch, frames, classes, labels)

    def native(*args: tf.Tensor) -> Any:
        options = {"blank": 0, "label_loop": True, "normalized": False, "time_major": False, "max_approx": False}
        return alignments.ctc_loss(*args, **options)

    def loop(logits: tf.Tensor, targets: tf.Tensor, num_frames: tf.Tensor, num_labels: tf.Tensor) -> Any:
        lengths = {"logits_seq_lens": num_frames, "targets_seq_lens": num_labels}
        return native_op.ctc_loss(logits=logits, targets=targets, logits_time_major=False, blank_index=0, **lengths)

    def own(logits: tf.Tensor, targets: tf.Tensor, num_frames: tf.Tensor, num_labels: tf.Tensor) -> Any:
        del num_labels  # all are equal
        shape = tf.shape(targets, out_type=tf.int64)
        labels = tf.SparseTensor(tf.where(targets > 0), tf.reshape(targets, [-1]) - 1, shape)
        return tf1.nn.ctc_loss(labels, logits, num_frames, time_major=False)

    return {
        "native": graph_step(native, inputs, threads=threads, native=True),
        "loop": graph_step(loop, inputs, threads=threads, native=False),
        "torch": torch_ctc(inputs, threads),
        "tf": graph_step(own, inputs, threads=threads, native=True),
    }


def beam_search_steps(batch: int, frames: int, classes: int, threads: int) -> dict[str, Step]:
    """:return: the search with the beam of 100, by which the loss "ctc" computes its error; "tf": TensorFlow's own"""
    logits = ctc_inputs(batch, frames, classes, labels=1)["logits"]
    inputs = {"num_frames": numpy.full([batch], frames, "int32")}

    def step(num_frames: tf.Tensor) -> Any:
        return best_prefixes(tf.constant(logits), num_frames, beam_size=100, blank=classes - 1)

    return {
        "native" if native else "tf": graph_step(step, inputs, threads=threads, native=native)
        for native in (True, False)
    }


def of_both(make: Callable[..., Any], inputs: Mapping[str, Any], threads: int) -> dict[str, Step]:
    """:return: steps with and without kernels"""
    return {
        "native" if native else "loop": graph_step(make, inputs, threads=threads, native=native)
        for native in (True, False)
    }


def automaton_steps(make: Callable[..., Any], threads: int) -> dict[str, Step]:
    """:return: automata of CTC, as edges"""
    inputs = ctc_inputs(16, 200, 80, 30)

    def step(logits: tf.Tensor, targets: tf.Tensor, num_frames: tf.Tensor, num_labels: tf.Tensor) -> Any:
        scores = tf.stop_gradient(tf.transpose(tf.nn.log_softmax(logits), [1, 0, 2]))
        mask = tf.transpose(tf.sequence_mask(num_frames, 200))
        return make(scores, ctc_fsa(targets, num_labels, blank=0), mask)

    return of_both(step, inputs, threads)


def transducer_inputs(batch: int, frames: int, labels: int, classes: int) -> dict[str, numpy.ndarray]:
    """:return: for transducers, with blank 0"""
    return {
        "logits": random.normal(size=(batch, frames, labels + 1, classes)).astype("float32"),
        "labels": labels_of(batch, labels, classes),
        "num_frames": numpy.full([batch], frames, "int32"),
        "num_labels": numpy.full([batch], labels, "int32"),
    }


def distance_inputs(batch: int, size: int) -> dict[str, numpy.ndarray]:
    """:return: for edit distances"""
    lengths = numpy.full([batch], size, "int32")
    return {"a": labels_of(batch, size, 50), "a_len": lengths, "b": labels_of(batch, size, 50), "b_len": lengths}


def all_cases() -> dict[str, Callable[[int], dict[str, Step]]]:
    """:return: functions from the number of threads to steps, by what people read"""
    sizes = {"batch 16, 200 frames, 80 classes, 30 labels": (16, 200, 80, 30)}
    sizes |= {"batch 8, 500 frames, 5000 classes, 60 labels": (8, 500, 5000, 60)}
    cases = {f"ctc, {name}": lambda threads, s=size: ctc_steps(*s, threads) for name, size in sizes.items()}
    for classes in (80, 1000):
        cases[f"ctc, beam of 100, batch 4, 100 frames, {classes} classes"] = lambda threads, classes=classes: (
            beam_search_steps(4, 100, classes, threads)
        )
    cases["Baum-Welch, batch 16, 200 frames"] = lambda threads: automaton_steps(posteriors, threads)
    cases["Viterbi, batch 16, 200 frames"] = lambda threads: automaton_steps(best_paths, threads)
    for name, loss in (("RNN-T", rnnt_loss), ("RNA", rna_loss)):
        inputs = transducer_inputs(4, 100, 20, 80)
        cases[f"{name}, batch 4, 100 frames, 20 labels, 80 classes"] = lambda threads, loss=loss, inputs=inputs: (
            of_both(loss, inputs, threads)
        )
    for name in ("edit_distance", "optimal_completion_edit_distance"):
        cases[f"{name}, batch 32, 50 labels"] = lambda threads, name=name: of_both(
            getattr(native_op, name), distance_inputs(32, 50), threads
        )
    return cases


def best_times(steps: Mapping[str, Step], repeat: int) -> dict[str, float]:
    """:return: seconds of the fastest run of each step"""
    best = dict.fromkeys(steps, math.inf)
    for i in range(repeat + 1):
        for name, step in steps.items():
            start = time.perf_counter()
            step()
            if i >= 1:
                best[name] = min(best[name], time.perf_counter() - start)
    return best


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--repeat", type=int, default=5)
    args = parser.parse_args()
    print("how often as fast as the loop of TensorFlow, as PyTorch, as TensorFlow's own")
    print(f"{'threads':<8}{'':<60}{'ms':>9}{'/ loop':>9}{'/ torch':>9}{'/ tf':>9}")
    use_cpus(max(args.threads))
    for threads in args.threads:
        use_cpus(threads)
        for name, steps_of in all_cases().items():
            seconds = best_times(steps_of(threads), args.repeat)
            ratios = [
                f"{seconds[other] / seconds['native']:>9.2f}" if other in seconds else f"{'':>9}"
                for other in ("loop", "torch", "tf")
            ]
            print(f"{threads:<8}{name:<60}{seconds['native'] * 1e3:>9.2f}{''.join(ratios)}", flush=True)


if __name__ == "__main__":
    main()
