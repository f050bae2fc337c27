"""What a user gives to a model from Python: files, texts or arrays, as a data set."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy

from returnn.config import Config
from returnn.datasets.audio_options import audio_options
from returnn.datasets.core.dataset import Dataset
from returnn.datasets.core.dataset_seq import DEFAULT_KEY
from returnn.datasets.core.registry import eval_config_expression
from returnn.datasets.static import StaticDataset
from returnn.datasets.util.audio_file import decode_audio
from returnn.datasets.util.feature_extraction import ExtractAudioFeatures
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.datasets.whole_data import augmentation_of
from returnn.engine.data import dataset_option
from returnn.forward_iface import ForwardCallbackIface
from returnn.log import log
from returnn.tensor import Tensor, TensorDict
from returnn.util.errors import UserError, check_known
from returnn.util.files.near_files import hint_for_missing_file
from returnn.util.system.warn_once import num_shown
from returnn.util.texts.counted import counted

Input = str | os.PathLike[str] | bytes | numpy.ndarray | Sequence[Any]
Inputs = Sequence[Input] | Mapping[str, Sequence[Input]]  # with a mapping, by data key
_AUDIO_SUFFIXES = (".wav", ".flac", ".ogg", ".mp3")
_IN_CONFIG = "config:"
_KINDS = {"i": "iu", "u": "iu", "b": "b", "f": "fiu"}  # of NumPy's dtypes: what is wanted -> what can be given
_DATA_WITH_AUDIO = ("search_data", "dev", "eval", "train")


def _own_vocab(config: Config, key: str) -> Any:
    """:return: that of the data key alone: keys with the same dim of labels may differ in the label of the end"""
    described = (config.opt_typed_value("extern_data") or {}).get(key)
    vocab = described.get("vocab") if isinstance(described, Mapping) else None
    return Vocabulary.create_vocab(**vocab) if isinstance(vocab, Mapping) else vocab


class ModelInputs:
    """Knows what a model expects."""

    def __init__(self, config: Config, default_key: str, templates: Mapping[str, Tensor]) -> None:
        """
        :param config: its data sets say which features audio has
        :param default_key: of the input
        :param templates: by data key
        """
        self.config = config
        self.default_key = default_key
        self.needed: frozenset[str] = frozenset()  # keys that a search needs, as far as that is known
        self._templates = templates
        self._sample_rates: set[int] = set()  # of all audio so far
        self._vocabs = {key: _own_vocab(config, key) for key in templates}

    def dataset(self, inputs: Inputs, *, may_be_empty: bool = False) -> Dataset:
        """
        :param inputs: audio files or their content, texts, or arrays of frames or labels; maybe by data key
        :param may_be_empty: whether texts, frames and labels may be none
        :return: with the tags of `tags`, sorted by length
        :raises UserError: if an input does not fit to the model
        """
        by_key = inputs if isinstance(inputs, Mapping) else {self.default_key: inputs}
        arrays, dims = {}, {}
        for key, items in by_key.items():
            check_known("data key", key, self._templates, where="the inputs")
            if not isinstance(items, (Sequence, numpy.ndarray)) or isinstance(items, (str, bytes)):
                raise UserError("decode and forward: expected a list of inputs, such as ['a.wav'].")
            template = self._templates[key]
            arrays[key] = [self._array_of_list(i, item, key, may_be_empty=may_be_empty) for i, item in enumerate(items)]
            dims[key] = (template.dim or 0, len(_sizes_of_seq(template)))
        numbers = {key: len(items) for key, items in arrays.items()}
        if len(set(numbers.values())) != 1:
            raise UserError(f"decode and forward: as many inputs of each data key are needed, got {numbers}.")
        _warn_of_half_empty(arrays)
        seqs = [dict(zip(arrays, items, strict=True)) for items in zip(*arrays.values(), strict=True)]
        dataset = StaticDataset(seqs, output_dim=dims)
        dataset.seq_ordering = "sorted"  # so that those in a batch have similar lengths
        return dataset

    def array(self, key: str, item: Input, *, max_audio_s: float = math.inf) -> numpy.ndarray:
        """
        :param key: of the data
        :param item: content of an audio file, text, or frames or labels. A text is never the name of a file
        :param max_audio_s: longer audio is an error
        :return: as the model needs it
        :raises UserError: if it does not fit to the model
        """
        check_known("data key", key, self._templates, where="the inputs")
        return self._array(item, key, max_audio_s=max_audio_s)

    def is_one_value(self, key: str) -> bool:
        """:return: whether a sequence has one number or label of this data key, such as the language, and no axes"""
        check_known("data key", key, self._templates, where="the inputs")
        return not _sizes_of_seq(self._templates[key])

    def describe(self, *, for_search: bool) -> dict[str, dict[str, Any]]:
        """
        :param for_search: without what a search should find
        :return: by data key: what it is, and whether it can be text or audio
        """
        return {
            key: {
                "data": str(template),
                "text": template.vocab is not None,
                "audio": not template.sparse and self._audio_options(key) is not None,
            }
            for key, template in self._templates.items()
            if template.available_for_inference or not for_search or key in self.needed
        }

    def _array_of_list(self, index: int, item: Input, key: str, *, may_be_empty: bool) -> numpy.ndarray:
        file = f" ({os.fspath(item)[:60]!r})" if isinstance(item, (str, os.PathLike)) else ""
        name = f"input {index}{file}"  # of many inputs, which one it is
        try:
            array = self._array(self._content_of_file(item), key, name=name)
            _check_values(array, self._templates[key], may_be_empty=may_be_empty)
            return array
        except UserError as exc:
            raise UserError(f"{name}: {str(exc).removeprefix(f'{name}: ')}") from exc

    def _content_of_file(self, item: Input) -> Input:
        """:return: content, if it is the name of an audio file"""
        name = os.fspath(item) if isinstance(item, (str, os.PathLike)) else ""
        if not name.lower().endswith(_AUDIO_SUFFIXES):
            return name if isinstance(item, os.PathLike) else item
        if not os.path.exists(name):
            raise UserError(f"there is no file {name!r}.{hint_for_missing_file(name)}")
        with open(name, "rb") as file:
            return file.read()

    def _array(self, item: Input, key: str, *, max_audio_s: float = math.inf, name: str = "the input") -> numpy.ndarray:
        template = self._templates[key]
        if isinstance(item, str):
            item = self._of_text(item, key)
        elif isinstance(item, bytes):
            item = self._of_audio(item, key, max_s=max_audio_s, name=name)
        array = _as_array(item, template)
        sizes = _sizes_of_seq(template)
        if array.ndim != len(sizes) or any(size not in (None, n) for n, size in zip(array.shape, sizes, strict=True)):
            raise UserError(f"the input has the shape {list(array.shape)}, but the model expects {template}.")
        return array

    def _of_text(self, text: str, key: str) -> Any:
        template = self._templates[key]
        vocab = self._vocabs[key] or template.vocab
        if vocab is None:
            raise UserError(
                f"{text[:60]!r} is no audio file ({', '.join(_AUDIO_SUFFIXES)}), and the input {template} has no"
                " 'vocab', so that text cannot be its labels."
            )
        labels = vocab.get_seq(text)
        if not self.is_one_value(key):
            return labels
        if len(labels) != 1:
            raise UserError(f"{text[:60]!r} is {counted(len(labels), 'label')}, but the model expects one: {template}.")
        return labels[0]

    def _of_audio(self, content: bytes, key: str, *, max_s: float, name: str) -> numpy.ndarray:
        template = self._templates[key]
        if template.sparse:
            raise UserError(f"the input cannot be audio, as the model expects {template}.")
        options = self._audio_options(key)
        if options is None:
            raise UserError(
                f"no data set of the config ({', '.join(_DATA_WITH_AUDIO)}) says by 'audio' which features audio has.\n"
                "  Give arrays of features in place of files."
            )
        options = {option: value for option, value in options.items() if option != "random_permute"}
        if (change := augmentation_of(options)) is not None:  # only the data for training say what features audio has
            _warn(
                f"audio features of {key!r}: {change}, also here, where nothing is trained.\n"
                "  Set 'dev' or 'search_data' to data without that."
            )
        features = ExtractAudioFeatures(**options)
        audio, sample_rate = decode_audio(content, name=name, max_s=max_s, warn=_warn)
        if features.sample_rate is None:
            self._watch_sample_rate(sample_rate, name)
        return features.get_audio_features(audio, sample_rate)

    def _watch_sample_rate(self, sample_rate: int, name: str) -> None:
        """Warns once for each: nobody has noted that of the training."""
        others = sorted(self._sample_rates - {sample_rate})
        if sample_rate not in self._sample_rates:
            before = f", that before {others[0]} Hz," if others else ""
            _warn(
                f"{name}: the audio has {sample_rate} Hz{before} and is not resampled. At another rate than in the"
                " training, equal sounds have other features.\n"
                "  Set 'sample_rate' of the option 'audio' to that of the training."
            )
        self._sample_rates.add(sample_rate)

    def _audio_options(self, key: str) -> Mapping[str, Any] | None:
        """:return: of the features of the key, as the data sets of the config have them"""
        for name in _DATA_WITH_AUDIO:
            description = dataset_option(self.config, name)
            if isinstance(description, str) and description.startswith(_IN_CONFIG):
                description = eval_config_expression(description.removeprefix(_IN_CONFIG), self.config)
            audio = audio_options(description, key)
            if audio is not None:
                return audio
        return None


def _sizes_of_seq(template: Tensor) -> list[int | None]:
    """:return: of the axes that one sequence has in a data set, time first; None where it has its own"""
    time = template.get_time_dim_tag() if template.have_time_axis() else None
    dims = [dim for axis, dim in enumerate(template.dims) if axis != template.batch_dim_axis]
    return [dim.dimension for dim in sorted(dims, key=lambda dim: dim is not time)]


def _warn(text: str) -> None:
    """Also who has a model in Python, where the log is off, has to know it."""
    num_before = num_shown()
    log.print_warning(text)
    if not log.verbose[2] and num_shown() > num_before:
        print(f"WARNING: {text}", file=sys.stderr)


def _warn_of_half_empty(arrays: Mapping[str, Sequence[numpy.ndarray]]) -> None:
    """Says that nothing is found without frames in the first data key, whatever others have; see `end_with_a_frame`."""
    first = DEFAULT_KEY if DEFAULT_KEY in arrays else next(iter(arrays))
    others = [items for key, items in arrays.items() if key != first]
    wrong = [i for i, item in enumerate(arrays[first]) if not item.size and any(other[i].size for other in others)]
    if wrong:
        more = f" and {counted(len(wrong) - 1, 'other')}" if len(wrong) > 1 else ""
        has, what = ("have", "results are") if len(wrong) > 1 else ("has", "result is")
        _warn(
            f"input {wrong[0]}{more} {has} nothing as {first!r}, though something as another data key: the {what}"
            f" empty, too. Nothing is searched without {first!r}."
        )


def are_none(inputs: Inputs) -> bool:
    """:return: whether it is an empty list, or there is one for each data key"""
    by_key = inputs.values() if isinstance(inputs, Mapping) else [inputs]
    are_lists = all(isinstance(items, (Sequence, numpy.ndarray)) and not isinstance(items, str) for items in by_key)
    return bool(by_key) and are_lists and not any(map(len, by_key))


def _as_array(item: Any, template: Tensor) -> numpy.ndarray:
    """:raises UserError: if it is no array, or has values that cannot be those of the data"""
    if isinstance(item, Sequence) and any(isinstance(part, str) for part in item):
        raise UserError(f"the input is a list of texts, but one text is one input, and the model expects {template}.")
    try:
        array = numpy.asarray(item)
        is_of_kind = array.dtype.kind in _KINDS.get(numpy.dtype(template.dtype).kind, "fiuc") or not array.size
        array = array.astype(template.dtype)
    except (ValueError, TypeError, OverflowError) as exc:
        reason = str(exc).rstrip(".")
        raise UserError(f"the input is no array of numbers, but the model expects {template}: {reason}.") from None
    if not is_of_kind:
        raise UserError(f"the input has values that are no {template.dtype}, but the model expects {template}.")
    if template.sparse and array.size and not 0 <= array.min() <= array.max() < (template.dim or math.inf):
        raise UserError(f"the input has labels from {array.min()} to {array.max()}, but the model expects {template}.")
    return array


def _check_values(array: numpy.ndarray, template: Tensor, *, may_be_empty: bool) -> None:
    """:raises UserError: if there are no frames, or some that no data set would have"""
    if not array.size and not may_be_empty:
        raise UserError(f"it is empty: there are no frames or labels in it, the shape is {list(array.shape)}.")
    if array.dtype.kind == "f" and not numpy.isfinite(array).all():
        raise UserError(f"the input has values that are not finite, but the model expects {template}.")


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
