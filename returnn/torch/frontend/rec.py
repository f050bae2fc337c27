"""Recurrence on raw PyTorch tensors."""

from __future__ import annotations

import torch
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from returnn.torch.frontend import native
from returnn.torch.frontend.sizes import has_entries


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
        """:return: output, last state, by our kernel, or by PyTorch's own LSTM; a single step by its cell"""
        if lengths is None and raw_tensor.shape[0] == 1 and not torch.jit.is_tracing():
            biases = () if bias is None else (bias, torch.zeros_like(bias))
            h, c = torch.lstm_cell(raw_tensor[0], (h, c), ff_weight, rec_weight, *biases)
            return h[None], h, c
        if native.has_operation("lstm", raw_tensor):
            return _lstm_by_kernel(raw_tensor, h, c, ff_weight, rec_weight, bias, lengths)
        return _lstm_of_torch(raw_tensor, h, c, ff_weight, rec_weight, bias, lengths)


def _lstm_by_kernel(
    x: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
    ff_weight: torch.Tensor,
    rec_weight: torch.Tensor,
    bias: torch.Tensor | None,
    lengths: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `RecTorchOps.lstm_raw`."""
    projected = torch.nn.functional.linear(
        x, _in_order_of_kernel(ff_weight), None if bias is None else _in_order_of_kernel(bias)
    )
    if lengths is None:
        lengths = torch.full([x.shape[1]], x.shape[0], dtype=torch.int32)
    lengths = lengths.to(x.device, torch.int32, non_blocking=True)
    if not native.has_operation("lstm", projected):  # in mixed precision, it may have another type
        projected = projected.to(x.dtype)
    real = projected.dtype
    cell_type = torch.promote_types(real, torch.float32)
    weights = _in_order_of_kernel(rec_weight).t().to(real).contiguous()
    out, _, last_h, last_c, _ = native.get_operations().lstm(
        projected, weights, c.to(cell_type), h.to(real), lengths, None, None, False
    )
    return out, last_h.to(h.dtype), last_c.to(c.dtype)


def _in_order_of_kernel(weight: torch.Tensor) -> torch.Tensor:
    """
    :param weight: (4 F, ...), input gate, forget gate, new value, output gate
    :return: with the new value first
    """
    i, f, new, o = weight.chunk(4)
    return torch.cat([new, i, f, o])


def _lstm_of_torch(
    raw_tensor: torch.Tensor,
    h: torch.Tensor,
    c: torch.Tensor,
    ff_weight: torch.Tensor,
    rec_weight: torch.Tensor,
    bias: torch.Tensor | None,
    lengths: torch.Tensor | None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """See `RecTorchOps.lstm_raw`. PyTorch has two biases and knows no empty sequences."""
    weights = [ff_weight, rec_weight]
    if bias is not None:
        weights += [bias, torch.zeros_like(bias)]
    # has biases, number of layers, dropout, whether it is in training, whether it has two directions
    options = (bias is not None, 1, 0.0, torch.is_grad_enabled(), False)
    if not has_entries(raw_tensor):
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
