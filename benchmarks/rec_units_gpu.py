"""
Recurrent units on a GPU: forward and backward time of one LSTM layer, and the memory at its peak, against cuDNN
(`torch.nn.LSTM`), against a loop of PyTorch over frames, and against FlashRNN where the package `flashrnn` is there.
All of them take turns; the fastest of some runs counts.

    python -m benchmarks.rec_units_gpu [--batches 1 64] [--sizes 128 512] [--frames 50] [--dtypes float32 bfloat16]
    python -m benchmarks.rec_units_gpu --quick    # some sizes, in a minute
    python -m benchmarks.rec_units_gpu --full     # all sizes
    python -m benchmarks.rec_units_gpu --tune     # measures our methods, and writes which one is best on this GPU

FlashRNN has no input projection: one is made for it.
"""

from __future__ import annotations

import argparse
import itertools
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

from returnn.native.cuda import METHODS, method_table_filename, write_method_table
from returnn.torch.frontend import native
from returnn.torch.frontend.rec import RecTorchOps
from returnn.util.python.optional_import import import_optional

Step = Callable[[], object]
BATCHES, SIZES, FRAMES = (1, 8, 64, 256), (128, 256, 512, 1024), (20, 50, 500)
QUICK = [(1, 256, 20), (8, 256, 50), (64, 256, 20), (64, 512, 50), (256, 1024, 20)]  # batch, size, frames
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
OTHERS = ("cudnn", "loop", "flashrnn")


