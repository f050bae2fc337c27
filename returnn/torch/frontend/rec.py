"""Recurrence on raw PyTorch tensors."""

from __future__ import annotations

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class RecTorchOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def lstm_raw(
        raw_tensor: torch.Tensor,
        h: torch.Tensor,
        c: torch.Tensor,
        ff_weight: torch.Tensor,
        rec_weight: torch.Tensor,
        bias: torch.Tensor | None,
        lengths: torch.Tensor | None,
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """:return: output, last state, by PyTorch's own LSTM, which has two biases and knows no empty sequences"""
        weights = [ff_weight, rec_weight]
        if bias is not None:
            weights += [bias, torch.zeros_like(bias)]
        # has biases, number of layers, dropout, whether it is in training, whether it has two directions
        options = (bias is not None, 1, 0.0, torch.is_grad_enabled(), False)
        if not raw_tensor.numel():
            return raw_tensor.new_zeros(*raw_tensor.shape[:2], h.shape[-1]), h, c
        if lengths is None:
            out, new_h, new_c = torch.lstm(raw_tensor, (h[None], c[None]), weights, *options, False)
            return out, new_h[0], new_c[0]
        packed = pack_padded_sequence(raw_tensor, lengths.cpu().clamp(min=1), enforce_sorted=False)
        order, back = packed.sorted_indices, packed.unsorted_indices
        states = (h[None, order], c[None, order])
        data, new_h, new_c = torch.lstm(packed.data, packed.batch_sizes, states, weights, *options)
        out, _ = pad_packed_sequence(packed._replace(data=data), total_length=len(raw_tensor))
        is_empty = (lengths == 0).to(h.device)[:, None]
        return out, torch.where(is_empty, h, new_h[0, back]), torch.where(is_empty, c, new_c[0, back])
