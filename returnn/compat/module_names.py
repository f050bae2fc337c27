"""
Modules under the names that they had before the package had subpackages: `TFUtil`, `Pretrain`, `LmDataset`, ...

Old configs say `from TFUtil import where_bc`, some say `from returnn.TFUtil import where_bc`. An import hook answers
with the module of today, the very same object.
"""

from __future__ import annotations

import functools
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from returnn.util.python.completion import when_complete

OLD_MODULE_NAMES = {
    "BundleFile": "returnn.datasets.bundle_file",
    "CachedDataset": "returnn.datasets.cached",
    "CachedDataset2": "returnn.datasets.cached2",
    "Config": "returnn.config",
    "Dataset": "returnn.datasets.basic",
    "Debug": "returnn.util.debug",
    "DebugHelpers": "returnn.compat.util.debug_helpers",
    "EngineBase": "returnn.engine.base",
    "EngineBatch": "returnn.engine.batch",
    "Fsa": "returnn.util.fsa",
    "GeneratingDataset": "returnn.datasets.generating",
    "HDFDataset": "returnn.datasets.hdf",
    "HyperParamTuning": "returnn.tf.hyper_param_tuning",
    "LearningRateControl": "returnn.learning_rate_control",
    "LmDataset": "returnn.datasets.lm",
    "Log": "returnn.log",
    "MetaDataset": "returnn.datasets.meta",
    "NativeOp": "returnn.native_op",
    "NormalizationData": "returnn.datasets.normalization_data",
    "NumpyDumpDataset": "returnn.datasets.numpy_dump",
    "Pretrain": "returnn.pretrain",
    "RawWavDataset": "returnn.datasets.raw_wav",
    "SprintCache": "returnn.sprint.cache",
    "SprintControl": "returnn.sprint.control",
    "SprintDataset": "returnn.datasets.sprint",
    "SprintErrorSignals": "returnn.sprint.error_signals",
    "SprintInterface": "returnn.sprint.interface",
    "SprintExternInterface": "returnn.sprint.extern_interface",
    "StereoDataset": "returnn.datasets.stereo",
    "TFCompat": "returnn.tf.compat",
    "TFDataPipeline": "returnn.tf.data_pipeline",
    "TFEngine": "returnn.tf.engine",
    "TFDistributed": "returnn.tf.distributed",
    "TFHorovod": "returnn.tf.horovod",
    "TFKenLM": "returnn.tf.util.ken_lm",
    "TFNativeOp": "returnn.tf.native_op",
    "TFNetwork": "returnn.tf.network",
    "TFNetworkLayer": "returnn.tf.layers.basic",
    "TFNetworkRecLayer": "returnn.tf.layers.rec",
    "TFNetworkSegModLayer": "returnn.tf.layers.segmental_model",
    "TFNetworkSigProcLayer": "returnn.tf.layers.signal_processing",
    "TFSprint": "returnn.tf.sprint",
    "TFUpdater": "returnn.tf.updater",
    "TaskSystem": "returnn.util.task_system",
    "TFUtil": "returnn.tf.util.basic",
    "Util": "returnn.util.basic",
    "better_exchook": "returnn.util.better_exchook",
    "rnn": "returnn.__main__",
}

_BATCHES_OF_OPTIONS = (
    "it was for the option 'torch_batching'; batches are as 'batch_size', 'max_seqs', 'min_seq_length', "
    "'max_seq_length' and 'chunking' say, and 'batching' or 'seq_ordering' say in which order"
)
_OF_THEANO = "it belonged to Theano, which is not used here"
_GONE_MODULES = {  # what old scripts import, and nobody has any more -> why, or what to use
    "ActivationFunctions": f"{_OF_THEANO}; returnn.tf.util.basic has 'get_activation_function'",
    "EngineUtil": f"{_OF_THEANO}; 'returnn.tf.engine.Engine' runs the tasks",
    "TFNetworkNeuralTransducer": (
        "its layer class 'neural_transducer' is not there: a 'rec' with 'masked_computation' and 'unmask' in its "
        "subnetwork is a transducer"
    ),
    "returnn.torch.data.returnn_dataset_wrapper": _BATCHES_OF_OPTIONS,
    "returnn.torch.util.debug_inf_nan": (
        "a training stops where loss or gradients are not finite, and says which module was the first"
    ),
}


