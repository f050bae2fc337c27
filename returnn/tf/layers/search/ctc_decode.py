"""Decoding of CTC: from the probabilities of each frame to labels or words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

import returnn.frontend as rf
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.frontend import get_selected_backend
from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.layer_base import LayerBase
from returnn.tf.layers.options.blank_class import are_labels_and_blank, blank_class, other_classes_than_labels
from returnn.tf.layers.options.input_type import input_type_warning
from returnn.tf.layers.search.beam import Beam, score_dtype
from returnn.tf.layers.search.choice_scores import log_scores
from returnn.tf.layers.search.search_choices import SearchChoices
from returnn.tf.util import ken_lm
from returnn.tf.util.losses.ctc_search import best_of_search, best_prefixes
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

    With `num_best`, the output is a beam of hypotheses, as of a loop with a choice: a search writes lists of them with
    their scores, and `decide` takes the best one.
    """

    layer_class = "ctc_decode"
    recurrent = True
    works_on_sequences = True

    def __init__(
        self,
        beam_size: int = 1,
        num_best: int = 1,
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
        :param num_best: number of hypotheses of each sequence in the output, at most `beam_size`. Their scores are log
            probabilities, with those of the language model. A `loss` is the mean over all of them; that of the best one
            belongs to a `decide` behind it
        :param input_type: what the source has: "prob", "log_prob" or "logits"
        :param blank_index: the class of blank; negative: counted from the end. It is the class behind the labels, or a
            label that is in no target. Each label is the class of the same index, also where blank is before it
        :param lexicon: file with lines `WORD LABEL LABEL ...`: only these words can be said, and the output has words.
            A label between words is part of their spelling; a space is written `<space>`: `tea t e a <space>`, and
            `tea t e a` for the last word. The names of these labels are those of the target of the source; the own
            `target` can be data with words, by which `search_metrics` scores them
        :param lm_file: language model of KenLM, ARPA or binary: about words with a lexicon, otherwise about labels.
            What it does not have is `<unk>` there, as the label of a space
        :param lm_scale: factor of its scores
        :param insertion_score: is added for each word, or each label without a lexicon
        """
        super().__init__(**kwargs)
        check_known("input_type", input_type, _INPUT_TYPES, where=self.where())
        if not isinstance(beam_size, int) or beam_size < 1:
            raise ConfigError(f"{self.where()}: option 'beam_size': expected a number above 0, got {beam_size!r}.")
        if not isinstance(num_best, int) or not 1 <= num_best <= beam_size:
            raise ConfigError(
                f"{self.where()}: option 'num_best': expected a number from 1 to 'beam_size', {beam_size}, got"
                f" {num_best!r}."
            )
        self.beam_size = beam_size
        self.num_best = num_best
        self.input_type = input_type
        self.blank_index = blank_index
        self.lexicon = lexicon
        self.lm_file = lm_file
        self.lm_scale = lm_scale
        self.insertion_score = insertion_score
        self.label_vocab: Vocabulary | None = None  # of what the words of the lexicon are spelled with
        self.spelled_words: SpelledWords | None = None
        if lexicon and self.loss is not None:
            raise ConfigError(
                f"{self.where()}: with 'lexicon', the output has words, and the target has the labels that spell them,"
                " so that no 'loss' can compare them.\n  Leave it out: search_metrics = ['wer'] scores the words,"
                " by a target with words, letters, or parts of words."
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
        """:return: [B, labels], or [B, beam, labels]"""
        self.warning = input_type_warning(self, self.input_type, _INPUT_TYPES)
        scores = log_scores(self, 0, source)  # type: ignore[arg-type]  # of a choice, it is about `input_type` alone
        time_dim, classes = source.get_time_dim_tag(), source.feature_dim
        size = classes.dimension or 0
        blank = blank_class(self.blank_index, size, option="blank_index", where=self.where())
        labels = self._label_dim(classes)
        if self.beam_size == 1:
            out, _ = rf.ctc_greedy_decode(
                scores,
                in_spatial_dim=time_dim,
                blank_index=blank,
                out_spatial_dim=self.new_dim("labels"),
                target_dim=labels,
            )
            return rf.cast(out, "int32")
        batch = source.get_batch_dim_tag()
        if set(source.dims) != {batch, time_dim, classes}:
            raise ConfigError(f"{self.where()}: expected a source [B, T, classes], got {source}.")
        words = self._spelled_words(labels)
        out = self._template(batch, labels if words is None else self._word_dim(words))
        if get_selected_backend() == "template":
            return out
        frames = scores.copy_transpose([batch, time_dim, classes]).raw_tensor
        num_frames = time_dim.get_dyn_size_ext_for_device("cpu").copy_compatible_to_dims_raw([batch])
        if self._asks_python():
            search = self._python_search(blank, labels, words)
            found = best_of_search(search, frames, num_frames, num_best=self.num_best)
        else:
            found = best_prefixes(frames, num_frames, beam_size=self.beam_size, blank=blank, num_best=self.num_best)
        self._set_values(out, *(found if self.num_best > 1 else (x[:, 0] for x in found)))
        return out

    def _template(self, batch: Dim, sparse_dim: Dim) -> Tensor:
        """:return: of the output: [B, labels], or [B, beam, labels]"""
        seqs, out_dim = [batch], self.new_dim("labels")
        if self.num_best > 1:
            beam_dim = self.new_dim("beam", self.num_best, kind=Dim.Types.Beam, auto_generated=False)
            seqs.append(beam_dim)
            self.search_choices = SearchChoices(self, self.num_best)
            self.search_choices.set_beam(Beam(beam_dim, self, scores=Tensor("scores", seqs, score_dtype())))
        if out_dim.dyn_size is None:
            out_dim.dyn_size_ext = Tensor(f"{self.name}:lengths", dims=seqs, dtype="int32")
        return Tensor(self.name, dims=[*seqs, out_dim], dtype="int32", sparse_dim=sparse_dim)

    def _set_values(self, out: Tensor, labels: tf.Tensor, lengths: tf.Tensor, scores: tf.Tensor) -> None:
        *seqs, out_dim = out.dims
        out.raw_tensor = labels
        out_dim.dyn_size_ext = Tensor(f"{self.name}:lengths", dims=seqs, dtype="int32", raw_tensor=lengths)
        if self.search_choices is not None:
            self.search_choices.set_beam_scores(tf.cast(scores, score_dtype()))

    def _label_dim(self, classes: Dim) -> Dim:
        """:return: that of the target, if there is one; otherwise the classes, without a blank behind them"""
        size = classes.dimension or 0
        target = self.get_target_value()
        if self.lexicon and (target is None or not self._has_labels_of(target, size)):
            of_source = self._target_of_source()
            target = target if of_source is None else of_source  # the own one has words
        if target is None or target.sparse_dim is None:
            is_last = self.blank_index in (-1, size - 1)
            return self.new_dim("label", size - 1 if is_last else size, kind=Dim.Types.Feature)
        if not self._has_labels_of(target, size):
            num_labels = target.sparse_dim.dimension or 0
            what = other_classes_than_labels(
                self.blank_index, size, num_labels, target=f"the target {self.target!r}", option="'blank_index'"
            )
            raise ConfigError(f"{self.where()}: the source {self.sources[0].name!r} has {what}")
        return target.sparse_dim

    def _has_labels_of(self, target: Tensor, num_classes: int) -> bool:
        return are_labels_and_blank(self.blank_index, num_classes, target.sparse_dim.dimension or 0)

    def _target_of_source(self) -> Tensor | None:
        """:return: what the source is trained to say"""
        source = self.sources[0]
        target = source.get_target_value() if isinstance(source.target, str) else None
        return target if target is not None and target.sparse else None

    def _spelled_words(self, labels: Dim) -> SpelledWords | None:
        if not self.lexicon:
            return None
        self.label_vocab = labels.vocab
        self.spelled_words = SpelledWords.from_file(self.lexicon, self._names(labels, "lexicon"))
        return self.spelled_words

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

    def _python_search(self, blank: int, labels: Dim, words: SpelledWords | None) -> CtcSearch:
        names = words.words if words is not None else self._names(labels, "lm_file") if self.lm_file else []
        return CtcSearch(self.beam_size, blank, words, self._lm_score(names))

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
