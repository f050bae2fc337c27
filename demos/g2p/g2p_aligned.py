"""
Letters to phonemes, letter by letter: each letter gets a chunk of none, one or several phonemes (`g2p_alignment`).

Two bidirectional LSTMs read the letters. The decoder is an LSTM that sees the encoder at the letter and the chunk
before it. As there is nothing to attend to, all letters of a training step are computed at once. It is the aligned
bidirectional LSTM of Yao and Zweig 2015, "Sequence-to-sequence neural net models for grapheme-to-phoneme conversion".
"""

from __future__ import annotations

import json
from typing import Any

import numpy
from g2p_data import LETTERS

import returnn.frontend as rf
from returnn.config import get_global_config
from returnn.forward_iface import ForwardCallbackIface
from returnn.frontend.search import beam_search
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim
from returnn.util.files.atomic_file import write_atomic

letters_dim, word_dim = Dim(len(LETTERS), name="letters"), Dim(None, name="word")


class Chunks:
    """The labels of a model."""

    def __init__(self, labels: list[str]) -> None:
        """:param labels: phonemes of each chunk, with spaces between"""
        self.dim = Dim(len(labels), name="chunks")
        self.extern_data = {
            "data": {"dims": [batch_dim, word_dim], "sparse_dim": letters_dim, "vocab": {"labels": LETTERS}},
            "classes": {
                "dims": [batch_dim, word_dim], "sparse_dim": self.dim, "vocab": {"labels": labels},
                "available_for_inference": False,
            },
        }  # fmt: skip


class BLSTM(rf.Module):
    """An LSTM in each direction."""

    def __init__(self, in_dim: Dim, size: int) -> None:
        super().__init__()
        self.fw_dim, self.bw_dim = Dim(size, name="forward"), Dim(size, name="backward")
        self.out_dim = self.fw_dim + self.bw_dim
        self.fw, self.bw = rf.LSTM(in_dim, self.fw_dim), rf.LSTM(in_dim, self.bw_dim)

    def __call__(self, x: Tensor) -> Tensor:
        """:return: [B, word, out_dim]"""
        state = self.fw.default_initial_state(batch_dims=[batch_dim])
        fw, _ = self.fw(x, state=state, spatial_dim=word_dim)
        state = self.bw.default_initial_state(batch_dims=[batch_dim])
        bw, _ = self.bw(_reverse(x), state=state, spatial_dim=word_dim)
        output, _ = rf.concat((fw, self.fw_dim), (_reverse(bw), self.bw_dim), out_dim=self.out_dim)
        return output


class Decoder(rf.Module):
    """Chunks, one after the other."""

    def __init__(self, encoder_dim: Dim, chunks: Chunks, *, embedding: int, size: int, readout: int) -> None:
        super().__init__()
        self.encoder_dim = encoder_dim
        self.chunk_dim, self.size_dim = Dim(embedding, name="chunk"), Dim(size, name="decoder")
        readout_dim = Dim(readout, name="readout")
        self.chunk = rf.Embedding(chunks.dim, self.chunk_dim)
        self.lstm = rf.LSTM(self.chunk_dim + encoder_dim, self.size_dim)
        self.readout = rf.Linear(self.size_dim + encoder_dim, readout_dim)
        self.prob = rf.Linear(readout_dim, chunks.dim)

    def __call__(
        self, encoder: Tensor, before: Tensor, state: rf.LstmState, *, spatial_dim: Dim, dropout: float = 0.0
    ) -> tuple[Tensor, rf.LstmState]:
        """
        :param encoder: {..., encoder}
        :param before: {..., chunk}, embedding of the chunk before
        :param state: of the LSTM
        :param spatial_dim: letters; or `single_step_dim`
        :param dropout: probability to drop a feature
        :return: {..., chunks}, logits; state
        """
        encoder = rf.dropout(encoder, dropout)
        source, _ = rf.concat((rf.dropout(before, dropout), self.chunk_dim), (encoder, self.encoder_dim))
        s, state = self.lstm(source, state=state, spatial_dim=spatial_dim)
        source, _ = rf.concat((s, self.size_dim), (encoder, self.encoder_dim))
        readout = rf.tanh(self.readout(rf.dropout(source, dropout)))
        return self.prob(rf.dropout(readout, dropout)), state


