"""
A model of the frontend, or of PyTorch, as a file of ONNX: what `forward_step` of the config computes, for any batch.

PyTorch runs the step on an example and writes down what it computes (`torch.jit.trace`). So nothing in it may depend on
a value in Python, as a loop over frames does; for a decoder, one step with its state is exported, and the loop is that
of whoever runs it. The file is run on batches of other sizes afterwards, and has to give the same.

Each data key is an input, and the lengths of its axes are inputs `KEY:size1`, (batch,), counted with the batch as axis
0. Outputs are those that the step marks, `NAME` and `NAME:size1`, with the batch first. Axes of any size have the names
of their dims, and the same ones in inputs and outputs where these are the same.
"""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import re
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
import torch

import returnn.frontend as rf
from returnn.config import Config
from returnn.engine.epochs import epoch_of_network
from returnn.engine.frontend.extern_data import (
    explains_missing_data,
    extern_data_of_config,
    keys_not_said_to_be_unavailable,
)
from returnn.engine.frontend.outputs import output_tensors
from returnn.engine.model_names import epoch_of_checkpoint
from returnn.log import log
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim
from returnn.torch.engine.runner import TorchRunner
from returnn.torch.traceable_attention import traceable_attention, without_fast_path
from returnn.util.errors import ConfigError, UserError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.onnx_export import onnx_export
from returnn.util.python.optional_import import import_optional
from returnn.util.python.user_code_errors import innermost_of_user

_OPSET = 17
_BATCHES = ((3, 23), (1, 31), (5, 17))  # sequences, frames of the longest one; the first is the example
_SAMPLES_OF_FRAME = 160  # if frames are samples
_TOLERANCE = 1e-4
_HINT = "  Loops and conditions over values are not possible; export one step of a decoder with its state."
_HINT_OPERATION = "  ONNX has no such operation. Others of PyTorch or rf may compute the same."
_STDOUT = 1
_NEEDED_FOR = "the export to ONNX"


class _AsksForInput(Exception):
    """The step asks for data that was not among its inputs, but can be."""

    def __init__(self, key: str) -> None:
        super().__init__(key)
        self.key = key


class _FailsOnExample(ConfigError):
    """Maybe of what it computes, maybe as frames are samples of audio, and the example is shorter than a window."""


@dataclass(frozen=True)
class OnnxFile:
    """What was written."""

    inputs: list[str]
    outputs: list[str]
    num_bytes: int
    largest_difference: float | None  # to PyTorch, over a few batches; None: it was not run

    def __str__(self) -> str:
        lines = [f"input {name}" for name in self.inputs] + [f"output {name}" for name in self.outputs]
        if self.largest_difference is None:
            lines.append("it was not run, as onnxruntime is not installed: pip install onnxruntime")
        else:
            lines.append(f"run by onnxruntime, it differs by {self.largest_difference:.2g} at most")
        return "\n".join(lines)


