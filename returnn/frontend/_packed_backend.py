"""
Packed tensors: the frames of all sequences of a batch behind each other, without padding.

A packed tensor has the dims that the padded one has, [B, T, F], so a model need not know of it; only its value is
another one, a `PackedRaw` with a tensor {frames, F}. The backend here is asked for such tensors. There are three kinds
of operations:

- Those which name neither B nor T, such as a linear map or a layer normalization, are computed on {frames, F}. What is
  padded and has both dims is packed for that; what has one of them, each frame takes its own entry.
- Attention, CTC, and sums and means over B and T together know ways of their own.
- For all others, such as a convolution over T, values are padded first, and so is the result.

In all frames that exist, values are those which padded tensors would have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from returnn.frontend._array.gather import gather
from returnn.frontend._array.masked import pack_padded, pad_packed
from returnn.frontend._array.scatter import scatter
from returnn.frontend._backend import Backend, get_backend_of, register_backend, register_backend_by_tensor_type
from returnn.frontend._ops.operands import as_dims, fail, require_dims
from returnn.frontend.dims import range_over_dim
from returnn.frontend.dropout import dropout
from returnn.frontend.run_ctx import get_run_ctx
from returnn.tensor import Dim, Tensor
from returnn.util.python.nested import iter_nested, map_nested

__all__ = ["is_packed", "pack", "pack_import", "packed_flat_content", "packed_regap", "unpack"]


@dataclass(frozen=True)
class PackedRaw:
    """The value of a packed tensor."""

    content: Tensor  # {frames, ...}
    frames: Dim  # of all sequences
    dims: tuple[Dim, Dim]  # what they stand for: the sequences, and the frames of each one

    def sequence_and_position(self) -> tuple[Tensor, Tensor]:
        """:return: {frames}: the sequence of each frame, and its position there"""
        return tuple(  # type: ignore[return-value]
            _packed_content(range_over_dim(dim), self.dims, self.frames) for dim in self.dims
        )

    def starts_and_lengths(self) -> tuple[Any, Any, int]:
        """:return: raw, int32: (B,), first frame of each sequence; (B,), number of its frames; the largest number"""
        backend = get_backend_of(self.content)
        lengths: Any = backend.cast(self.dims[1].get_size_tensor(), "int32")
        device = backend.get_device(self.content)
        raw = backend.copy_to_device(lengths, device)._raw_tensor
        return raw.cumsum(0) - raw, raw, self.dims[1].get_dim_value()


def pack(source: Tensor, *, dims: Sequence[Dim] | None = None) -> Tensor:
    """
    :param source: {dims..., ...}
    :param dims: the sequences, and their frames. Default: the batch dim, and the one whose lengths are over it
    :return: the same tensor, without padding in memory; itself, if it is packed
    :raises DimError: if it is not clear which dims are meant
    """
    if is_packed(source):
        return source
    if dims is None:
        dims = _dims_to_pack(source)
    require_dims("pack", source, dims)
    if len(dims) != 2 or dims[1].dyn_size_ext is None or tuple(dims[1].dyn_size_ext.dims) != (dims[0],):
        raise fail(f"pack: {source}: expected a dim, and one with a length for each of its entries, got {list(dims)}.")
    content, frames = pack_padded(source, dims=dims)
    return _packed(content, frames, (dims[0], dims[1]))


def unpack(source: Tensor) -> Tensor:
    """
    :param source: packed, or not
    :return: padded, with 0 in padded frames
    """
    raw = source._raw_tensor
    if not isinstance(raw, PackedRaw):
        return source
    padded = pad_packed(raw.content, in_dim=raw.frames, dims=raw.dims)
    return padded.copy_transpose(source.dims).copy_with_roles(feature_dim=source.feature_dim)


def is_packed(source: Tensor) -> bool:
    """:return: whether the value is packed"""
    return isinstance(source._raw_tensor, PackedRaw)


def pack_import(content: Tensor, *, in_dim: Dim, dims: Sequence[Dim]) -> Tensor:
    """
    :param content: {in_dim, ...}, the frames of all sequences behind each other
    :param in_dim: of these frames
    :param dims: the sequences, and their frames, whose lengths sum up to `in_dim`
    :return: {dims..., ...}, packed
    """
    require_dims("pack_import: in_dim", content, [in_dim])
    batch, spatial = dims
    return _packed(content, in_dim, (batch, spatial))


def packed_flat_content(source: Tensor) -> tuple[Tensor, Dim]:
    """
    :param source: packed
    :return: {frames, ...}; frames, those of all sequences behind each other
    :raises DimError: if it is not packed
    """
    raw = _raw_of("packed_flat_content", source)
    return raw.content, raw.frames


def packed_regap(source: Tensor, *, gap: int) -> tuple[Tensor, Dim]:
    """
    For what looks at neighbouring frames, such as a convolution: it sees zeros there, and not another sequence.

    :param source: packed
    :param gap: how many frames with 0 come behind each sequence
    :return: {frames, ...}; frames
    :raises DimError: if it is not packed
    """
    raw = _raw_of("packed_regap", source)
    backend = get_backend_of(raw.content)
    sequence, _ = raw.sequence_and_position()
    sequence = backend.copy_to_device(sequence.copy_with_roles(sparse_dim=None), backend.get_device(raw.content))
    frames = Dim(raw.frames.get_dim_value() + gap * raw.dims[0].get_dim_value(), name="frames_with_gaps")
    place = backend.combine(range_over_dim(raw.frames).copy_with_roles(sparse_dim=None), "add", sequence * gap)
    return scatter(raw.content, indices=place.copy_with_roles(sparse_dim=frames), indices_dim=raw.frames), frames


def _raw_of(function: str, source: Tensor) -> PackedRaw:
    if not isinstance(source._raw_tensor, PackedRaw):
        raise fail(f"{function}: {source} is not packed.\n  rf.pack does that.")
    return source._raw_tensor


def _dims_to_pack(source: Tensor) -> list[Dim]:
    found = [
        [dim.dyn_size_ext.dims[0], dim]
        for dim in source.dims
        if dim.dyn_size_ext is not None and len(dim.dyn_size_ext.dims) == 1 and dim.dyn_size_ext.dims[0] in source.dims
    ]
    if len(found) != 1:
        raise fail(f"pack: {source} has {len(found)} dims with lengths over another one.\n  Say which by 'dims'.")
    return found[0]


def _packed(content: Tensor, frames: Dim, dims: tuple[Dim, Dim]) -> Tensor:
    """:return: the content as a packed tensor, with `dims` in place of the frames"""
    all_dims = [d for dim in content.dims for d in (dims if dim == frames else (dim,))]
    out = Tensor(
        content.name, dims=all_dims, dtype=content.dtype, sparse_dim=content.sparse_dim, feature_dim=content.feature_dim
    )
    out._raw_tensor = PackedRaw(content, frames, dims)
    return out


def _packed_content(x: Tensor, dims: tuple[Dim, Dim], frames: Dim) -> Tensor:
    """:return: {frames, ...}, of a padded tensor that need not have both dims"""
    missing = [dim for dim in dims if dim not in x.dims]
    for dim in missing:
        x = get_backend_of(x).expand_dim(x, dim)
    content, _ = pack_padded(x, dims=dims, out_dim=frames)
    return content


class PackedBackend(Backend[PackedRaw]):
    """See the head of this module."""

    name = "packed"
    RawTensorType = PackedRaw
    dispatch_priority = 100

    # What tensors themselves ask for.

    @staticmethod
    def executing_eagerly() -> bool:
        """:return: True: there is a value for each frame that exists"""
        return True

    @staticmethod
    def get_known_shape_raw(raw_tensor: PackedRaw) -> tuple[int | None, ...]:
        """:return: sizes are those of the dims"""
        return (None,) * (len(raw_tensor.content.dims) + 1)

    @staticmethod
    def get_dtype_name_raw(raw_tensor: PackedRaw) -> str:
        """:return: of the content"""
        return raw_tensor.content.dtype

    @staticmethod
    def get_device(x: Tensor) -> str | None:
        """:return: of the content"""
        device: str | None = x._raw_tensor.content.device
        return device

    @staticmethod
    def transpose_raw(raw_tensor: PackedRaw, perm: Sequence[int]) -> PackedRaw:
        """:return: the same: a packed value has dims, and no order"""
        return raw_tensor

    # Operations with ways of their own.

    @classmethod
    def reduce(cls, source: Tensor, *, axis: Any, **options: Any) -> Any:
        """:return: over sequences and their frames together, it is over all frames"""
        raw: PackedRaw = source._raw_tensor
        axes = as_dims(axis)
        if not all(dim in axes for dim in raw.dims):
            return _compute("reduce", (source,), {"axis": axis, **options})
        rest = [dim for dim in axes if dim not in raw.dims]
        return get_backend_of(raw.content).reduce(raw.content, axis=[raw.frames, *rest], **options)

    @classmethod
    def replace_dim(cls, source: Tensor, *, in_dim: Dim, out_dim: Dim) -> Tensor:
        """:return: frames under another name"""
        raw: PackedRaw = source._raw_tensor
        if in_dim not in raw.dims:
            result: Tensor = _compute("replace_dim", (source,), {"in_dim": in_dim, "out_dim": out_dim})
            return result
        batch, spatial = (out_dim if dim == in_dim else dim for dim in raw.dims)
        return _packed(raw.content, raw.frames, (batch, spatial))

    @classmethod
    def scaled_dot_product_attention(cls, query: Tensor, key: Tensor, value: Tensor, **options: Any) -> Tensor:
        """:return: each sequence for itself, where query, keys and values have the same further dims"""
        found = _varlen_attention(query, key, value, **options)
        if found is None:
            found = _compute_padded("scaled_dot_product_attention", (query, key, value), options)
        return found

    @classmethod
    def ctc_loss(cls, *, logits: Tensor, targets: Tensor, **options: Any) -> Tensor:
        """:return: the loss, where only the scores of labels are padded, and not those of all classes"""
        found = _packed_ctc_loss(logits, targets, **options)
        if found is None:
            found = _compute_padded("ctc_loss", (), {"logits": logits, "targets": targets, **options})
        return found


def _compute(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Computes an operation on the frames, if it names neither the sequences nor their frames; else padded."""
    raw = next(x._raw_tensor for x in iter_nested((args, kwargs)) if isinstance(x, Tensor) and is_packed(x))
    if any((isinstance(x, Dim) and x in raw.dims) or _is_function(x) for x in iter_nested((args, kwargs))):
        return _compute_padded(name, args, kwargs)

    def content(x: Any) -> Any:
        return _content_like(x, raw) if isinstance(x, Tensor) else x

    args, kwargs = map_nested(content, list(args)), map_nested(content, dict(kwargs))
    result = getattr(get_backend_of(raw.content), name)(*args, **kwargs)

    def packed(x: Any) -> Any:
        return _packed(x, raw.frames, raw.dims) if isinstance(x, Tensor) and raw.frames in x.dims else x

    return map_nested(packed, result)


