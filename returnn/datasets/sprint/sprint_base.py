"""`SprintDatasetBase`: sequences that RASR hands over, in another thread."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from threading import Condition
from typing import Any, ClassVar

import numpy

from returnn.datasets.cached2 import CachedDataset2
from returnn.datasets.core.dataset_seq import DEFAULT_KEY, Array, DatasetSeq
from returnn.datasets.core.errors import DataError
from returnn.datasets.core.seq_order import SeqOrder
from returnn.datasets.util.seq_lists import load_python_data
from returnn.datasets.util.text_post_process import TextFunc, get_post_processor_function
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.util.errors import ConfigError, UserError

_CLASSES, _ORTH, _ORTH_CLASSES, _BPE, _SPEAKER = "classes", "orth", "orth_classes", "bpe", "speaker_name"
_ZERO = "0"  # ends the data keys whose bytes end with a zero
_BYTE_KEYS = (_ORTH, _SPEAKER, _ORTH + _ZERO, _SPEAKER + _ZERO)
_NUM_BYTES = 256
TargetMap = Mapping[Any, Any] | Callable[[Any], Any]


class SprintDatasetBase(CachedDataset2):
    """
    The thread of RASR calls `init_sprint_epoch`, `add_new_data` for each sequence, and `finish_sprint_epoch`; at the
    end of all, `finalize_sprint`. It waits as long as there are enough sequences that nobody has taken.

    Keys: "data" (features), "classes" (labels of an alignment, if RASR has them), "orth" (bytes of the text),
    "orth_classes" and "bpe" (labels of the text), "orth0" (bytes of the text and a zero).
    """

    SprintCachedSeqsMax: ClassVar[int] = 200
    SprintCachedSeqsMin: ClassVar[int] = 100

    def __init__(
        self,
        target_maps: Mapping[str, TargetMap | str] | None = None,
        str_add_final_zero: bool = False,
        input_stddev: float = 1.0,
        orth_post_process: str | TextFunc | Sequence[str | TextFunc] | None = None,
        bpe: Mapping[str, Any] | None = None,
        orth_vocab: Mapping[str, Any] | None = None,
        suppress_load_seqs_print: bool = False,
        reduce_target_factor: int = 1,
        **kwargs: Any,
    ):
        """
        :param target_maps: for other targets of RASR: key -> dict from its value to a label, or file with such, or
            function
        :param str_add_final_zero: adds the key "orth0" (and "speaker_name0"): the bytes, and a zero byte at their end
        :param input_stddev: features are divided by it
        :param orth_post_process: changes the text first, see `get_post_processor_function`
        :param bpe: options of `BytePairEncoding`, for the key "bpe"
        :param orth_vocab: options of `Vocabulary`, for the key "orth_classes"
        :param suppress_load_seqs_print: old configs have it; nothing is printed when sequences are loaded
        :param reduce_target_factor: take each n-th label of "classes" only
        """
        super().__init__(**kwargs)
        if self.repeat_epoch > 1 or self.unique_seq_tags:
            raise ConfigError(f"{self.description}: 'repeat_epoch' and 'unique_seq_tags' are not possible with RASR.")
        self.target_maps = {key: self._load_target_map(value) for key, value in (target_maps or {}).items()}
        self.str_add_final_zero = str_add_final_zero
        if input_stddev <= 0:
            raise ConfigError(f"{self.description}: option 'input_stddev': {input_stddev} is not positive.")
        self.input_stddev = input_stddev
        self.orth_post_process = get_post_processor_function(orth_post_process) if orth_post_process else None
        self.bpe = Vocabulary.create_vocab(**{"class": "BytePairEncoding", **bpe}) if bpe is not None else None
        self.orth_vocab = Vocabulary.create_vocab(**orth_vocab) if orth_vocab is not None else None
        self.suppress_load_seqs_print = suppress_load_seqs_print
        self.reduce_target_factor = self._positive("reduce_target_factor", reduce_target_factor)
        self.cond = Condition(self.lock)
        self.multiple_epochs = False
        self.predefined_seq_list_order: list[str] | None = None
        self.returnn_epoch: int | None = None
        self.sprint_epoch: int | None = None
        self.sprint_finalized = False
        self.ready_for_data = False
        self._epoch_ended = False
        self._waiting: deque[tuple[str | None, dict[str, Array]]] = deque()
        self._complete_frac: float | None = None
        self._error: UserError | None = None
        self._num_outputs_of_text()

    # For the thread that reads. The rest is as for other data sets.

    def init_seq_order(
        self, epoch: int | None = None, seq_list: Sequence[str] | None = None, seq_order: SeqOrder | None = None
    ) -> bool:
        """:raises ConfigError: with `seq_order`: RASR knows sequences by name alone"""
        if seq_order is not None:
            raise ConfigError(f"{self.description}: RASR knows sequences by name alone, give 'seq_list'.")
        with self.cond:
            super().init_seq_order(epoch=epoch, seq_list=seq_list)
            self.predefined_seq_list_order = None if seq_list is None else list(seq_list)
            self._waiting.clear()
            self._complete_frac = None
            self._epoch_ended = False
            self._error = None
            self.ready_for_data = False
            self.returnn_epoch = epoch or 1
            for vocab in filter(None, (self.orth_vocab, self.bpe)):
                vocab.set_random_seed(self.get_random_seed_for_epoch(self.returnn_epoch))
            self.cond.notify_all()
        return True

    def _collect_single_seq(self, seq_idx: int) -> DatasetSeq | None:
        with self.cond:
            self.cond.wait_for(lambda: self._waiting or self._epoch_ended or self._error or self.sprint_finalized)
            if self._waiting:
                name, data = self._waiting.popleft()
                if len(self._waiting) <= self.SprintCachedSeqsMin:
                    self.cond.notify_all()
                return DatasetSeq(seq_idx, data, seq_tag=name, complete_frac=self._complete_frac)
            if self._error:
                raise self._error
            return None

    def get_input_data(self, sorted_seq_idx: int) -> Array:
        return super().get_input_data(sorted_seq_idx)

    def get_targets(self, target: str, sorted_seq_idx: int) -> Array:
        return super().get_targets(target, sorted_seq_idx)

    def get_data_keys(self) -> list[str]:
        return list(self.num_outputs)

    def get_data_dtype(self, key: str) -> str:
        return "float32" if key == DEFAULT_KEY else "uint8" if key in _BYTE_KEYS else "int32"

    # For the thread of RASR.

    def use_multiple_epochs(self) -> None:
        """From here on, `init_sprint_epoch` waits until its epoch is wanted."""
        self.multiple_epochs = True

    def set_dimensions(self, input_dim: int, output_dim: int) -> None:
        """
        Called before anything else.

        :param input_dim: of the features
        :param output_dim: number of labels, 0: there are none
        """
        with self.cond:
            self.num_inputs = input_dim
            self.num_outputs[DEFAULT_KEY] = (input_dim, 2)
            if output_dim > 0:
                self.num_outputs[_CLASSES] = (output_dim, 1)
            self.cond.notify_all()

    def init_sprint_epoch(self, epoch: int | None) -> None:
        """RASR begins an epoch. None: whatever is wanted."""
        if self.multiple_epochs and epoch is not None:
            self.wait_for_returnn_epoch(epoch)
        with self.cond:
            self.sprint_epoch = epoch
            self._epoch_ended = False
            self.ready_for_data = True
            self.cond.notify_all()

    def wait_for_returnn_epoch(self, epoch: int) -> None:
        """Waits until this epoch is wanted."""
        with self.cond:
            self.cond.wait_for(lambda: self.sprint_finalized or (self.returnn_epoch or 0) >= epoch)

    def set_complete_frac(self, frac: float) -> None:
        """
        :param frac: how much of the epoch is done, 0 to 1
        """
        with self.cond:
            self._complete_frac = frac

    def add_new_data(
        self, features: Array, targets: Mapping[str, Any] | Array | None = None, segment_name: str | None = None
    ) -> int:
        """
        Adds a sequence. Waits while there are too many of them.

        :param features: (dim, frames), as RASR has it
        :param targets: "classes" (frames,), "orth" and "speaker_name" (text), or others which `target_maps` knows
        :param segment_name: becomes the tag
        :return: number of sequences that wait
        """
        if self.seq_tags_filter is not None and segment_name not in self.seq_tags_filter:
            return len(self._waiting)
        try:
            data = self._make_data(features, targets)
        except UserError as exc:
            raise DataError(str(exc).removesuffix("."), dataset=self.description, seq=segment_name) from exc
        with self.cond:
            self.cond.wait_for(lambda: len(self._waiting) < self.SprintCachedSeqsMax or not self.ready_for_data)
            if self.ready_for_data:  # otherwise the epoch was given up in the meantime
                self._waiting.append((segment_name, data))
                self.cond.notify_all()
            return len(self._waiting)

    def finish_sprint_epoch(self, seen_all: bool = True) -> None:
        """
        There are no more sequences in this epoch.

        :param seen_all: otherwise RASR has stopped before the end, and what it has not handed over is missing
        """
        with self.cond:
            self._epoch_ended = True
            self.ready_for_data = False
            if not seen_all:
                self._error = UserError(f"{self.description}: RASR has stopped before the end of the epoch.")
            self.cond.notify_all()

    def finalize_sprint(self) -> None:
        """RASR ends."""
        with self.cond:
            self.sprint_finalized = True
            self.ready_for_data = False
            self.cond.notify_all()

    def _fail(self, error: UserError) -> None:
        with self.cond:
            self._error = error
            self.ready_for_data = False
            self.cond.notify_all()

    # Data.

    def _num_outputs_of_text(self) -> None:
        self.num_outputs = dict.fromkeys(self._bytes(_ORTH, ""), (_NUM_BYTES, 1))
        for key, vocab in ((_ORTH_CLASSES, self.orth_vocab), (_BPE, self.bpe)):
            if vocab:
                self.num_outputs[key] = (vocab.num_labels, 1)
                self.labels[key] = vocab.labels
                self.vocabs[key] = vocab
        for key, target_map in self.target_maps.items():
            if isinstance(target_map, Mapping):
                self.num_outputs.setdefault(key, (max(target_map.values(), default=0) + 1, 1))

    def _make_data(self, features: Array, targets: Mapping[str, Any] | Array | None) -> dict[str, Array]:
        if targets is None:
            targets = {}
        elif not isinstance(targets, Mapping):
            targets = {_CLASSES: targets}
        if len(features) != self.num_inputs:
            raise UserError(f"RASR gives {len(features)} features, it has announced {self.num_inputs}.")
        data = {DEFAULT_KEY: numpy.ascontiguousarray(features.T, dtype="float32")}
        if self.input_stddev != 1:
            data[DEFAULT_KEY] /= self.input_stddev
        for key, target in targets.items():
            if key not in (_ORTH, _SPEAKER):
                data[key] = self._mapped(key, target)
        data.update(self._data_of_text(_as_text(targets.get(_ORTH, ""))))
        if _SPEAKER in targets:
            data.update(self._bytes(_SPEAKER, _as_text(targets[_SPEAKER])))
        if _CLASSES in data and self.reduce_target_factor > 1:
            data[_CLASSES] = data[_CLASSES][:: self.reduce_target_factor]
        return data

    def _data_of_text(self, text: str) -> dict[str, Array]:
        text = self.orth_post_process(text) if self.orth_post_process else text
        data = self._bytes(_ORTH, text)
        for key, vocab in ((_ORTH_CLASSES, self.orth_vocab), (_BPE, self.bpe)):
            if vocab:
                data[key] = numpy.array(vocab.get_seq(text), dtype="int32")
        return data

    def _bytes(self, key: str, text: str) -> dict[str, Array]:
        """:return: by data key"""
        content = text.encode("utf-8")
        data = {key: content, key + _ZERO: content + b"\0"} if self.str_add_final_zero else {key: content}
        return {name: numpy.frombuffer(value, dtype="uint8") for name, value in data.items()}

    def _mapped(self, key: str, target: Any) -> Array:
        target_map = self.target_maps.get(key)
        if target_map is None:
            return numpy.asarray(target).astype("int32")
        if callable(target_map):
            return numpy.asarray(target_map(target))
        try:
            labels = [target_map[value] for value in ([target] if isinstance(target, str | bytes) else target)]
        except KeyError as exc:
            raise UserError(f"option 'target_maps': {key!r} has no {exc.args[0]!r}.") from exc
        return numpy.array(labels, dtype="int32")

    def _load_target_map(self, value: TargetMap | str) -> TargetMap:
        if not isinstance(value, str):
            return value
        content = load_python_data(value, where=self.description)
        return content if isinstance(content, Mapping) else {label: i for i, label in enumerate(content)}


def _as_text(value: str | bytes) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else value
