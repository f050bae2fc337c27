"""
The model of `g2p_network` in Python: an embedding, two bidirectional LSTMs, and a decoder with attention.

It runs on PyTorch and in graphs of TensorFlow.
"""

from __future__ import annotations

from typing import Any

from g2p_data import LETTERS, PHONEMES

import returnn.frontend as rf
from returnn.config import get_global_config
from returnn.frontend.search import beam_search
from returnn.tensor import Dim, Tensor, TensorDict, batch_dim, single_step_dim

letters_dim, phonemes_dim = Dim(len(LETTERS), name="letters"), Dim(len(PHONEMES), name="phonemes")
word_dim, pronunciation_dim = Dim(None, name="word"), Dim(None, name="pronunciation")
EXTERN_DATA = {
    "data": {"dims": [batch_dim, word_dim], "sparse_dim": letters_dim, "vocab": {"labels": LETTERS}},
    "classes": {"dims": [batch_dim, pronunciation_dim], "sparse_dim": phonemes_dim, "vocab": {"labels": PHONEMES}},
}


class BLSTM(rf.Module):
    """An LSTM in each direction."""

    def __init__(self, in_dim: Dim, size: int) -> None:
        super().__init__()
        self.fw_dim, self.bw_dim = Dim(size, name="forward"), Dim(size, name="backward")
        self.out_dim = self.fw_dim + self.bw_dim
        self.fw, self.bw = rf.LSTM(in_dim, self.fw_dim), rf.LSTM(in_dim, self.bw_dim)

    def __call__(self, x: Tensor) -> Tensor:
        """:return: [B, word, out_dim]"""
        outputs = []
        for lstm, is_backward in ((self.fw, False), (self.bw, True)):
            source = rf.reverse_sequence(x, axis=word_dim) if is_backward else x
            state = lstm.default_initial_state(batch_dims=[batch_dim])
            output, _ = lstm(source, state=state, spatial_dim=word_dim)
            outputs.append(rf.reverse_sequence(output, axis=word_dim) if is_backward else output)
        output, _ = rf.concat((outputs[0], self.fw_dim), (outputs[1], self.bw_dim), out_dim=self.out_dim)
        return output


