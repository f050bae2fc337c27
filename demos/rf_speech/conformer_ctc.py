"""
Speech recognition by a Conformer with CTC (Gulati et al. 2020, Graves et al. 2006), for all backends.

Samples of audio go in. Training: log-mel features, SpecAugment, Conformer, CTC loss. Search: prefix search over the
frames, with a language model on the words.
"""

from __future__ import annotations

import functools
from typing import Any

from ngram import NGramTable, write_arpa
from spoken_numbers import SAMPLE_RATE, texts, words

import returnn.frontend as rf
from returnn.config import get_global_config
from returnn.frontend.encoder.conformer import ConformerConvSubsample, ConformerEncoder
from returnn.frontend.search import time_synchronous_search
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim

WORDS = words()
VOCAB = {"class": "Vocabulary", "labels": WORDS, "unknown_label": None}
samples_dim, words_dim = Dim(None, name="samples"), Dim(None, name="words")
sample_dim, word_dim = Dim(1, name="sample"), Dim(len(WORDS), name="word")
EXTERN_DATA = {
    "data": {"dims": [batch_dim, samples_dim, sample_dim], "feature_dim": sample_dim},
    "classes": {
        "dims": [batch_dim, words_dim], "sparse_dim": word_dim, "vocab": VOCAB, "available_for_inference": False,
    },
}  # fmt: skip


class Model(rf.Module):
    """Samples to scores of words, and blank, for each 60 ms."""

    def __init__(self, *, size: int, num_layers: int, num_mel: int = 40, num_heads: int = 4) -> None:
        """
        :param size: features of the Conformer
        :param num_layers: of the Conformer
        :param num_mel: filters
        :param num_heads: of the self-attention
        """
        super().__init__()
        self.mel_dim, self.wb_dim = Dim(num_mel, name="mel"), word_dim + 1  # blank is behind the words
        self.blank = len(WORDS)
        channels = [Dim(8, name="channels0"), Dim(16, name="channels1")]
        self.encoder = ConformerEncoder(
            self.mel_dim,
            Dim(size, name="encoder"),
            num_layers=num_layers,
            num_heads=num_heads,
            conv_kernel_size=15,
            input_layer=ConformerConvSubsample(
                self.mel_dim, out_dims=channels, filter_sizes=[(3, 3), (3, 3)], strides=[(2, 2), (3, 2)]
            ),
        )
        self.logits = rf.Linear(self.encoder.out_dim, self.wb_dim)

    def __call__(self, samples: Tensor) -> tuple[Tensor, Dim]:
        """:return: {batch, frames, wb_dim}: log probabilities; the frames"""
        features, frames_dim = rf.audio.log_mel_filterbank_from_raw(
            samples, in_spatial_dim=samples_dim, out_dim=self.mel_dim, sampling_rate=SAMPLE_RATE
        )
        features = rf.normalize(features, axis=frames_dim)
        features = rf.audio.specaugment(
            features, spatial_dim=frames_dim, feature_dim=self.mel_dim, max_consecutive_spatial_dims=10,
            steps=(200, 500, 1000),
        )  # fmt: skip
        encoded, out_dim = self.encoder(features, in_spatial_dim=frames_dim)
        return rf.log_softmax(self.logits(encoded), axis=self.wb_dim), out_dim


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """The CTC loss."""
    log_probs, frames_dim = model(extern_data["data"])
    loss = rf.ctc_loss(
        logits=log_probs.copy_with_roles(feature_dim=model.wb_dim),
        logits_normalized=True,
        targets=extern_data["classes"],
        input_spatial_dim=frames_dim,
        targets_spatial_dim=words_dim,
        blank_index=model.blank,
    )
    num_words = words_dim.get_size_tensor()
    rf.get_run_ctx().mark_as_loss(loss, "ctc", custom_inv_norm_factor=rf.reduce_sum(num_words, axis=batch_dim))


def forward_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Search: the hypotheses of the beam, and their scores."""
    log_probs, frames_dim = model(extern_data["data"])
    config = get_global_config()
    language_model = LanguageModel(scale=config.typed_value("lm_scale"), device=log_probs.device)
    found = time_synchronous_search(
        lambda frame, _state: frame,
        xs=log_probs,
        spatial_dim=frames_dim,
        batch_dims=[batch_dim],
        beam_size=config.typed_value("beam_size"),
        wb_dim=model.wb_dim,
        blank=model.blank,
        label_loop=True,
        initial_state=language_model.initial,
        advance=language_model.advance,
        label_score=lambda context: language_model.scores_behind(context, wb_dim=model.wb_dim),
    )
    labels = rf.set_sparse_dim(found.labels, word_dim)
    rf.get_run_ctx().mark_as_output(labels, "output", dims=[batch_dim, found.beam_dim, found.spatial_dim])
    scores = found.scores + language_model.end_scores(found.state)
    rf.get_run_ctx().mark_as_output(scores, "scores", dims=[batch_dim, found.beam_dim])


@functools.cache
def _table(folder: str) -> NGramTable:
    return NGramTable(write_arpa(texts(), f"{folder}/words.arpa"), WORDS)


class LanguageModel:
    """See `NGramTable`. The state of a hypothesis is its context."""

    def __init__(self, *, scale: float, device: str | None) -> None:
        """
        :param scale: factor of the log probabilities
        :param device: where the search is
        """
        self.table = _table(get_global_config().typed_value("output_dir"))
        self.contexts_dim = Dim(len(self.table.end_scores), name="contexts")
        self._scores = scale * rf.convert_to_tensor(
            self.table.scores, dims=[self.contexts_dim, word_dim], device=device
        )
        self._end_scores = scale * rf.convert_to_tensor(self.table.end_scores, dims=[self.contexts_dim], device=device)

    def initial(self, *, batch_dims: list[Dim]) -> Tensor:
        """:return: before the first word"""
        return rf.full(dims=batch_dims, fill_value=self.table.begin, dtype="int32", sparse_dim=self.contexts_dim)

    def advance(self, word: Tensor, context: Tensor) -> Tensor:
        """:return: the context behind the word"""
        size = self.table.num_words + 1
        context, word = (x.copy_with_roles(sparse_dim=None) for x in (context, word))
        return rf.set_sparse_dim((context % size) * size + rf.minimum(word, size - 1), self.contexts_dim)

    def scores_behind(self, context: Tensor, *, wb_dim: Dim) -> Tensor:
        """:return: {..., wb_dim}: of each word; 0 for blank"""
        scores = rf.gather(self._scores, indices=context, axis=self.contexts_dim)
        padded, _ = rf.pad(scores, axes=[word_dim], padding=[(0, 1)], out_dims=[wb_dim], value=0.0)
        return padded

    def end_scores(self, context: Tensor) -> Tensor:
        """:return: {...}: of the end"""
        return rf.gather(self._end_scores, indices=context, axis=self.contexts_dim)
