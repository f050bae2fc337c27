"""What a user gives to a model from Python: files, texts or arrays, as a data set."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.static import StaticDataset
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.engine.data import dataset_option
from returnn.forward_iface import ForwardCallbackIface
from returnn.tensor import Tensor, TensorDict
from returnn.util.errors import UserError, check_known

Input = str | os.PathLike[str] | numpy.ndarray | Sequence[Any]
Inputs = Sequence[Input] | Mapping[str, Sequence[Input]]  # with a mapping, by data key
_AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
_DATA_WITH_AUDIO = ("search_data", "dev", "eval", "train")


class ModelInputs:
    """Knows what a model expects."""

    def __init__(self, config: Config, default_key: str, templates: Mapping[str, Tensor]) -> None:
        """
        :param config: its data sets say which features audio has
        :param default_key: of the input
        :param templates: by data key
        """
        self.config = config
        self._default_key = default_key
        self._templates = templates

    def dataset(self, inputs: Inputs) -> Dataset:
        """
        :param inputs: audio files, texts, or arrays of frames or labels; maybe by data key
        :return: with the tags of `tags`, sorted by length
        :raises UserError: if an input does not fit to the model
        """
        by_key = inputs if isinstance(inputs, Mapping) else {self._default_key: inputs}
        arrays, dims = {}, {}
        for key, items in by_key.items():
            check_known("data key", key, self._templates, where="the inputs")
            if isinstance(items, (str, os.PathLike)) or not len(items):
                raise UserError("decode and forward: expected a list of inputs, such as ['a.wav'].")
            template = self._templates[key]
            arrays[key] = [self._array(item, template) for item in items]
            dims[key] = (template.dim or 0, 1 if template.sparse else 2)
        numbers = {key: len(items) for key, items in arrays.items()}
        if len(set(numbers.values())) != 1:
            raise UserError(f"decode and forward: as many inputs of each data key are needed, got {numbers}.")
        seqs = [dict(zip(arrays, items, strict=True)) for items in zip(*arrays.values(), strict=True)]
        dataset = StaticDataset(seqs, output_dim=dims)
        dataset.seq_ordering = "sorted"  # so that those in a batch have similar lengths
        return dataset

    def _array(self, item: Input, template: Tensor) -> numpy.ndarray:
        if isinstance(item, (str, os.PathLike)):
            item = self._of_text(str(item), template)
        array = numpy.asarray(item, dtype=template.dtype)
        if array.ndim != len(template.dims) - 1 or (array.ndim > 1 and array.shape[-1] != template.dim):
            raise UserError(f"the input has the shape {list(array.shape)}, but the model expects {template}.")
        return array

    def _of_text(self, text: str, template: Tensor) -> Any:
        if text.lower().endswith(_AUDIO_SUFFIXES):
            return self._of_audio_file(text)
        if template.vocab is None:
            raise UserError(
                f"{text[:60]!r} is no audio file ({', '.join(_AUDIO_SUFFIXES)}), and the input {template} has no"
                " 'vocab', so that text cannot be its labels."
            )
        return template.vocab.get_seq(text)

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


class OutputOfSeqs(ForwardCallbackIface):
    """Keeps one output."""

    def __init__(self, name: str) -> None:
        """:param name: of the output"""
        self._name = name
        self.by_tag: dict[str, numpy.ndarray] = {}

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """Adds a sequence."""
        check_known("output", self._name, outputs.data, where="forward: option 'layer'")
        output: Tensor = outputs[self._name]
        self.by_tag[seq_tag] = output.raw_tensor


def tags(results: Collection[str]) -> list[str]:
    """
    :param results: by tag, as many as there were inputs
    :return: of the sequences of `ModelInputs.dataset`, in the order in which they were given
    """
    return [f"seq-{i}" for i in range(len(results))]


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