class Model(rf.Module):
    """Encoder and decoder."""

    def __init__(self, chunks: Chunks, *, embedding: int, encoder: int, decoder: int, dropout: float) -> None:
        """
        :param chunks: labels
        :param embedding: size of those of letters and chunks
        :param encoder: of each direction of each LSTM
        :param decoder: of its LSTM, and of the layer before its softmax
        :param dropout: probability to drop a feature of what goes into a layer
        """
        super().__init__()
        self.chunks, self.dropout = chunks, dropout
        letter_dim = Dim(embedding, name="letter")
        self.letters = rf.Embedding(letters_dim, letter_dim)
        self.lstm0 = BLSTM(letter_dim, encoder)
        self.lstm1 = BLSTM(self.lstm0.out_dim, encoder)
        self.decoder = Decoder(self.lstm1.out_dim, chunks, embedding=embedding, size=decoder, readout=decoder)

    def encode(self, letters: Tensor) -> Tensor:
        """:return: [B, word, encoder]"""
        x = self.letters(letters)
        for lstm in (self.lstm0, self.lstm1):
            x = lstm(rf.dropout(x, self.dropout))
        return x

    def logits(self, letters: Tensor, chunks: Tensor) -> Tensor:
        """
        :param letters: {batch, word}
        :param chunks: {..., word}
        :return: {..., word, chunks}, logits of each chunk, where those before are known
        """
        batch_dims = [dim for dim in chunks.dims if dim != word_dim]
        encoder = self.encode(letters)
        encoder = rf.expand_dims(encoder, [dim for dim in batch_dims if dim not in encoder.dims])
        before = rf.shift_right(self.decoder.chunk(chunks), axis=word_dim, pad_value=0)
        state = self.decoder.lstm.default_initial_state(batch_dims=batch_dims)
        logits, _ = self.decoder(encoder, before, state, spatial_dim=word_dim, dropout=self.dropout)
        return logits

    def search(self, letters: Tensor, beam_size: int) -> tuple[Tensor, Dim]:
        """
        :param letters: {batch, word}
        :param beam_size: of the search
        :return: {batch, beam, word}, chunks; beam
        """
        encoder = self.encode(letters)

        def initial_state(batch_dims: list[Dim]) -> rf.State:
            lstm = self.decoder.lstm.default_initial_state(batch_dims=batch_dims)
            return rf.State(lstm=lstm, position=rf.zeros((), dtype="int32"))

        def step(chunk: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
            letter = rf.gather(encoder, indices=state.position, axis=word_dim, clip_to_valid=True)
            letter = rf.expand_dims(letter, [dim for dim in chunk.dims if dim not in letter.dims])
            before = self.decoder.chunk(chunk) * rf.cast(state.position > 0, "float32")  # 0 before the first chunk
            logits, lstm = self.decoder(letter, before, state.lstm, spatial_dim=single_step_dim)
            return rf.log_softmax(logits, axis=self.chunks.dim), rf.State(lstm=lstm, position=state.position + 1)

        found = beam_search(
            step,
            initial_state=initial_state,
            batch_dims=[batch_dim],
            beam_size=beam_size,
            vocab_dim=self.chunks.dim,
            bos=0,
            eos=None,
            max_seq_len=word_dim.get_size_tensor(),
        )
        labels, _ = rf.replace_dim(found.labels, in_dim=found.spatial_dim, out_dim=word_dim)
        return labels, found.beam_dim


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Cross entropy with label smoothing, and how many chunks are wrong."""
    targets, chunks_dim = extern_data["classes"], model.chunks.dim
    logits = model.logits(extern_data["data"], targets)
    smoothed = rf.label_smoothing(targets, 0.1, axis=chunks_dim)
    loss = rf.cross_entropy(target=smoothed, estimated=logits, estimated_type="logits", axis=chunks_dim)
    rf.get_run_ctx().mark_as_loss(loss, "ce")
    wrong = rf.reduce_argmax(logits, axis=chunks_dim) != targets
    rf.get_run_ctx().mark_as_loss(rf.cast(wrong, "float32"), "fer", as_error=True)


class Ensemble(rf.Module):
    """Several models, of which every other one goes backwards. What one of them finds, all of them judge."""

    def __init__(self, members: list[Model]) -> None:
        """:param members: models"""
        super().__init__()
        self.members = rf.ModuleList(members)

    def hypotheses(self, letters: Tensor, beam_size: int) -> tuple[Tensor, list[Tensor], Dim]:
        """
        :param letters: {batch, word}
        :param beam_size: of the search of each member
        :return: {batch, hyps, word}, chunks; their scores by each member, {batch, hyps}; hyps
        """
        parts = []
        for index, member in enumerate(self.members):
            found, beam_dim = member.search(_in_direction(letters, index), beam_size)
            parts.append((_in_direction(found, index), beam_dim))
        chunks, hyps_dim = rf.concat(*parts)
        scores = []
        for index, member in enumerate(self.members):
            logits = member.logits(_in_direction(letters, index), _in_direction(chunks, index))
            log_probs = rf.log_softmax(logits, axis=member.chunks.dim)
            scores.append(rf.reduce_sum(rf.gather(log_probs, indices=_in_direction(chunks, index)), axis=word_dim))
        return chunks, scores, hyps_dim


def _in_direction(x: Tensor, index: int) -> Tensor:
    """:return: {..., word}, as a member of the ensemble wants it"""
    return _reverse(x) if is_backwards(index) else x


def is_backwards(index: int) -> bool:
    """
    :param index: of a member of an ensemble, from 0
    :return: whether it begins with the last letter
    """
    return index % 2 == 1


def _reverse(x: Tensor) -> Tensor:
    return rf.reverse_sequence(x, axis=word_dim)


def forward_step(*, model: Ensemble, extern_data: TensorDict, **_kwargs: Any) -> None:
    """What each member found, and the scores of it by all of them."""
    beam_size = get_global_config().typed_value("beam_size")
    chunks, scores, hyps_dim = model.hypotheses(extern_data["data"], beam_size)
    context = rf.get_run_ctx()
    context.mark_as_output(chunks, "output", dims=[batch_dim, hyps_dim, word_dim])
    for index, score in enumerate(scores):
        context.mark_as_output(score, f"score{index}", dims=[batch_dim, hyps_dim])


class NBestLists(ForwardCallbackIface):
    """Writes all hypotheses of each word, with their scores."""

    def __init__(self, filename: str, labels: list[str], num_members: int) -> None:
        """
        :param filename: JSON: by word, a list of hypotheses, each a list of chunks and a list of scores
        :param labels: of the chunks
        :param num_members: of the ensemble
        """
        self.filename, self.labels, self.num_members = filename, labels, num_members
        self.found: dict[str, list[tuple[list[str], list[float]]]] = {}

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """See the base class."""
        scores = numpy.stack([outputs[f"score{i}"].raw_tensor for i in range(self.num_members)], axis=-1)
        different = {
            tuple(chunks.tolist()): of_hyp for chunks, of_hyp in zip(outputs["output"].raw_tensor, scores, strict=True)
        }
        self.found[seq_tag] = [
            ([self.labels[i] for i in chunks], [round(float(score), 3) for score in of_hyp])
            for chunks, of_hyp in different.items()
        ]

    def finish(self) -> None:
        """See the base class."""
        write_atomic(self.filename, json.dumps(self.found))