class Model(rf.Module):
    """Letters to phonemes."""

    def __init__(
        self,
        *,
        embedding: int,
        encoder: int,
        decoder: int,
        attention: int,
        encoder_dropout: float,
        output_dropout: float,
    ) -> None:
        """For the arguments, see `g2p_network.attention_network`."""
        super().__init__()
        self.encoder_dropout, self.output_dropout = encoder_dropout, output_dropout
        letter_dim, self.phoneme_dim = Dim(embedding, name="letter"), Dim(embedding, name="phoneme")
        self.attention_dim, self.decoder_dim = Dim(attention, name="attention"), Dim(decoder, name="decoder")
        readout_dim = Dim(attention, name="readout")
        self.letters = rf.Embedding(letters_dim, letter_dim)
        self.lstm0 = BLSTM(letter_dim, encoder)
        self.lstm1 = BLSTM(self.lstm0.out_dim, encoder)
        self.encoder_dim = self.lstm1.out_dim
        self.enc_ctx = rf.Linear(self.encoder_dim, self.attention_dim)
        self.phoneme = rf.Embedding(phonemes_dim, self.phoneme_dim)
        self.s = rf.LSTM(self.phoneme_dim + self.encoder_dim, self.decoder_dim)
        self.s_ctx = rf.Linear(self.decoder_dim, self.attention_dim, with_bias=False)
        self.feedback = rf.Parameter([self.attention_dim])
        self.feedback.initial = rf.init.Glorot()
        self.energy = rf.Parameter([self.attention_dim])
        self.energy.initial = rf.init.Glorot()
        self.readout = rf.Linear(self.decoder_dim + self.phoneme_dim + self.encoder_dim, readout_dim)
        self.prob = rf.Linear(readout_dim, phonemes_dim)

    def encode(self, letters: Tensor) -> Tensor:
        """:return: [B, word, encoder]"""
        x = self.letters(letters)
        for lstm in (self.lstm0, self.lstm1):
            x = lstm(rf.dropout(x, self.encoder_dropout))
        return x

    def decode(self, encoder: Tensor, phonemes: Tensor, *, axis: Dim) -> tuple[Tensor, Tensor]:
        """
        :param encoder: [B, word, encoder]
        :param phonemes: [B, axis], those that are said before each one are known
        :param axis: of the phonemes
        :return: [B, axis, phonemes], logits; [B, axis, word], weights of the attention
        """
        ctx = self.enc_ctx(encoder)
        before = rf.shift_right(self.phoneme(phonemes), axis=axis, pad_value=0)
        (s, att, weights), _, _ = rf.scan(
            spatial_dim=axis,
            xs=before,
            initial=self.initial_state([batch_dim]),
            body=lambda phoneme, state: self.attend(phoneme, state, encoder=encoder, ctx=ctx),
        )
        return self.logits(s, before, att), weights

    def initial_state(self, batch_dims: list[Dim]) -> rf.State:
        """:return: of the decoder, before the first phoneme"""
        return rf.State(
            s=self.s.default_initial_state(batch_dims=batch_dims),
            att=rf.zeros([*batch_dims, self.encoder_dim]),
            sum_weights=rf.zeros([*batch_dims, word_dim]),
        )

    def attend(self, phoneme: Tensor, state: rf.State, *, encoder: Tensor, ctx: Tensor) -> tuple[Any, rf.State]:
        """
        :param phoneme: {..., phoneme}, embedding of the one before
        :param state: of the decoder
        :param encoder: {batch, word, encoder}
        :param ctx: {batch, word, attention}, `enc_ctx` of it
        :return: output of the LSTM, output and weights of the attention; state
        """
        source, _ = rf.concat((phoneme, self.phoneme_dim), (state.att, self.encoder_dim))
        s, s_state = self.s(source, state=state.s, spatial_dim=single_step_dim)
        feedback = rf.combine_bc(state.sum_weights, "mul", self.feedback)
        energy_in = rf.combine_bc(rf.combine_bc(ctx, "add", self.s_ctx(s)), "add", feedback)
        energy = rf.matmul(rf.tanh(energy_in), self.energy, reduce=self.attention_dim)
        weights = rf.softmax(energy, axis=word_dim)
        att = rf.matmul(weights, encoder, reduce=word_dim)
        return (s, att, weights), rf.State(s=s_state, att=att, sum_weights=state.sum_weights + weights)

    def logits(self, s: Tensor, before: Tensor, att: Tensor) -> Tensor:
        """:return: {..., phonemes}"""
        source, _ = rf.concat((s, self.decoder_dim), (before, self.phoneme_dim), (att, self.encoder_dim))
        readout = rf.tanh(self.readout(source))
        return self.prob(rf.dropout(readout, self.output_dropout))


