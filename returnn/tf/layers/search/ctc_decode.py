"""Decoding of CTC: from the probabilities of each frame to labels or words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy
import tensorflow as tf

import returnn.frontend as rf
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.blank_class import blank_class
from returnn.tf.layers.options.input_type import input_type_warning
from returnn.tf.layers.search.choice_scores import log_scores
from returnn.tf.util import ken_lm
from returnn.tf.util.losses.ctc_search import best_prefix
from returnn.util.errors import ConfigError, check_known
from returnn.util.files.near_files import check_file
from returnn.util.numbers.ctc_search import CtcSearch, LmScore, SpelledWords
from returnn.util.system.warn_once import warn_once
from returnn.util.texts.counted import counted

_INPUT_TYPES = ("prob", "log_prob", "logits")


class CtcDecodeLayer(LayerBase):
    """
    Decodes CTC: the best labels, by the best path or by prefix beam search; with a lexicon the best words.

    Source [B, T, classes], the probabilities of labels and blank; output [B, labels], sparse. For the task "search",
    give it `"only_on_search": True`, and name it in `search_output_layer`. With `lm_file` or `lexicon`, the graph asks
    Python, so that it cannot be exported.
    """

    layer_class = "ctc_decode"
    recurrent = True
    works_on_sequences = True

    def __init__(
        self,
        beam_size: int = 1,
        input_type: str = "prob",
        blank_index: int = -1,
        lexicon: str | None = None,
        lm_file: str | None = None,
        lm_scale: float = 1.0,
        insertion_score: float = 0.0,
        **kwargs: Any,
    ) -> None:
        """
        :param beam_size: number of prefixes that the search keeps. 1: only the best path
        :param input_type: what the source has: "prob", "log_prob" or "logits"
        :param blank_index: the class of blank; negative: counted from the end
        :param lexicon: file with lines `WORD LABEL LABEL ...`: only these words can be said, and the output has words.
            A label between words is part of their spelling; a space is written `<space>`: `tea t e a <space>`, and
            `tea t e a` for the last word
        :param lm_file: language model of KenLM, ARPA or binary: about words with a lexicon, otherwise about labels.
            What it does not have is `<unk>` there, as the label of a space
        :param lm_scale: factor of its scores
        :param insertion_score: is added for each word, or each label without a lexicon
        """
        super().__init__(**kwargs)
        check_known("input_type", input_type, _INPUT_TYPES, where=self.where())
        if not isinstance(beam_size, int) or beam_size < 1:
            raise ConfigError(f"{self.where()}: option 'beam_size': expected a number above 0, got {beam_size!r}.")
        self.beam_size = beam_size
        self.input_type = input_type
        self.blank_index = blank_index
        self.lexicon = lexicon
        self.lm_file = lm_file
        self.lm_scale = lm_scale
        self.insertion_score = insertion_score
        if lexicon and self.loss is not None:
            raise ConfigError(
                f"{self.where()}: with 'lexicon', the output has words, and the target has the labels that spell them,"
                " so that no 'loss' can compare them.\n  Leave it out: search_metrics = ['wer'] scores the words."
            )
        if beam_size == 1 and self._asks_python():
            raise ConfigError(f"{self.where()}: 'lexicon', 'lm_file' and 'insertion_score' need a 'beam_size' above 1.")
        for option, filename in (("lexicon", lexicon), ("lm_file", lm_file)):
            check_file(filename, where=f"{self.where()}: option {option!r}")
        if lm_file:
            ken_lm.check_package()
        elif lm_scale != 1.0:
            warn_once(f"{self.where()}: option 'lm_scale' does nothing without 'lm_file'.")

    def _asks_python(self) -> bool:
        """:return: whether there are more scores than those of the frames"""
        return bool(self.lexicon or self.lm_file or self.insertion_score)

    def compute(self, source: Tensor) -> Tensor:
        """:return: [B, labels]"""
        self.warning = input_type_warning(self, self.input_type, _INPUT_TYPES)
        scores = log_scores(self, 0, source)  # type: ignore[arg-type]  # of a choice, it is about `input_type` alone
        time_dim, classes = source.get_time_dim_tag(), source.feature_dim
        size = classes.dimension or 0
        blank = blank_class(self.blank_index, size, option="blank_index", where=self.where())
        labels = self._label_dim(classes, blank)
        out_dim = self.new_dim("labels")
        if self.beam_size == 1:
            out, _ = rf.ctc_greedy_decode(
                scores, in_spatial_dim=time_dim, blank_index=blank, out_spatial_dim=out_dim, target_dim=labels
            )
            return rf.cast(out, "int32")
        batch = source.get_batch_dim_tag()
        if set(source.dims) != {batch, time_dim, classes}:
            raise ConfigError(f"{self.where()}: expected a source [B, T, classes], got {source}.")
        words = self._spelled_words(labels)
        sparse_dim = labels if words is None else self._word_dim(words)
        out = Tensor(self.name, dims=[batch, out_dim], dtype="int32", sparse_dim=sparse_dim)
        lengths = Tensor(f"{self.name}:lengths", dims=[batch], dtype="int32")
        if get_selected_backend() != "template":
            frames = scores.copy_transpose([batch, time_dim, classes]).raw_tensor
            num_frames = time_dim.get_dyn_size_ext_for_device("cpu").copy_compatible_to_dims_raw([batch])
            if self._asks_python():
                out.raw_tensor, lengths.raw_tensor = self._search(frames, num_frames, blank, labels, words)
            else:
                out.raw_tensor, lengths.raw_tensor = best_prefix(
                    frames, num_frames, beam_size=self.beam_size, blank=blank
                )
        if out_dim.dyn_size is None:
            out_dim.dyn_size_ext = lengths
        return out

    def _label_dim(self, classes: Dim, blank: int) -> Dim:
        """:return: that of the target, if there is one; otherwise the classes, without a blank behind them"""
        size = classes.dimension or 0
        num_labels = size - 1 if blank == size - 1 else size
        target = self.get_target_value()
        if target is None or target.sparse_dim is None:
            return self.new_dim("label", num_labels, kind=Dim.Types.Feature)
        if target.sparse_dim.dimension != num_labels:
            expected = (target.sparse_dim.dimension or 0) + size - num_labels
            raise ConfigError(
                f"{self.where()}: the source has {counted(size, 'class')}, of which {blank} is blank, but the target"
                f" {self.target!r} has {counted(target.sparse_dim.dimension, 'label')}.\n"
                f"  Expected 'n_out' of {self.sources[0].name!r}: {expected}, with blank."
            )
        return target.sparse_dim

    def _spelled_words(self, labels: Dim) -> SpelledWords | None:
        return SpelledWords.from_file(self.lexicon, self._names(labels, "lexicon")) if self.lexicon else None

    def _names(self, labels: Dim, option: str) -> list[str]:
        if labels.vocab is None:
            raise ConfigError(
                f"{self.where()}: option {option!r}: the names of the labels are not known.\n"
                "  Set 'target' to data that has a 'vocab' in 'extern_data'."
            )
        return list(labels.vocab.labels)

    def _word_dim(self, words: SpelledWords) -> Dim:
        dim = self.new_dim("word", len(words.words), kind=Dim.Types.Feature)
        dim.vocab = Vocabulary.create_vocab(labels=words.words, unknown_label=None)
        return dim

    def _search(
        self, frames: tf.Tensor, num_frames: tf.Tensor, blank: int, labels: Dim, words: SpelledWords | None
    ) -> tuple[tf.Tensor, tf.Tensor]:
        names = words.words if words is not None else self._names(labels, "lm_file") if self.lm_file else []
        search = CtcSearch(self.beam_size, blank, words, self._lm_score(names))

        def run(frames: numpy.ndarray, num_frames: numpy.ndarray) -> tuple[numpy.ndarray, numpy.ndarray]:
            best = [search.best(seq[:length])[0][0] for seq, length in zip(frames, num_frames, strict=True)]
            out = numpy.zeros((len(best), max(map(len, best), default=0)), "int32")
            for row, labels in zip(out, best, strict=True):
                row[: len(labels)] = labels
            return out, numpy.array([len(labels) for labels in best], "int32")

        out, lengths = tf.numpy_function(run, [frames, num_frames], (tf.int32, tf.int32))
        out.set_shape((None, None))
        lengths.set_shape((None,))
        return out, lengths

    def _lm_score(self, names: Sequence[str]) -> LmScore:
        model = ken_lm.ken_lm_load(self.lm_file) if self.lm_file else None
        if model is not None:
            self._warn_of_unknown(model, names)

        def score(outputs: tuple[int, ...], is_end: bool) -> float:
            total = self.insertion_score * len(outputs)
            if model is not None:
                words = [names[i] for i in outputs]
                total += self.lm_scale * model.score([*words, "</s>"] if is_end else words)
            return total

        return score

    def _warn_of_unknown(self, model: ken_lm.KenLm, names: Sequence[str]) -> None:
        """Otherwise nobody would know why a search with the model finds no space, or other words."""
        unknown = [name for name in names if not model.has(name)]
        if unknown:
            shown = ", ".join(map(repr, unknown[:5])) + (", ..." if len(unknown) > 5 else "")
            what = "word" if self.lexicon else "label"
            warn_once(
                f"{self.where()}: option 'lm_file': {self.lm_file!r} has {len(names) - len(unknown)} of"
                f" {counted(len(names), what)}; the others are scored as '<unk>': {shown}"
            )
