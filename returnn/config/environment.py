"""Environment variables that users set. Those of batch systems and of other programs are none of them."""

from __future__ import annotations

import os
from collections.abc import Mapping

from returnn.util.errors import ConfigError
from returnn.util.texts.bool_text import to_bool

ENVIRONMENT: Mapping[str, str] = {
    "TF_DEVICE": "The device, instead of the option `device`.",
    "CUDA_VISIBLE_DEVICES": "The numbers of the GPUs that this process sees.",
    "DISABLE_CUDA": "With 1, native operations are compiled for the CPU alone.",
    "CUDA_PATH": "Where CUDA is installed; `CUDA_HOME` says the same.",
    "CUDA_HOME": "Where CUDA is installed.",
    "CC": "The C compiler for native operations.",
    "CXX": "The C++ compiler for native operations.",
    "DEBUG": "With 1, an error of the program opens a shell where it happened.",
    "DEBUG_WARN_WITH_TRACEBACK": "With 1, warnings of Python say where they come from.",
    "RETURNN_CACHE_DIR": "The folder of compiled native operations.",
    "RETURNN_NATIVE_CODE_COMPILER_VERBOSE": "With 1, the commands that compile code are shown, with their output.",
    "RETURNN_PKG_PATH": "The folder of repositories that `returnn.import_` loads.",
    "RETURNN_RANDOM_SEED_OFFSET": "Is added to the random seed of data sets.",
    "RETURNN_CONFIRM": "With 1, questions are answered with yes.",
    "OMP_NUM_THREADS": "How many cores this process uses; with TensorFlow, `SLURM_CPUS_PER_TASK` says so, too.",
    "TF_CPP_MIN_LOG_LEVEL": "How little TensorFlow itself logs, from 0 to 3; 2 if it is not set.",
    "TORCH_CPP_LOG_LEVEL": "How little PyTorch itself logs: INFO, WARNING, ERROR or FATAL; ERROR if it is not set.",
    "TMPDIR": "The folder for temporary files; `TEMP` and `TMP` say the same.",
}
_UNSUPPORTED: Mapping[str, str] = {
    "RETURNN_USE_HOT_RELOADING": "start the training again; it goes on where it was, with the new code",
}


def is_switched_on(name: str) -> bool:
    """:return: whether the variable says yes. Other programs have other texts in a variable such as `DEBUG`"""
    try:
        return to_bool(os.environ.get(name, ""))
    except ValueError:
        return False


def check_environment() -> None:
    """:raises ConfigError: if a variable asks for something that is not there"""
    for name, instead in _UNSUPPORTED.items():
        if is_switched_on(name):
            raise ConfigError(f"environment variable {name!r} is not supported: {instead}.")