def train_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Cross entropy with label smoothing, and how many phonemes are wrong."""
    phonemes = extern_data["classes"]
    logits, _ = model.decode(model.encode(extern_data["data"]), phonemes, axis=pronunciation_dim)
    targets = rf.label_smoothing(phonemes, 0.1, axis=phonemes_dim)
    loss = rf.cross_entropy(target=targets, estimated=logits, estimated_type="logits", axis=phonemes_dim)
    rf.get_run_ctx().mark_as_loss(loss, "ce")
    wrong = rf.reduce_argmax(logits, axis=phonemes_dim) != phonemes
    rf.get_run_ctx().mark_as_loss(rf.cast(wrong, "float32"), "fer", as_error=True)


def forward_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """Search: the hypotheses of the beam, and their scores; for pictures, the attention of the best one."""
    config = get_global_config()
    encoder = model.encode(extern_data["data"])
    ctx = model.enc_ctx(encoder)

    def step(phoneme: Tensor, state: rf.State) -> tuple[Tensor, rf.State]:
        before = model.phoneme(phoneme) * state.has_begun  # 0 before the first phoneme
        (s, att, _), decoder = model.attend(before, state.decoder, encoder=encoder, ctx=ctx)
        logits = model.logits(s, before, att)
        has_begun = rf.ones_like(state.has_begun)
        return rf.log_softmax(logits, axis=phonemes_dim), rf.State(decoder=decoder, has_begun=has_begun)

    found = beam_search(
        step,
        initial_state=lambda batch_dims: rf.State(decoder=model.initial_state(batch_dims), has_begun=rf.zeros(())),
        batch_dims=[batch_dim],
        beam_size=config.typed_value("beam_size"),
        vocab_dim=phonemes_dim,
        bos=0,
        eos=0,
        max_seq_len=word_dim.get_size_tensor() + 8,
        length_normalization_exponent=config.typed_value("length_normalization_exponent"),
    )
    rf.get_run_ctx().mark_as_output(found.labels, "output", dims=[batch_dim, found.beam_dim, found.spatial_dim])
    rf.get_run_ctx().mark_as_output(found.ranking, "scores", dims=[batch_dim, found.beam_dim])
    if config.typed_value("task") == "plot_attention":
        best, best_dim = found.best()
        _, weights = model.decode(encoder, best, axis=best_dim)
        rf.get_run_ctx().mark_as_output(best, "best", dims=[batch_dim, best_dim])
        rf.get_run_ctx().mark_as_output(weights, "weights", dims=[batch_dim, best_dim, word_dim])


# Export to ONNX: the encoder, and one step of the decoder. The loop over steps is that of whoever runs them.


def step_data(*, encoder: int, decoder: int, attention: int) -> dict[str, Any]:
    """:return: `extern_data` of `decoder_step`, of a model with these sizes"""
    encoder_dim, decoder_dim = Dim(2 * encoder, name="encoder"), Dim(decoder, name="decoder")
    attention_dim = Dim(attention, name="attention")
    inputs = {
        "encoder": [word_dim, encoder_dim],
        "enc_ctx": [word_dim, attention_dim],
        "h": [decoder_dim],
        "c": [decoder_dim],
        "att": [encoder_dim],
        "sum_weights": [word_dim],
        "has_begun": [],
    }
    label = {"dims": [batch_dim], "sparse_dim": phonemes_dim, "dtype": "int32"}
    return {"label": label, **{name: {"dims": [batch_dim, *dims]} for name, dims in inputs.items()}}


def encoder_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """What the decoder needs of the letters."""
    encoder = model.encode(extern_data["data"])
    ctx = rf.get_run_ctx()
    ctx.mark_as_output(encoder, "encoder", dims=[batch_dim, word_dim, model.encoder_dim])
    ctx.mark_as_output(model.enc_ctx(encoder), "enc_ctx", dims=[batch_dim, word_dim, model.attention_dim])


def decoder_step(*, model: Model, extern_data: TensorDict, **_kwargs: Any) -> None:
    """
    Log probabilities of the next phoneme. The state goes in, all 0 at the beginning, and the new one comes out, with
    "new_" before its names.
    """

    def given(name: str, dim: Dim) -> Tensor:
        return rf.replace_dim_v2(extern_data[name], in_dim=extern_data[name].dims[-1], out_dim=dim)

    state = rf.State(
        s=rf.LstmState(h=given("h", model.decoder_dim), c=given("c", model.decoder_dim)),
        att=given("att", model.encoder_dim),
        sum_weights=extern_data["sum_weights"],
    )
    before = model.phoneme(extern_data["label"]) * extern_data["has_begun"]
    encoder, enc_ctx = given("encoder", model.encoder_dim), given("enc_ctx", model.attention_dim)
    (s, att, _), state = model.attend(before, state, encoder=encoder, ctx=enc_ctx)
    log_probs = rf.log_softmax(model.logits(s, before, att), axis=phonemes_dim)
    ctx = rf.get_run_ctx()
    ctx.mark_as_output(log_probs, "log_probs", dims=[batch_dim, phonemes_dim])
    ctx.mark_as_output(state.s.h, "new_h", dims=[batch_dim, model.decoder_dim])
    ctx.mark_as_output(state.s.c, "new_c", dims=[batch_dim, model.decoder_dim])
    ctx.mark_as_output(state.att, "new_att", dims=[batch_dim, model.encoder_dim])
    ctx.mark_as_output(state.sum_weights, "new_sum_weights", dims=[batch_dim, word_dim])
    ctx.mark_as_output(rf.ones_like(extern_data["has_begun"]), "new_has_begun", dims=[batch_dim])
