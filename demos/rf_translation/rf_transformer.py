"""
Translation by a Transformer (Vaswani et al. 2017), for all backends: pre-norm blocks, byte pair encoding for both
languages (Sennrich et al. 2016), and a search label by label.
"""

from __future__ import annotations

import os
import sys
from typing import Any

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "translation"))

from translation_data import SOURCE, TARGET, text_file, with_vocab

import returnn.frontend as rf
from returnn.config import get_global_config
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.frontend.decoder.transformer import TransformerDecoder
from returnn.frontend.encoder.transformer import TransformerEncoder
from returnn.frontend.search import beam_search
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim
from returnn.tools.vocab_training import write_bpe

END = 0  # also stands before the first label
_VOCAB_SIZE = 200


def vocab(folder: str) -> dict[str, Any]:
    """:return: options of a vocabulary of both languages, which is learned if it is not there; label 0 is the end"""
    prefix = os.path.join(folder, "bpe")
    if not os.path.exists(f"{prefix}.vocab"):
        lines: list[str] = []
        for language in (SOURCE, TARGET):
            with open(text_file("train", language, folder), encoding="utf8") as file:
                lines += file
        write_bpe(lines, prefix, _VOCAB_SIZE)
    return {
        "class": "BytePairEncoding", "vocab_file": f"{prefix}.vocab", "bpe_file": f"{prefix}.codes",
        "unknown_label": "<unk>", "eos_label": END, "seq_postfix": [END],
    }  # fmt: skip


def dataset(split: str, folder: str, **options: Any) -> dict[str, Any]:
    """
    :param split: "train", "dev" or "test"
    :param folder: where data and vocabulary are made
    :param options: of the data set
    :return: description: "data" is the source, "classes" the target
    """
    return with_vocab(split, folder, vocab(folder), **options)


class Translation:
    """The data of the model: labels of both languages are the same."""

    def __init__(self, folder: str) -> None:
        """:param folder: where the vocabulary is"""
        options = vocab(folder)
        self.labels_dim = Dim(Vocabulary.create_vocab(**options).num_labels, name="labels")
        self.source_dim, self.target_dim = Dim(None, name="source"), Dim(None, name="target")
        self.extern_data = {
            "data": {"dims": [batch_dim, self.source_dim], "sparse_dim": self.labels_dim, "vocab": options},
            "classes": {
                "dims": [batch_dim, self.target_dim], "sparse_dim": self.labels_dim, "vocab": options,
                "available_for_inference": False,
            },
        }  # fmt: skip


class Model(rf.Module):
    """Encoder and decoder."""

    def __init__(self, data: Translation, *, size: int, num_layers: int, num_heads: int, dropout: float) -> None:
        """
        :param data: what goes in
        :param size: features of the layers
        :param num_layers: of each of the two
        :param num_heads: of the attentions
        :param dropout: probability to drop a feature
        """
        super().__init__()
        self.data = data
        model_dim = Dim(size, name="model")
        options: dict[str, Any] = {
            "num_layers": num_layers, "num_heads": num_heads, "dropout": dropout, "att_dropout": dropout,
        }  # fmt: skip
        self.encoder = TransformerEncoder(data.labels_dim, model_dim, **options)
        self.decoder = TransformerDecoder(model_dim, data.labels_dim, model_dim, **options)

    def encode(self, source: Tensor) -> rf.State:
        """:return: what the decoder needs of the source"""
        encoded = self.encoder(source, spatial_dim=self.data.source_dim)
        return self.decoder.transform_encoder(encoded, axis=self.data.source_dim)


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Cross entropy with label smoothing, and how many labels are wrong."""
    data, targets = model.data, extern_data["classes"]
    encoder = model.encode(extern_data["data"])
    before = rf.shift_right(targets, axis=data.target_dim, pad_value=END)
    state = model.decoder.default_initial_state(batch_dims=[batch_dim])
    logits, _ = model.decoder(before, spatial_dim=data.target_dim, state=state, encoder=encoder)
    smoothed = rf.label_smoothing(targets, 0.1, axis=data.labels_dim)
    loss = rf.cross_entropy(target=smoothed, estimated=logits, estimated_type="logits", axis=data.labels_dim)
    rf.get_run_ctx().mark_as_loss(loss, "ce")
    wrong = rf.reduce_argmax(logits, axis=data.labels_dim) != targets
    rf.get_run_ctx().mark_as_loss(rf.cast(wrong, "float32"), "fer", as_error=True)


def forward_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Search: the hypotheses of the beam, and the scores that they are compared by."""
    config, data = get_global_config(), model.data
    encoder = model.encode(extern_data["data"])

    def step(labels: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
        logits, state = model.decoder(labels, spatial_dim=single_step_dim, state=state, encoder=encoder)
        return rf.log_softmax(logits, axis=data.labels_dim), state

    found = beam_search(
        step,
        initial_state=model.decoder.default_initial_state,
        batch_dims=[batch_dim],
        beam_size=config.typed_value("beam_size"),
        vocab_dim=data.labels_dim,
        bos=END,
        eos=END,
        max_seq_len=2 * data.source_dim.get_size_tensor() + 10,
        length_normalization_exponent=1.0,
    )
    rf.get_run_ctx().mark_as_output(found.labels, "output", dims=[batch_dim, found.beam_dim, found.spatial_dim])
    rf.get_run_ctx().mark_as_output(found.ranking, "scores", dims=[batch_dim, found.beam_dim])
    rf.get_run_ctx().mark_as_output(found.ended, "ended", dims=[batch_dim, found.beam_dim])