@dataclass(frozen=True)
class Case:
    """One layer."""

    dtype: str
    lengths: str  # "equal", or "varied": drawn evenly between a tenth of the frames and all
    batch: int
    size: int
    frames: int

    @property
    def num_operations(self) -> float:
        """Floating point operations of its matrix products, forward and backward, all frames of full length."""
        return 3 * 2 * self.batch * self.frames * 2 * self.size * 4 * self.size

    def make_lengths(self) -> torch.Tensor:
        """:return: (N,), int32, on the CPU, the first one as long as possible"""
        if self.lengths == "equal":
            return torch.full([self.batch], self.frames, dtype=torch.int32)
        generator = torch.Generator().manual_seed(1)
        drawn = torch.randint(max(1, self.frames // 10), self.frames + 1, [self.batch], generator=generator)
        drawn[0] = self.frames
        return drawn.to(torch.int32)


def _input(case: Case) -> torch.Tensor:
    return torch.randn(case.frames, case.batch, case.size, device="cuda", dtype=DTYPES[case.dtype], requires_grad=True)


def _parameters(case: Case) -> list[torch.Tensor]:
    """:return: weights for the input, for the state, bias, as those of `torch.nn.LSTM`"""
    shapes = ([4 * case.size, case.size], [4 * case.size, case.size], [4 * case.size])
    scale = case.size**-0.5
    return [(torch.randn(shape, device="cuda") * scale).to(DTYPES[case.dtype]).requires_grad_() for shape in shapes]


def our_step(case: Case, method: str | None = None) -> Step:
    """:return: output, and gradients of all parameters and the input; by the method that is set if none is given"""
    library = native.get_gpu_library()
    assert library is not None
    x, (weights, rec_weights, bias) = _input(case), _parameters(case)
    zeros = torch.zeros(case.batch, case.size, device="cuda", dtype=x.dtype)
    lengths = case.make_lengths().cuda()

    def step() -> None:
        if method is not None:
            library.set_method(case.size, case.batch, method)
        out, _, _ = RecTorchOps.lstm_raw(x, zeros, zeros, weights, rec_weights, bias, lengths)
        _backward(out, x, weights, rec_weights, bias)

    return step


def cudnn_step(case: Case) -> Step:
    """:return: the same by cuDNN"""
    layer = torch.nn.LSTM(case.size, case.size).to("cuda", DTYPES[case.dtype])
    x, lengths = _input(case), case.make_lengths()

    def step() -> None:
        if case.lengths == "equal":
            out, _ = layer(x)
        else:
            packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, enforce_sorted=False)
            out, _ = torch.nn.utils.rnn.pad_packed_sequence(layer(packed)[0])
        _backward(out, x, *layer.parameters())

    return step


def loop_step(case: Case) -> Step:
    """:return: the same as a loop over frames; it does not look at lengths"""
    x, (weights, rec_weights, bias) = _input(case), _parameters(case)
    state = torch.zeros(case.batch, case.size, device="cuda", dtype=x.dtype)

    def step() -> None:
        h, c = state, state
        outputs = []
        for frame in x:
            h, c = torch.lstm_cell(frame, (h, c), weights, rec_weights, bias, torch.zeros_like(bias))
            outputs.append(h)
        _backward(torch.stack(outputs), x, weights, rec_weights, bias)

    return step


def flashrnn_step(case: Case) -> Step:
    """:return: the same by FlashRNN with one head; it does not look at lengths"""
    flashrnn = import_optional("flashrnn", needed_for="the comparison with FlashRNN").flashrnn
    x, (weights, rec_weights, bias) = _input(case), _parameters(case)
    state = torch.zeros(2, case.batch, 1, 1, case.size, device="cuda", dtype=x.dtype)

    def step() -> None:
        projected = torch.nn.functional.linear(x, weights).view(case.frames, case.batch, 4, 1, case.size)
        rec = rec_weights.view(4, 1, case.size, case.size)
        states, _ = flashrnn(
            projected.transpose(0, 1).contiguous(), rec, bias.view(4, 1, case.size), states=state,
            function="lstm", backend="cuda_fused", dtype=case.dtype,
        )  # fmt: skip
        _backward(states[0], x, weights, rec_weights, bias)

    return step


def _backward(out: torch.Tensor, *leaves: torch.Tensor) -> None:
    torch.autograd.grad(out.float().square().sum(), leaves)


def best_times(steps: list[Step], repeat: int) -> list[float]:
    """:return: seconds of the fastest run of each step"""
    best = [math.inf for _ in steps]
    for i in range(repeat + 2):
        for number, step in enumerate(steps):
            torch.cuda.synchronize()
            start = time.perf_counter()
            step()
            torch.cuda.synchronize()
            if i >= 2:  # before, libraries choose algorithms
                best[number] = min(best[number], time.perf_counter() - start)
    return best


def peak_mib(step: Step) -> float:
    """:return: MiB that a step has more than was there before it"""
    step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return (torch.cuda.max_memory_allocated() - before) / 2**20


class Others:
    """What a layer is compared with. What has failed once is not tried again for this type, as it may take long."""

    def __init__(self) -> None:
        self.failures: dict[tuple[str, str], str] = {}

    def steps(self, case: Case) -> dict[str, Step]:
        """:return: by name, those that run"""
        makers = {"cudnn": cudnn_step, "loop": loop_step, "flashrnn": flashrnn_step}
        found = {}
        for name, make in makers.items():
            if (name, case.dtype) in self.failures or (name == "loop" and case.frames > 50):
                continue
            try:
                step = make(case)
                step()
                torch.cuda.synchronize()
            except Exception as exc:  # noqa: BLE001 - whatever another library cannot do is part of the report
                self.failures[name, case.dtype] = f"{type(exc).__name__}: {str(exc).splitlines()[0]}"
            else:
                found[name] = step
        return found


def measure(case: Case, repeat: int, others: Others) -> dict[str, float]:
    """:return: seconds of the layer, and how often as fast it is as others are; memory, and cuDNN's"""
    ours, steps = our_step(case), others.steps(case)
    seconds, *of_others = best_times([ours, *steps.values()], repeat)
    times = dict(zip(steps, of_others, strict=True))
    return {
        "s": seconds,
        "TFLOP/s": case.num_operations / seconds / 1e12,
        **{name: times[name] / seconds if name in times else math.nan for name in OTHERS},
        "MiB": peak_mib(ours),
        "cudnn MiB": peak_mib(steps["cudnn"]) if "cudnn" in steps else math.nan,
    }


def compare(cases: list[Case], repeat: int) -> None:
    """Prints a line for each case, means, and where we are slower."""
    library, others = native.get_gpu_library(), Others()
    assert library is not None
    print(
        "forward and backward; how often as fast as cuDNN, as a loop over frames, as FlashRNN; memory of both, in MiB"
    )
    print(
        f"{'type':<10}{'lengths':<8}{'batch':>6}{'size':>6}{'frames':>7}{'method':>12}{'ms':>9}{'TFLOP/s':>9}", end=""
    )
    print("".join(f"{'/ ' + name:>11}" for name in OTHERS) + f"{'MiB':>8}{'cudnn MiB':>11}")
    results = {}
    for case in cases:
        results[case] = found = measure(case, repeat, others)
        our_step(case)()
        print(f"{case.dtype:<10}{case.lengths:<8}{case.batch:>6}{case.size:>6}{case.frames:>7}", end="")
        print(f"{library.last_method():>12}{1000 * found['s']:>9.3f}{found['TFLOP/s']:>9.2f}", end="")
        print("".join(f"{found[name]:>11.2f}" for name in OTHERS), end="")
        print(f"{found['MiB']:>8.0f}{found['cudnn MiB']:>11.0f}", flush=True)
    for name in OTHERS:
        ratios = {case: found[name] for case, found in results.items() if not math.isnan(found[name])}
        if not ratios:
            continue
        mean = math.exp(sum(map(math.log, ratios.values())) / len(ratios))
        slower = [case for case, ratio in ratios.items() if ratio < 1]
        print(f"{name}: {mean:.2f} in the geometric mean of {len(ratios)} cases; slower in {len(slower)}:")
        for case in sorted(slower, key=ratios.__getitem__):
            print(f"  {ratios[case]:.2f} {case}")
    more = [case for case, found in results.items() if found["MiB"] > found["cudnn MiB"]]
    print(f"memory above cuDNN's in {len(more)} cases:", *more, sep="\n  ")
    for (name, dtype), reason in others.failures.items():
        print(f"{name} was not run with {dtype}: {reason}")


def tune(repeat: int, frames: int) -> None:
    """Measures all methods, and writes the best ones. The sum of the times with all types decides."""
    rows = []
    print(f"{'batch':>6}{'size':>6}" + "".join(f"{name + ' ms':>16}" for name in METHODS[1:]))
    for batch, size in itertools.product(BATCHES, SIZES):
        seconds = dict.fromkeys(METHODS[1:], 0.0)
        for dtype in ("float32", "bfloat16"):
            case = Case(dtype, "equal", batch, size, frames)
            times = best_times([our_step(case, name) for name in seconds], repeat)
            for name, value in zip(seconds, times, strict=True):
                seconds[name] += value
        rows.append((size, batch, min(seconds, key=seconds.__getitem__)))
        print(f"{batch:>6}{size:>6}" + "".join(f"{1000 * value:>16.3f}" for value in seconds.values()), flush=True)
    write_method_table(torch.cuda.get_device_name(), rows)
    print(f"written to {method_table_filename()}")


def all_cases(args: argparse.Namespace) -> Iterator[Case]:
    """:return: in the order in which they are printed"""
    sizes = QUICK if args.quick else itertools.product(args.batches, args.sizes, args.frames)
    if args.full:
        sizes = itertools.product(BATCHES, SIZES, FRAMES)
    for dtype, lengths, (batch, size, frames) in itertools.product(args.dtypes, args.lengths, list(sizes)):
        yield Case(dtype, lengths, batch, size, frames)


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--sizes", nargs="+", type=int, default=[128, 512])
    parser.add_argument("--frames", nargs="+", type=int, default=[50])
    parser.add_argument("--dtypes", nargs="+", choices=list(DTYPES), default=["float32", "bfloat16"])
    parser.add_argument("--lengths", nargs="+", choices=["equal", "varied"], default=["equal", "varied"])
    parser.add_argument("--repeat", type=int, default=10)
    parser.add_argument("--quick", action="store_true", help="some sizes")
    parser.add_argument("--full", action="store_true", help="all sizes")
    parser.add_argument("--tune", action="store_true", help="measure our methods, and write which one is best")
    args = parser.parse_args()
    if not torch.cuda.is_available():
        parser.error("PyTorch finds no GPU.")
    if native.get_gpu_library() is None:
        parser.error("there are no kernels for this GPU; a warning tells why.")
    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    if args.tune:
        tune(args.repeat, frames=50)
    else:
        compare(list(all_cases(args)), args.repeat)


if __name__ == "__main__":
    main()
