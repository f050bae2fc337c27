"""The model of `demos/g2p` in plain PyTorch."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

NUM_LETTERS, NUM_PHONEMES = 28, 40


class Model(nn.Module):
    """Embedding, two bidirectional LSTMs, and a decoder with attention."""

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
        self.letters = nn.Embedding(NUM_LETTERS, embedding)
        self.lstm0 = nn.LSTM(embedding, encoder, bidirectional=True)
        self.lstm1 = nn.LSTM(2 * encoder, encoder, bidirectional=True)
        self.enc_ctx = nn.Linear(2 * encoder, attention)
        self.phoneme = nn.Embedding(NUM_PHONEMES, embedding)
        self.s = nn.LSTMCell(embedding + 2 * encoder, decoder)
        self.s_ctx = nn.Linear(decoder, attention, bias=False)
        self.feedback = nn.Parameter(torch.empty(attention))
        self.energy = nn.Parameter(torch.empty(attention))
        self.readout = nn.Linear(decoder + embedding + 2 * encoder, attention)
        self.prob = nn.Linear(attention, NUM_PHONEMES)

    def forward(self, letters: torch.Tensor, num_letters: torch.Tensor, phonemes: torch.Tensor) -> torch.Tensor:
        """
        :param letters: (batch, letters)
        :param num_letters: (batch,)
        :param phonemes: (batch, phonemes)
        :return: (phonemes, batch, classes), logits
        """
        encoder = self._encode(letters, num_letters)
        ctx = self.enc_ctx(encoder)
        mask = torch.arange(len(encoder))[:, None] >= num_letters
        before = functional.pad(self.phoneme(phonemes.t()[:-1]), (0, 0, 0, 0, 1, 0))
        h = c = encoder.new_zeros(encoder.shape[1], self.s.hidden_size)
        att, sum_weights = encoder.new_zeros(encoder.shape[1:]), encoder.new_zeros(encoder.shape[:2])
        outputs, contexts = [], []
        for phoneme in before:
            h, c = self.s(torch.cat([phoneme, att], dim=-1), (h, c))
            energy_in = ctx + self.s_ctx(h) + sum_weights[:, :, None] * self.feedback
            energy = (torch.tanh(energy_in) @ self.energy).masked_fill(mask, -torch.inf)
            weights = torch.softmax(energy, dim=0)
            att = torch.einsum("tb,tbf->bf", weights, encoder)
            sum_weights = sum_weights + weights
            outputs.append(h)
            contexts.append(att)
        source = torch.cat([torch.stack(outputs), before, torch.stack(contexts)], dim=-1)
        readout = functional.dropout(torch.tanh(self.readout(source)), self.output_dropout)
        return self.prob(readout)

    def _encode(self, letters: torch.Tensor, num_letters: torch.Tensor) -> torch.Tensor:
        """:return: (letters, batch, 2 * encoder)"""
        x = self.letters(letters.t())
        for lstm in (self.lstm0, self.lstm1):
            x = functional.dropout(x, self.encoder_dropout)
            x, _ = pad_packed_sequence(lstm(pack_padded_sequence(x, num_letters, enforce_sorted=False))[0])
        return x

    def load(self, values: Mapping[str, torch.Tensor]) -> None:
        """:param values: parameters of the model of the frontend, by name"""
        own = {}
        for name in ("letters", "phoneme"):
            own[f"{name}.weight"] = values[f"{name}.weight"]
        for name in ("enc_ctx", "s_ctx", "readout", "prob"):
            own[f"{name}.weight"] = values[f"{name}.weight"].t()
        for name in ("enc_ctx.bias", "readout.bias", "prob.bias", "feedback", "energy"):
            own[name] = values[name]
        cells = {f"lstm{i}.{name}": f"lstm{i}.{{}}_l0{suffix}" for i in (0, 1) for name, suffix in _DIRECTIONS}
        for theirs, form in {**cells, "s": "s.{}"}.items():
            own[form.format("weight_ih")] = values[f"{theirs}.ff_weight"]
            own[form.format("weight_hh")] = values[f"{theirs}.rec_weight"]
            own[form.format("bias_ih")] = values[f"{theirs}.bias"]
            own[form.format("bias_hh")] = torch.zeros_like(values[f"{theirs}.bias"])
        self.load_state_dict(own)


_DIRECTIONS = (("fw", ""), ("bw", "_reverse"))


def loss_of(
    model: Model,
    letters: torch.Tensor,
    num_letters: torch.Tensor,
    phonemes: torch.Tensor,
    num_phonemes: torch.Tensor,
) -> torch.Tensor:
    """:return: mean cross entropy with label smoothing"""
    logits = model(letters, num_letters, phonemes)
    is_padding = torch.arange(phonemes.shape[1])[:, None] >= num_phonemes
    targets = phonemes.t().masked_fill(is_padding, -1)
    smoothing = 0.1 * NUM_PHONEMES / (NUM_PHONEMES - 1)  # PyTorch spreads it over all classes, the demo over the others
    return functional.cross_entropy(
        logits.flatten(0, 1), targets.flatten().long(), ignore_index=-1, label_smoothing=smoothing
    )
