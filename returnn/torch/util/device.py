"""Which device computes, by the option `device`, and its memory."""

from __future__ import annotations

import resource

import torch

from returnn.config import Config
from returnn.config.device import GPU_NAMES
from returnn.util.errors import ConfigError
from returnn.util.system.gpu import get_gpu_names
from returnn.util.texts.human_readable import human_bytes_size


def device_of_config(config: Config) -> torch.device:
    """
    :param config: its option `device`: "cpu", "gpu", "gpu1", "cuda", "cuda:1"
    :return: by default the GPU, if there is one
    :raises ConfigError: if a GPU is asked for, and PyTorch has none
    """
    names = [str(name) for name in config.options.device if name]
    if len(names) > 1:
        raise ConfigError(f"option 'device': {names} are several, but a process of PyTorch has one.")
    if not names:
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    name = names[0]
    kind = name.rstrip("0123456789").rstrip(":")
    if kind not in GPU_NAMES:
        try:
            return torch.device(name)
        except RuntimeError as exc:
            raise ConfigError(f"option 'device': PyTorch has no {name!r}.\n  Possible: 'cpu', 'gpu', 'gpu1'.") from exc
    if not torch.cuda.is_available():
        raise ConfigError(
            f"option 'device': {name!r} is asked for, but PyTorch {torch.__version__} finds no GPU.\n"
            f"  Found by nvidia-smi: {', '.join(get_gpu_names()) or 'none'}."
            " Without the option, a GPU is used if there is one."
        )
    number = name[len(kind) :].removeprefix(":")
    return torch.device("cuda", int(number)) if number else torch.device("cuda")


def memory_report(device: torch.device) -> str:
    """:return: for people: how much memory there was at most"""
    if device.type != "cuda":
        return f"mem peak {human_bytes_size(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)}"
    peak, reserved = torch.cuda.max_memory_allocated(device), torch.cuda.memory_reserved(device)
    return f"GPU mem peak {human_bytes_size(peak)}, reserved {human_bytes_size(reserved)}"


def is_out_of_memory(exc: BaseException) -> bool:
    """:return: whether an operation failed because memory was not enough"""
    if isinstance(exc, (torch.OutOfMemoryError, MemoryError)):
        return True
    text = str(exc).lower()
    return isinstance(exc, RuntimeError) and ("out of memory" in text or "can't allocate memory" in text)


def free_cached_memory(device: torch.device) -> None:
    """Gives memory back that PyTorch keeps for later."""
    if device.type == "cuda":
        torch.cuda.empty_cache()
