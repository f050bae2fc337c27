"""
Formats of checkpoints, all read into and written from arrays by name. What is read and written again is the same,
bit for bit, whatever the format in between.

- `tf`: TensorFlow's second format, several files; the name has no suffix. The first format is read under the same name,
  and written as `tf1`, in a single file.
- `pt`: of PyTorch, a dict with the arrays in "model".
- `safetensors`: https://github.com/huggingface/safetensors
- `npz`: of numpy.

The number of steps is `global_step` in TensorFlow, and "step" in PyTorch. Beside the arrays, PyTorch has other numbers
and texts, such as the epoch, which safetensors and numpy keep, and TensorFlow does not.
"""

from __future__ import annotations

import importlib
import io
import os
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy

from returnn.tools.checkpoints.safetensors_file import read_safetensors, safetensors_bytes
from returnn.util.errors import UserError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.files.near_files import hint_for_missing_file
from returnn.util.python.optional_import import import_optional, import_part

_TF_STEP, _STEP = "global_step", "step"
_INFO_PREFIX = ":info:"  # of names in a numpy file that are no parameters
_BFLOAT16_SUFFIX = ":bfloat16"  # numpy has no such type, so its file has the bits as uint16
_TF_NEEDED_FOR, _PT_NEEDED_FOR = "checkpoints of TensorFlow", "checkpoints of PyTorch"
_SUFFIXES = {".pt": "pt", ".pth": "pt", ".safetensors": "safetensors", ".npz": "npz", ".ckpt1": "tf1"}


@dataclass(frozen=True)
class Checkpoint:
    """Content of a checkpoint."""

    values: Mapping[str, numpy.ndarray]
    info: Mapping[str, int | float | str] = field(default_factory=dict)  # "step", "epoch" and the like


def format_of(filename: str) -> str:
    """:return: one of `FORMATS`, by the suffix; names without a known suffix are TensorFlow's"""
    return _SUFFIXES.get(os.path.splitext(filename)[1], "tf")


def read_checkpoint(filename: str) -> Checkpoint:
    """
    :param filename: of a file, or the name without suffix, as the options of a config have it
    :raises UserError: if there is none, or it is damaged
    """
    if not os.path.exists(filename) and not os.path.exists(f"{filename}.index"):
        with_suffix = (f"{filename}{suffix}" for suffix in (".pt", ".safetensors", ".npz"))
        filename = next(filter(os.path.isfile, with_suffix), filename)
    kind = format_of(filename)
    if kind in ("pt", "safetensors", "npz") and not os.path.exists(filename):
        raise UserError(f"checkpoint {filename!r} does not exist.{hint_for_missing_file(filename)}")
    return FORMATS[kind].read(filename)


def write_any_checkpoint(checkpoint: Checkpoint, filename: str, *, kind: str | None = None) -> None:
    """
    :param checkpoint: content
    :param filename: of the new one, which is complete or not there; its folder is made
    :param kind: one of `FORMATS`; default: by the suffix of the name
    :raises UserError: if it cannot be written
    """
    check_known("format", kind or format_of(filename), FORMATS, where="option '--format'")
    os.makedirs(os.path.dirname(filename) or ".", exist_ok=True)
    FORMATS[kind or format_of(filename)].write(checkpoint, filename)


def _read_tf(filename: str) -> Checkpoint:
    files = import_part("returnn.tf.checkpoint", needed_for=_TF_NEEDED_FOR)
    name = files.get_checkpoint_filepattern(filename)
    if os.path.isfile(name) and not files.checkpoint_exists(name):
        values = import_part("returnn.tf.checkpoint.first_format", needed_for=_TF_NEEDED_FOR).read_first_format(name)
    else:
        values = files.read_values(name)
    arrays = {key: numpy.asarray(value) for key, value in values.items() if key != _TF_STEP}
    return Checkpoint(arrays, {_STEP: int(values[_TF_STEP])} if _TF_STEP in values else {})


def _tf_values(checkpoint: Checkpoint) -> dict[str, numpy.ndarray]:
    step = checkpoint.info.get(_STEP)
    return {**checkpoint.values, **({} if step is None else {_TF_STEP: numpy.array(step, dtype="int64")})}