def _compute_padded(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    def padded(x: Any) -> Any:
        return unpack(x) if isinstance(x, Tensor) else x

    packed = [x._raw_tensor for x in iter_nested((args, kwargs)) if isinstance(x, Tensor) and is_packed(x)]
    inner = get_backend_of(packed[0].content)
    return getattr(inner, name)(*map_nested(padded, list(args)), **map_nested(padded, dict(kwargs)))


def _content_like(x: Tensor, raw: PackedRaw) -> Tensor:
    """:return: what an operation on the frames gets in place of x"""
    own = x._raw_tensor
    if isinstance(own, PackedRaw):
        if own.dims == raw.dims:
            return own.content if own.frames == raw.frames else _renamed(own.content, own.frames, raw.frames)
        x = unpack(x)
    if all(dim in x.dims for dim in raw.dims):
        return _packed_content(x, raw.dims, raw.frames)
    if any(dim in x.dims for dim in raw.dims):
        (own_dim,) = [dim for dim in raw.dims if dim in x.dims]
        x = gather(x, indices=raw.sequence_and_position()[raw.dims.index(own_dim)], axis=own_dim)
    return x


def _renamed(x: Tensor, in_dim: Dim, out_dim: Dim) -> Tensor:
    renamed: Tensor = get_backend_of(x).replace_dim(x, in_dim=in_dim, out_dim=out_dim)
    return renamed


def _varlen_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *,
    attention_mask: Tensor | None = None,
    att_dropout: float = 0.0,
    att_dropout_broadcast: bool,
    v_feat_dim: Dim,
    qk_feat_dim: Dim,
    kv_spatial_dim: Dim,
    query_spatial_dim: Dim,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor | None:
    """:return: None, if it is not just attention of each sequence in itself"""
    batch = next(x._raw_tensor.dims[0] for x in (query, key, value) if is_packed(x))
    drop = att_dropout if att_dropout and get_run_ctx().is_train_flag_enabled(func=dropout) is True else 0.0
    common = [dim for dim in query.dims if dim not in (batch, query_spatial_dim, qk_feat_dim)]
    layouts = [(query, query_spatial_dim, qk_feat_dim)]
    layouts += [(key, kv_spatial_dim, qk_feat_dim), (value, kv_spatial_dim, v_feat_dim)]
    fits = attention_mask is None and not (drop and att_dropout_broadcast)
    for x, spatial, features in layouts:
        lengths = spatial.dyn_size_ext
        fits = fits and lengths is not None and tuple(lengths.dims) == (batch,)
        fits = fits and len(x.dims) == len(common) + 3 and {*x.dims} == {batch, spatial, *common, features}
    if not fits:
        return None
    # All three have to be packed over the same sequences, one behind the other: [frames, common..., features].
    raws: list[PackedRaw] = []
    contents = []
    for x, spatial, features in layouts:
        own = x._raw_tensor
        is_as_wanted = isinstance(own, PackedRaw) and own.dims == (batch, spatial)
        raw = own if is_as_wanted else pack(unpack(x), dims=[batch, spatial])._raw_tensor
        raws.append(raw)
        contents.append(raw.content.copy_transpose([raw.frames, *common, features])._raw_tensor)
    inner = get_backend_of(raws[0].content)
    starts_q, lengths_q, longest_q = raws[0].starts_and_lengths()
    starts_kv, lengths_kv, longest_kv = raws[1].starts_and_lengths()
    found = inner.sdpa_varlen_raw(
        query=contents[0],
        key=contents[1],
        value=contents[2],
        seq_starts_q=starts_q,
        seq_lens_q=lengths_q,
        seq_starts_kv=starts_kv,
        seq_lens_kv=lengths_kv,
        max_len_q=longest_q,
        max_len_kv=longest_kv,
        is_causal=is_causal,
        dropout_p=drop,
        scale=scale,
    )
    dims = [raws[0].frames, *common, v_feat_dim]
    out = Tensor("attention", dims=dims, dtype=query.dtype, feature_dim=v_feat_dim, raw_tensor=found)
    return _packed(out, raws[0].frames, (batch, query_spatial_dim))


def _packed_ctc_loss(
    logits: Tensor,
    targets: Tensor,
    *,
    logits_normalized: bool = False,
    input_spatial_dim: Dim,
    targets_spatial_dim: Dim,
    blank_index: int,
    max_approx: bool = False,
    use_native_op: bool | None = None,
    label_loop: bool = True,
) -> Tensor | None:
    """:return: None, if there are further dims, or other options"""
    raw = logits._raw_tensor
    classes = logits.feature_dim
    if not isinstance(raw, PackedRaw) or raw.dims[1] != input_spatial_dim or max_approx or use_native_op:
        return None
    batch = raw.dims[0]
    targets = unpack(targets)
    if classes is None or len(logits.dims) != 3 or set(targets.dims) != {batch, targets_spatial_dim}:
        return None
    inner = get_backend_of(raw.content)
    starts, lengths, longest = raw.starts_and_lengths()
    device = inner.get_device(raw.content)
    labels = inner.cast(targets.copy_masked(0, dims=[targets_spatial_dim]), "int32").copy_with_roles(sparse_dim=None)
    num_labels = inner.copy_to_device(inner.cast(targets_spatial_dim.get_size_tensor(), "int32"), device)
    out = Tensor("ctc_loss", dims=[batch], dtype=logits.dtype)
    out._raw_tensor = inner.ctc_loss_packed_raw(
        logits=raw.content.copy_transpose([raw.frames, classes])._raw_tensor,
        seq_starts=starts,
        logits_seq_lens=lengths,
        max_seq_len=longest,
        targets=labels.copy_transpose([batch, targets_spatial_dim])._raw_tensor,
        targets_seq_lens=num_labels._raw_tensor,
        label_loop=label_loop,
        logits_normalize=not logits_normalized,
        blank_index=blank_index,
        edges_bound=None,
    )
    return out


def _is_function(x: Any) -> bool:
    return callable(x) and not isinstance(x, (Tensor, Dim, type))


def _operation(name: str) -> Callable[..., Any]:
    def operation(cls: type[PackedBackend], *args: Any, **kwargs: Any) -> Any:
        return _compute(name, args, kwargs)

    operation.__name__ = name
    return operation


def _add_operations() -> None:
    """Gives the backend all operations on tensors that it has no way of its own for."""
    for name in dir(Backend):
        is_operation = not name.startswith("_") and not name.endswith("_raw") and callable(getattr(Backend, name))
        if is_operation and name not in vars(PackedBackend):
            setattr(PackedBackend, name, classmethod(_operation(name)))


_add_operations()
register_backend(PackedBackend)
register_backend_by_tensor_type(PackedRaw, PackedBackend)
