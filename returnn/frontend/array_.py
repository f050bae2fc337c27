"""Operations on the axes of arrays, by theme in `returnn.frontend._array`."""

from returnn.frontend._array.concat import concat, concat_features, cum_concat_step
from returnn.frontend._array.convert import (
    cast,
    complex_as_real,
    convert_to_tensor,
    copy,
    expand_dim,
    expand_dims,
    expand_to,
    make_complex,
    real_as_complex,
    squeeze,
    where,
)
from returnn.frontend._array.convert import (
    constant as constant,  # documented here; in the frontend itself, it is the one of `const`
)
from returnn.frontend._array.gather import gather
from returnn.frontend._array.labels import one_hot, sparse_to_dense
from returnn.frontend._array.masked import masked_scatter, masked_select, pack_padded, pad_packed, sequence_mask
from returnn.frontend._array.merge_split import merge_dims, reshape, split, split_dims, stack, unstack
from returnn.frontend._array.order import search_sorted, sort, top_k_mask, top_p_mask
from returnn.frontend._array.pad import expand_make_non_empty, pad, shift_left, shift_right
from returnn.frontend._array.scatter import (
    scatter,
    scatter_argmax,
    scatter_count,
    scatter_logmeanexp,
    scatter_logsumexp,
    scatter_mean,
)
from returnn.frontend._array.sequences import repeat, reverse_sequence, window
from returnn.frontend._array.slice import slice

__all__ = [
    "cast",
    "complex_as_real",
    "concat",
    "concat_features",
    "convert_to_tensor",
    "copy",
    "cum_concat_step",
    "expand_dim",
    "expand_dims",
    "expand_make_non_empty",
    "expand_to",
    "gather",
    "make_complex",
    "masked_scatter",
    "masked_select",
    "merge_dims",
    "one_hot",
    "pack_padded",
    "pad",
    "pad_packed",
    "real_as_complex",
    "repeat",
    "reshape",
    "reverse_sequence",
    "scatter",
    "scatter_argmax",
    "scatter_count",
    "scatter_logmeanexp",
    "scatter_logsumexp",
    "scatter_mean",
    "search_sorted",
    "sequence_mask",
    "shift_left",
    "shift_right",
    "slice",
    "sort",
    "sparse_to_dense",
    "split",
    "split_dims",
    "squeeze",
    "stack",
    "top_k_mask",
    "top_p_mask",
    "unstack",
    "where",
    "window",
]