@dataclass
class _StepInputs:
    """Which arrays a step gets."""

    templates: TensorDict
    keys: Sequence[str]
    further: Collection[str] = ()  # keys that become inputs, too, if the step asks for them
    axes: dict[str, tuple[str, int]] = field(default_factory=dict)  # "data:size1" -> key, axis

    def __post_init__(self) -> None:
        seen: list[Dim] = []
        for key in self.keys:
            for axis, dim in enumerate(self.templates[key].dims):
                if dim.size is None and not dim.is_batch_dim() and dim not in seen:
                    seen.append(dim)
                    self.axes[f"{key}:size{axis}"] = key, axis

    def with_key(self, key: str) -> _StepInputs:
        """:return: the same with one of the further keys"""
        keys = [other for other in self.templates.data if other == key or other in self.keys]
        return _StepInputs(self.templates, keys, [other for other in self.further if other != key])

    @property
    def names(self) -> list[str]:
        """Of all inputs."""
        return [*self.keys, *self.axes]

    def dynamic_axes(self, outputs: Mapping[str, Sequence[Dim]]) -> dict[str, dict[int, str]]:
        """
        :param outputs: dims, by name
        :return: names of axes of any size, for the file. Who reads it takes those of the same name as of the same size
        """
        names = _NamesOfDims()
        dims = {**{key: self.templates[key].dims for key in self.keys}, **outputs}
        named = {
            name: {axis: names.of(dim) for axis, dim in enumerate(dims[name]) if dim.size is None} for name in dims
        }
        sizes = {name: {0: "batch"} for name in self.axes}
        return {name: axes for name, axes in {**named, **sizes}.items() if axes}

    def example(self, num_seqs: int, num_frames: int, rng: numpy.random.RandomState) -> tuple[torch.Tensor, ...]:
        """:return: random inputs; the first sequence has all frames"""
        lengths: dict[Dim, torch.Tensor] = {}
        for key, axis in self.axes.values():
            shorter = rng.randint(num_frames // 2, num_frames + 1, size=num_seqs)
            shorter[0] = num_frames
            lengths[self.templates[key].dims[axis]] = torch.tensor(shorter, dtype=torch.int32)
        values = [self._random(self.templates[key], num_seqs, num_frames, rng) for key in self.keys]
        return (*values, *(lengths[self.templates[key].dims[axis]] for key, axis in self.axes.values()))

    @staticmethod
    def _random(template: Tensor, num_seqs: int, num_frames: int, rng: numpy.random.RandomState) -> torch.Tensor:
        shape = [
            dim.size if dim.size is not None else num_seqs if dim.is_batch_dim() else num_frames
            for dim in template.dims
        ]
        if template.sparse_dim is not None:
            value = rng.randint(template.sparse_dim.dimension or 2, size=shape)
        elif template.dtype.startswith("float"):
            value = rng.standard_normal(shape)
        else:
            value = rng.randint(2, size=shape)
        return torch.from_numpy(numpy.asarray(value).astype(template.dtype))

    def as_extern_data(self, arrays: Sequence[torch.Tensor]) -> TensorDict:
        """:return: tensors of the frontend"""
        values = dict(zip(self.names, arrays, strict=True))
        for dim in self.templates.all_dims():
            dim.reset_raw()
        batch_dim.reset_raw()
        with_batch = next((key for key in self.keys if self.templates[key].have_batch_axis()), None)
        if with_batch is None:
            raise ConfigError("extern_data: nothing in it has a batch dim, so there is no batch to compute.")
        size = torch._shape_as_tensor(values[with_batch])[self.templates[with_batch].batch_dim_axis]
        batch_dim.dyn_size_ext = Tensor("batch:size", [], "int32", raw_tensor=size.to(torch.int32))
        for name, (key, axis) in self.axes.items():
            dim = self.templates[key].dims[axis]
            dim.dyn_size_ext = Tensor(f"{dim.name}:lengths", [batch_dim], "int32", raw_tensor=values[name])
        data = TensorDict()
        for key in self.keys:
            data.data[key] = self.templates[key].copy_template()
            data.data[key].raw_tensor = values[key]
        return data


class _NamesOfDims:
    """Each dim has another name, the same in all tensors."""

    def __init__(self) -> None:
        self._names: dict[Dim, str] = {}

    def of(self, dim: Dim) -> str:
        """:return: its own name, if no other one has it"""
        if dim.is_batch_dim():
            return "batch"
        if dim not in self._names:
            name = dim.name or "dim"
            used = {"batch", *self._names.values()}
            numbered = (f"{name}_{i}" for i in itertools.count(2))
            self._names[dim] = name if name not in used else next(other for other in numbered if other not in used)
        return self._names[dim]


class _Step(torch.nn.Module):
    """A step of the model on plain tensors."""

    def __init__(
        self,
        runner: TorchRunner,
        function: Callable[..., Any],
        inputs: _StepInputs,
        output_names: Sequence[str],
        epoch: int,
    ) -> None:
        super().__init__()
        values = {name.replace(".", "_"): value for name, value in runner.parameters.items()}
        self.model_values = torch.nn.ParameterDict(
            {name: value for name, value in values.items() if isinstance(value, torch.nn.Parameter)}
        )
        self.runner = runner
        self.function = function
        self.inputs = inputs
        self.wanted = list(output_names)
        self.epoch = epoch
        self.output_names: list[str] = []
        self.output_dims: dict[str, Sequence[Dim]] = {}

    def forward(self, *arrays: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """:return: outputs"""
        runner = self.runner
        with torch.no_grad(), runner._context(), rf.set_static_traceable_ctx(), onnx_export():
            extern_data = self.inputs.as_extern_data(arrays)
            expected = runner.functions.expected_outputs(extern_data)
            rf.init_forward_step_run_ctx(expected_outputs=expected, step=0, epoch=self.epoch)
            with explains_missing_data(lambda: self.inputs.templates), self._notices_further_inputs():
                self.function(model=runner.model, extern_data=extern_data)
            tensors = output_tensors(rf.get_run_ctx().outputs)
        if not tensors:
            raise ConfigError("the step marked no output.\n  Call rf.get_run_ctx().mark_as_output in it.")
        for name in self.wanted:
            check_known("output", name, tensors, where="option '--output_names'")
        self.output_names = self.wanted or list(tensors)
        self.output_dims = {name: tensors[name].dims for name in self.output_names}
        return tuple(tensors[name].raw_tensor for name in self.output_names)

    @contextlib.contextmanager
    def _notices_further_inputs(self) -> Iterator[None]:
        try:
            yield
        except KeyError as exc:
            key = getattr(exc, "tensor_name", exc.args[0] if exc.args else None)
            if key in self.inputs.further:
                raise _AsksForInput(key) from exc
            raise


def export_to_onnx(
    config: Config,
    checkpoint: str,
    filename: str,
    *,
    input_names: Sequence[str] = (),
    output_names: Sequence[str] = (),
    forward_step: str = "forward_step",
    extern_data: str = "extern_data",
) -> OnnxFile:
    """
    :param config: of a model
    :param checkpoint: whose parameters it gets
    :param filename: the new file
    :param input_names: data keys that the step needs; default: the input of the network, and what the step asks for,
        unless it is said not to be available for inference
    :param output_names: of the outputs that are wanted; default: all
    :param forward_step: name of the function in the config
    :param extern_data: name of the option of the config that describes the inputs of that function
    :raises ConfigError: if the step cannot be exported
    """
    import_optional("onnx", needed_for=_NEEDED_FOR)
    function = config.opt_typed_value(forward_step, None)
    if not callable(function):
        if config.opt_typed_value("network") is not None:
            raise ConfigError(
                "ONNX: models in PyTorch become it, with `get_model` and `forward_step`; the config has layers.\n"
                "  'returnn tool export-model' makes a SavedModel, a frozen graph or TensorFlow Lite of it."
            )
        raise ConfigError(f"option {forward_step!r}: there is no function of this name in the config.")
    inputs = _inputs(config, extern_data, input_names)
    runner = TorchRunner(config)
    epoch = epoch_of_network(config, epoch_of_checkpoint(checkpoint))
    runner.build(epoch=epoch, filename=checkpoint, is_training=False, is_own=False)
    runner._set_mode(train_flag=False)
    step = _Step(runner, function, inputs, output_names, epoch).eval()
    try:
        content, batches, wanted = _traced_with_its_inputs(step, num_frames=1)
    except _FailsOnExample:
        content, batches, wanted = _traced_with_its_inputs(step, num_frames=_SAMPLES_OF_FRAME)
    inputs, outputs = step.inputs, list(step.output_names)
    difference = _largest_difference(content, inputs.names, outputs, batches, wanted)
    if difference is not None and not difference < _TOLERANCE:
        raise ConfigError(
            f"option {forward_step!r}: on another batch, the exported step differs by {difference:.2g} from the model's"
            " own.\n  Something in it depends on a value or a size in Python."
        )
    write_atomic(filename, content)
    return OnnxFile(inputs.names, outputs, len(content), difference)


def _traced_with_its_inputs(
    step: _Step, *, num_frames: int
) -> tuple[bytes, list[tuple[torch.Tensor, ...]], list[tuple[torch.Tensor, ...]]]:
    """:return: see `_traced`; what the step asks for is added to its inputs"""
    while True:
        try:
            return _traced(step, step.inputs, num_frames=num_frames)
        except _AsksForInput as exc:
            step.inputs = step.inputs.with_key(exc.key)


def _traced(
    step: _Step, inputs: _StepInputs, *, num_frames: int
) -> tuple[bytes, list[tuple[torch.Tensor, ...]], list[tuple[torch.Tensor, ...]]]:
    """
    :param step: of the model
    :param inputs: that it gets
    :param num_frames: factor of the lengths of the examples
    :return: content of the file; examples; outputs for them
    """
    rng = numpy.random.RandomState(1)
    batches = [inputs.example(num_seqs, num_frames * length, rng) for num_seqs, length in _BATCHES]
    with without_fast_path():
        try:
            wanted = [step(*batch) for batch in batches]
        except RuntimeError as exc:
            longest = max(length for _, length in _BATCHES) * num_frames
            raise _FailsOnExample(
                f"the step cannot be exported to ONNX: it fails on examples of up to {longest} frames:"
                f" {type(exc).__name__}: {_reason(exc)}"
            ) from exc
        with traceable_attention():
            return _trace(step, batches[0], inputs), batches, wanted


def _inputs(config: Config, extern_data: str, names: Sequence[str]) -> _StepInputs:
    described: Any = None
    if extern_data != "extern_data":
        described = config.opt_typed_value(extern_data, None)
        if not isinstance(described, dict):
            raise ConfigError(f"option {extern_data!r}: there is no dict of this name in the config.")
        config = Config({**config.typed_dict, "extern_data": described})
    templates = extern_data_of_config(config)
    possible = keys_not_said_to_be_unavailable(config)
    keys = [key for key, template in templates.data.items() if template.available_for_inference]
    if described is not None:  # all of it is there to be inputs of the step, unless it says otherwise
        keys = possible
    wanted = [name for name in names if ":size" not in name]
    for name in wanted:
        check_known("data key", name, templates.data, where="option '--input_names'")
    return _StepInputs(templates, wanted) if wanted else _StepInputs(templates, keys, set(possible) - set(keys))


def _trace(step: _Step, example: tuple[torch.Tensor, ...], inputs: _StepInputs) -> bytes:
    """:return: content of the file"""
    buffer = io.BytesIO()
    with _quiet(), warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            torch.onnx.export(
                step,
                example,
                buffer,
                dynamo=False,
                opset_version=_OPSET,
                input_names=inputs.names,
                output_names=step.output_names,
                dynamic_axes=inputs.dynamic_axes(step.output_dims),
            )
        except UserError as exc:
            raise ConfigError(f"the step cannot be exported to ONNX: {exc}\n{_HINT}") from exc
        except torch.onnx.errors.UnsupportedOperatorError as exc:
            where = _place_of(step, example, str(exc))
            raise ConfigError(f"the step cannot be exported to ONNX: {where}{_reason(exc)}\n{_HINT_OPERATION}") from exc
        except (torch.onnx.errors.OnnxExporterError, RuntimeError, NotImplementedError, AttributeError) as exc:
            raise _FailsOnExample(
                f"the step cannot be exported to ONNX: {type(exc).__name__}: {_reason(exc)}\n{_HINT}"
            ) from exc
    traced = (warning for warning in caught if issubclass(warning.category, torch.jit.TracerWarning))
    places = (f"{entry.filename}:{entry.lineno}" for entry in traced if "Converting a tensor" in str(entry.message))
    for place in dict.fromkeys(places):
        print(f"note: {place}: a value is used in Python, and holds for good", file=log.v3)
    return buffer.getvalue()


def _place_of(step: _Step, example: tuple[torch.Tensor, ...], reason: str) -> str:
    """:return: where the code of the config, or else the toolkit, calls the operation that is named; to go on from"""
    graph = torch.jit.trace(step, example, check_trace=False).inlined_graph
    for node in graph.nodes():
        if f"'{node.kind()}'" in reason:
            frames = re.findall(r"^(.+)\((\d+)\): (.+)$", node.sourceRange(), flags=re.MULTILINE)
            places = [(file, int(line), function) for file, line, function in frames]
            place = innermost_of_user(places) or next(iter(places), None)
            return f"in {place[0]}, line {place[1]}, {place[2]}: " if place else ""
    return ""


def _reason(exc: Exception) -> str:
    return str(exc).split("\n")[0][:300]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter prints about the graph when it fails, in Python or in C++."""
    sys.stdout.flush()
    kept = os.dup(_STDOUT)
    try:
        with contextlib.redirect_stdout(io.StringIO()), open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), _STDOUT)
            yield
    finally:
        os.dup2(kept, _STDOUT)
        os.close(kept)


def _largest_difference(
    content: bytes,
    inputs: Sequence[str],
    outputs: Sequence[str],
    batches: Sequence[tuple[torch.Tensor, ...]],
    wanted: Sequence[tuple[torch.Tensor, ...]],
) -> float | None:
    """:return: between PyTorch and the file, relative to the largest value; None if nobody is there to run it"""
    try:
        runtime = import_optional("onnxruntime", needed_for=_NEEDED_FOR)
    except ImportError:
        return None
    options = runtime.SessionOptions()
    options.log_severity_level = 4  # what fails is said below
    try:
        session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as exc:
        raise ConfigError(f"the step cannot be exported to ONNX: onnxruntime does not take it: {exc}") from exc
    used = {node.name for node in session.get_inputs()}
    largest = 0.0
    for batch, values in zip(batches, wanted, strict=True):
        feed = {name: value.numpy() for name, value in zip(inputs, batch, strict=True) if name in used}
        try:
            computed = session.run(list(outputs), feed)
        except Exception as exc:
            text = str(exc).strip()
            raise ConfigError(
                f"the step cannot be exported to ONNX: onnxruntime fails on a batch of another size: {text}\n"
                "  Sizes that depend on values, as of rf.masked_select, are fixed there. '--output_names' says which "
                "outputs are exported."
            ) from exc
        for found, value in zip(computed, values, strict=True):
            expected = value.detach().cpu().numpy().astype("float64")
            if found.shape != expected.shape:
                return float("inf")
            scale = max(1.0, float(numpy.abs(expected).max(initial=0)))
            largest = max(largest, float(numpy.abs(found - expected).max(initial=0)) / scale)
    return largest
