"""`Model`: a trained model, to be used from Python: `returnn.load("model.config").decode(["a.wav"])`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.static import StaticDataset
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.engine.data import dataset_option
from returnn.engine.hypothesis_files import best_hypothesis
from returnn.forward_iface import ForwardCallbackIface
from returnn.tensor import Tensor, TensorDict
from returnn.tf.engine.engine import Engine
from returnn.tf.engine.tasks import forward_engine, search_engine
from returnn.tf.network import ExternData
from returnn.util.errors import UserError

Input = str | os.PathLike[str] | numpy.ndarray | Sequence[Any]
_AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
_DATA_WITH_AUDIO = ("search_data", "dev", "eval", "train")


class Model:
    """The network of a config with the parameters of one of its epochs."""

    def __init__(self, config: Config) -> None:
        """:param config: as for the task "search" or "forward\""""
        self.config = config
        self._engine: Engine | None = None
        self._mode: str | None = None
        self._search_layers: list[str] = []
        extern_data = ExternData()
        extern_data.init_from_config(config)
        self._key = extern_data.default_input
        self._data = extern_data.get_default_input_data()

    def decode(self, inputs: Sequence[Input], *, with_beam: bool = False) -> list[Any]:
        """
        :param inputs: audio files, texts, or arrays of frames or labels
        :param with_beam: all hypotheses, as pairs of score and text, and not only the best one
        :return: text of each of them. Several are computed at once, as `batch_size` and `max_seqs` say
        :raises UserError: if an input does not fit to the network
        """
        engine = self._engine_for("search")
        results = engine.search(self._dataset(inputs), do_eval=False, output_layer_names=self._search_layers)
        hypotheses = [results[tag] for tag in _tags(inputs)]
        return hypotheses if with_beam else [best_hypothesis(hyps) for hyps in hypotheses]

    def forward(self, inputs: Sequence[Input], layer: str | None = None) -> list[numpy.ndarray]:
        """
        :param inputs: audio files, texts, or arrays of frames or labels
        :param layer: whose output is wanted; default: `forward_output_layer`, or "output"
        :return: output for each of them, without padding
        :raises UserError: if an input does not fit to the network, or if there is no such layer
        """
        name = layer or self.config.options.forward_output_layer
        engine = self._engine_for(f"forward {name}", layer=name)
        outputs = _Outputs(name)
        engine.forward_with_callback(dataset=self._dataset(inputs), callback=outputs)
        return [outputs.by_tag[tag] for tag in _tags(inputs)]

    def close(self) -> None:
        """Frees the memory of the session."""
        if self._engine is not None:
            self._engine.finalize()
            self._engine, self._mode = None, None

    def _engine_for(self, mode: str, layer: str = "") -> Engine:
        """:return: with the network for that. There is one at a time, as with `rnn.py`"""
        if self._engine is None or mode != self._mode:
            self.close()
            if mode == "search":
                self.config.set("task", "search")
                self._engine, self._search_layers = search_engine(self.config, with_losses=False)
            else:
                self.config.set("task", "forward")
                self._engine = forward_engine(self.config, layer)
            self._mode = mode
        return self._engine

    # Inputs.

    def _dataset(self, inputs: Sequence[Input]) -> Dataset:
        if isinstance(inputs, (str, os.PathLike)) or not len(inputs):
            raise UserError("decode and forward: expected a list of inputs, such as ['a.wav'].")
        arrays = [self._array(item) for item in inputs]
        dim = (self._data.dim or 0, 1 if self._data.sparse else 2)
        dataset = StaticDataset([{self._key: array} for array in arrays], output_dim={self._key: dim})
        dataset.seq_ordering = "sorted"  # so that those in a batch have similar lengths
        return dataset

    def _array(self, item: Input) -> numpy.ndarray:
        if isinstance(item, (str, os.PathLike)):
            item = self._of_text(str(item))
        array = numpy.asarray(item, dtype=self._data.dtype)
        if array.ndim != len(self._data.dims) - 1 or (array.ndim > 1 and array.shape[-1] != self._data.dim):
            raise UserError(f"the input has the shape {list(array.shape)}, but the network expects {self._data}.")
        return array

    def _of_text(self, text: str) -> Any:
        if text.lower().endswith(_AUDIO_SUFFIXES):
            return self._of_audio_file(text)
        if self._data.vocab is None:
            raise UserError(
                f"{text[:60]!r} is no audio file ({', '.join(_AUDIO_SUFFIXES)}), and the input {self._data} has no"
                " 'vocab', so that text cannot be its labels."
            )
        return self._data.vocab.get_seq(text)

    def _of_audio_file(self, filename: str) -> numpy.ndarray:
        if not os.path.exists(filename):
            raise UserError(f"there is no file {filename!r}.")
        with open(filename, "rb") as file:
            return self._features().get_audio_features_from_raw_bytes(file.read(), seq_name=filename)

    def _features(self) -> ExtractAudioFeatures:
        """:return: those of the data sets of the config"""
        for name in _DATA_WITH_AUDIO:
            description = dataset_option(self.config, name)
            description = description() if callable(description) else description
            audio = _find(description, "audio")
            if isinstance(audio, Mapping):
                return ExtractAudioFeatures(**{key: value for key, value in audio.items() if key != "random_permute"})
        raise UserError(
            f"no data set of the config ({', '.join(_DATA_WITH_AUDIO)}) says by 'audio' which features audio has.\n"
            "  Give arrays of features in place of files."
        )


class _Outputs(ForwardCallbackIface):
    def __init__(self, layer: str) -> None:
        self._layer = layer
        self.by_tag: dict[str, numpy.ndarray] = {}

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        output: Tensor = outputs[self._layer]
        self.by_tag[seq_tag] = output.raw_tensor


def _tags(inputs: Sequence[Input]) -> list[str]:
    return [f"seq-{i}" for i in range(len(inputs))]


def _find(description: Any, key: str) -> Any:
    """:return: the option of a data set, or of one inside of it; None if there is none"""
    if isinstance(description, Mapping):
        if isinstance(description.get(key), Mapping):
            return description[key]
        for value in description.values():
            found = _find(value, key)
            if found is not None:
                return found
    return None
