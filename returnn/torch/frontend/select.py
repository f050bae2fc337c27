"""Raw operations which pick values."""

from __future__ import annotations

from typing import Any

import torch

from returnn.torch.frontend.sizes import as_size

_REDUCE = {"sum": "sum", "max": "amax", "min": "amin"}  # names of `Tensor.scatter_reduce`


class SelectTorchOps:
    """For the meaning of the operations see `returnn.frontend._backends.required`."""

    @staticmethod
    def gather_raw(raw_tensor: torch.Tensor, indices: torch.Tensor, axis: int, batch_axes: int) -> torch.Tensor:
        """:return: gathered"""
        if not batch_axes:
            flat = torch.index_select(raw_tensor, axis, indices.reshape(-1))
            if indices.ndim == 1:
                return flat
            return flat.reshape((*raw_tensor.shape[:axis], *indices.shape, *raw_tensor.shape[axis + 1 :]))  # may be ()
        rows = torch.movedim(raw_tensor, axis, batch_axes)
        num_new = indices.ndim - batch_axes
        batch = [
            torch.arange(rows.shape[i], device=rows.device).reshape([-1 if j == i else 1 for j in range(indices.ndim)])
            for i in range(batch_axes)
        ]
        indices = torch.where(indices < 0, rows.shape[batch_axes], indices.long())  # an error, not counted from the end
        found = rows[(*batch, indices)]  # (batch..., new..., before..., behind...)
        num_before = axis - batch_axes
        if not num_before or not num_new:
            return found
        new_axes = list(range(batch_axes, batch_axes + num_new))
        return torch.movedim(found, new_axes, [i + num_before for i in new_axes])

    @staticmethod
    def segment_raw(values: torch.Tensor, indices: torch.Tensor, number: int, mode: str) -> torch.Tensor:
        """:return: reduction over segments; what is left out goes to one more segment, which is cut off"""
        indices = torch.where(indices < 0, number, indices.long())
        result = values.new_zeros((int(number) + 1, *values.shape[1:]))
        if mode == "sum":
            return result.index_add(0, indices, values)[:-1]
        indices = indices.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
        return result.scatter_reduce(0, indices, values, _REDUCE[mode], include_self=False)[:-1]

    @staticmethod
    def masked_select_raw(raw_tensor: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """:return: selected"""
        return raw_tensor[mask.to(raw_tensor.device)]

    @staticmethod
    def masked_scatter_raw(raw_tensor: torch.Tensor, mask: torch.Tensor, backup: torch.Tensor | None) -> torch.Tensor:
        """:return: scattered"""
        mask = mask.to(raw_tensor.device)
        if backup is None:
            backup = raw_tensor.new_zeros((*mask.shape, *raw_tensor.shape[1:]))
        places = mask.nonzero(as_tuple=True)
        return backup.index_put(places, raw_tensor[: len(places[0])])

    @staticmethod
    def search_sorted_raw(sorted_rows: torch.Tensor, values: torch.Tensor, *, side: str, dtype: str) -> torch.Tensor:
        """:return: positions"""
        found = torch.searchsorted(sorted_rows.contiguous(), values.contiguous(), side=side)
        return found.to(getattr(torch, dtype))

    @staticmethod
    def sort_raw(
        raw_tensor: torch.Tensor, axis: int, *, descending: bool, stable: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """:return: sorted values; their indices"""
        values, indices = torch.sort(raw_tensor, dim=axis, descending=descending, stable=stable)
        return values, indices.to(torch.int32)

    @staticmethod
    def top_k_raw(raw_tensor: torch.Tensor, k: Any, *, sorted: bool) -> tuple[torch.Tensor, torch.Tensor]:
        """:return: the highest values; their indices"""
        values, indices = torch.topk(raw_tensor, as_size(k), dim=-1, sorted=sorted)
        return values, indices.to(torch.int32)