def _write_tf(checkpoint: Checkpoint, filename: str) -> None:
    average = import_part("returnn.tf.checkpoint.average", needed_for=_TF_NEEDED_FOR)
    average.write_checkpoint(_tf_values(checkpoint), filename)


def _write_tf1(checkpoint: Checkpoint, filename: str) -> None:
    first_format = import_part("returnn.tf.checkpoint.first_format", needed_for=_TF_NEEDED_FOR)
    first_format.write_first_format(_tf_values(checkpoint), filename)


def _read_pt(filename: str) -> Checkpoint:
    file = import_part("returnn.torch.checkpoint_file", needed_for=_PT_NEEDED_FOR)
    content = file.load_checkpoint_file(filename)
    model = file.model_of(content)
    arrays = {name: _array_of_torch(value) for name, value in file.iter_tensors(model)}
    rest = {} if model is content else content
    return Checkpoint(arrays, {key: x for key, x in rest.items() if isinstance(x, (int, float, str))})


def _write_pt(checkpoint: Checkpoint, filename: str) -> None:
    file = import_part("returnn.torch.checkpoint_file", needed_for=_PT_NEEDED_FOR)
    values = {name: _torch_of_array(value) for name, value in checkpoint.values.items()}
    file.write_checkpoint_file({"model": values, **checkpoint.info}, filename)


def _array_of_torch(value: Any) -> numpy.ndarray:
    value = value.detach().cpu().contiguous()
    if str(value.dtype) == "torch.bfloat16":
        torch = importlib.import_module("torch")
        return value.view(torch.int16).numpy().view(_bfloat16())
    return value.numpy()


def _torch_of_array(value: numpy.ndarray) -> Any:
    torch = import_optional("torch", needed_for=_PT_NEEDED_FOR)
    if value.dtype.name == "bfloat16":
        return torch.from_numpy(value.view("int16").copy()).view(torch.bfloat16)
    return torch.from_numpy(numpy.array(value))  # with its own memory


def _read_safetensors(filename: str) -> Checkpoint:
    values, metadata = read_safetensors(filename)
    return Checkpoint(values, {key: _number(text) for key, text in metadata.items()})


def _write_safetensors(checkpoint: Checkpoint, filename: str) -> None:
    metadata = {key: str(value) for key, value in checkpoint.info.items()}
    write_atomic(filename, safetensors_bytes(checkpoint.values, metadata))


def _read_npz(filename: str) -> Checkpoint:
    values: dict[str, numpy.ndarray] = {}
    info: dict[str, int | float | str] = {}
    try:
        with numpy.load(filename, allow_pickle=False) as content:
            for name, value in content.items():
                if name.startswith(_INFO_PREFIX):
                    info[name.removeprefix(_INFO_PREFIX)] = value.item()
                elif name.endswith(_BFLOAT16_SUFFIX):
                    values[name.removesuffix(_BFLOAT16_SUFFIX)] = value.view(_bfloat16())
                else:
                    values[name] = value
    except (ValueError, OSError, zipfile.BadZipFile) as exc:
        raise UserError(f"checkpoint {filename!r}: cannot be read: {exc}") from exc
    return Checkpoint(values, info)


def _write_npz(checkpoint: Checkpoint, filename: str) -> None:
    arrays = {
        f"{name}{_BFLOAT16_SUFFIX}" if value.dtype.name == "bfloat16" else name: value.view("uint16")
        if value.dtype.name == "bfloat16"
        else value
        for name, value in checkpoint.values.items()
    }
    arrays.update({f"{_INFO_PREFIX}{key}": numpy.array(value) for key, value in checkpoint.info.items()})
    buffer = io.BytesIO()
    numpy.savez(buffer, **arrays)
    write_atomic(filename, buffer.getvalue())


def _bfloat16() -> Any:
    return import_optional("ml_dtypes", needed_for="arrays of bfloat16").bfloat16


def _number(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


@dataclass(frozen=True)
class Format:
    """How a format is read and written."""

    read: Callable[[str], Checkpoint]
    write: Callable[[Checkpoint, str], None]


FORMATS = {
    "tf": Format(_read_tf, _write_tf),
    "tf1": Format(_read_tf, _write_tf1),
    "pt": Format(_read_pt, _write_pt),
    "safetensors": Format(_read_safetensors, _write_safetensors),
    "npz": Format(_read_npz, _write_npz),
}