_MOVED_MODULES = {  # those of PyTorch -> where it is now
    "returnn.torch.context": "returnn.frontend.run_ctx",
    "returnn.torch.util.gradient_checkpoint": "returnn.torch.frontend.gradient_checkpoint",
}
_GONE_NAMES = {  # of modules that are there -> why
    "returnn.torch.data.pipeline": dict.fromkeys(
        (
            *("BatchingIterDataPipe", "ChunkingIterDataPipe", "LenFilterDataPipe", "ShufflingDataPipe"),
            *("collate_batch", "create_data_loader_from_batches", "get_batching_iterable_dataset_from_config"),
        ),
        _BATCHES_OF_OPTIONS,
    ),
}


class _SameModuleLoader(importlib.abc.Loader):
    """Yields a module that exists under another name."""

    def __init__(self, name: str):
        self.name = name
        self.own_spec: importlib.machinery.ModuleSpec | None = None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        module = importlib.import_module(self.name)
        self.own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It ran already. The import system has meanwhile replaced its spec by the one of the old name."""
        module.__spec__ = self.own_spec


class _OldNamesFinder(importlib.abc.MetaPathFinder):
    """Knows the old names behind one prefix. It is asked last, so a user's own module of that name is found first."""

    def __init__(self, prefix: str):
        self.prefix = prefix

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(self.prefix):
            return None
        old_name = fullname.removeprefix(self.prefix)
        reason = _GONE_MODULES.get(old_name) or _GONE_MODULES.get(fullname)
        if reason is not None:
            raise ModuleNotFoundError(f"there is no module {fullname!r}: {reason}.", name=fullname)
        name = OLD_MODULE_NAMES.get(old_name) or _MOVED_MODULES.get(fullname)
        return importlib.machinery.ModuleSpec(fullname, _SameModuleLoader(name)) if name else None


class _SubmodulesFinder(importlib.abc.MetaPathFinder):
    """
    Finds the submodules of packages that were imported under an old name, e.g. `TFNetworkRecLayer.plan`.

    It is asked first, as otherwise Python finds the file in the package, and runs it a second time.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        parent, _, name = fullname.rpartition(".")
        new_parent = OLD_MODULE_NAMES.get(parent.removeprefix("returnn."))
        if new_parent is None or sys.modules.get(parent) is not sys.modules.get(new_parent):
            return None
        return importlib.machinery.ModuleSpec(fullname, _SameModuleLoader(f"{new_parent}.{name}"))


def install_old_submodules() -> None:
    """From now on, `import returnn.TFUtil` works."""
    _install("returnn.")


def install_old_top_level_modules() -> None:
    """From now on, `import TFUtil` works."""
    _install("")


def install_gone_names() -> None:
    """From now on, `from returnn.torch.data.pipeline import ChunkingIterDataPipe` says what there is instead."""
    for module in _GONE_NAMES:
        when_complete(module, functools.partial(_explain_gone_names, module))


def _explain_gone_names(module: str) -> None:
    def explain(name: str) -> Any:
        if name in _GONE_NAMES[module]:
            raise ImportError(f"there is no {name!r} in {module}: {_GONE_NAMES[module][name]}.", name=module)
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    vars(sys.modules[module])["__getattr__"] = explain


def _install(prefix: str) -> None:
    if not any(isinstance(finder, _SubmodulesFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _SubmodulesFinder())
    if not any(isinstance(finder, _OldNamesFinder) and finder.prefix == prefix for finder in sys.meta_path):
        sys.meta_path.append(_OldNamesFinder(prefix))
