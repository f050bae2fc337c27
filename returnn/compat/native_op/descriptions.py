"""
The operations of the old module `native_op`: what goes in and comes out, and the function that computes it today.

In the original, each class has the code of a kernel in C and CUDA, which is compiled for it. Here, kernels are in
`returnn/native` (docs/native.md), and what has none is made of operations of TensorFlow. So these classes have a
function, and `returnn.tf.native_op.make_op` gives that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import tensorflow as tf

from returnn.compat.native_op import chunks, edit_distance, full_sum
from returnn.tf.layers.rec.units import seq_cells
from returnn.util.errors import ConfigError

Info = Sequence[Mapping[str, Any]]


def _arrays(**num_axes: int) -> tuple[dict[str, Any], ...]:
    """:return: name and number of axes of each"""
    return tuple({"name": name, "ndim": ndim} for name, ndim in num_axes.items())


class NativeOpGenBase:
    """Base class of all of them."""

    in_info: ClassVar[Info | None] = None
    out_info: ClassVar[Info | None] = None
    c_extra_support_code: ClassVar[Any] = None
    c_fw_code: ClassVar[str | None] = None
    c_bw_code: ClassVar[str | None] = None
    code_version: ClassVar[Any] = None
    grad_input_map: ClassVar[Any] = None
    theano_custom_grad: ClassVar[Any] = None
    cpu_support: ClassVar[bool] = True
    compute: ClassVar[Callable[..., Any] | None] = None  # on raw tensors: from the inputs to the outputs
    instead: ClassVar[str] = "write a kernel in returnn/native/src, see docs/native.md, or a function on raw tensors"

    @classmethod
    def map_layer_inputs_to_op(cls, *inputs: Any) -> tuple[Any, ...]:
        """:return: inputs of the operation for those of a layer"""
        return inputs

    @classmethod
    def map_layer_output_from_op(cls, *outputs: Any) -> Any:
        """:return: output of a layer for those of the operation"""
        return outputs[0]


class NativeOpBaseMixin:
    """An operation with its name. It cannot be made of C code any more."""

    def __init__(
        self,
        in_info: Info,
        out_info: Info,
        c_fw_code: str | None = None,
        c_bw_code: str | None = None,
        c_extra_support_code: Any = None,
        code_version: Any = None,
        cpu_support: bool = True,
        grad_input_map: Any = None,
        name: str | None = None,
        compute: Callable[..., Any] | None = None,
        instead: str = NativeOpGenBase.instead,
    ) -> None:
        """
        :param in_info: name and number of axes of each input
        :param out_info: name and number of axes of each output
        :param c_fw_code: code of a kernel: an error, like the other arguments which are about that
        :param name: of the operation
        :param compute: function on raw tensors
        :param instead: what to do, if there is none
        :raises ConfigError: if there is code
        """
        if c_fw_code or c_bw_code or c_extra_support_code:
            raise ConfigError(
                f"native operation {name!r}: code that is compiled into one operation is not supported.\n"
                f"  Instead: {NativeOpGenBase.instead}."
            )
        self.in_info, self.out_info = list(in_info), list(out_info)
        self.c_fw_code, self.c_bw_code, self.c_extra_support_code = c_fw_code, c_bw_code, c_extra_support_code
        self.code_version, self.cpu_support, self.grad_input_map = code_version or (), cpu_support, grad_input_map
        self.name = name
        self.compute = compute
        self.instead = instead

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"


class OpDescription(NativeOpBaseMixin):
    """The same."""

    @classmethod
    def from_gen_base(cls, gen_base: type[NativeOpGenBase] | NativeOpGenBase) -> OpDescription:
        """:return: the operation of such a class"""
        gen_class = gen_base if isinstance(gen_base, type) else type(gen_base)
        names = ("c_fw_code", "c_bw_code", "c_extra_support_code", "code_version", "cpu_support", "instead")
        opts = {name: getattr(gen_base, name) for name in names}
        infos = (gen_base.in_info or (), gen_base.out_info or ())
        return cls(*infos, name=gen_class.__name__, compute=gen_class.compute, **opts)

    @property
    def is_grad_defined(self) -> bool:
        """Whether TensorFlow knows its gradient."""
        return self.name in {cls.__name__ for cls in (LstmGenericBase, LstmLowMem, NativeLstm2, *_MADE_OF_GATHERS)}


# Recurrent units.

_LSTM_BEGIN = {"y0": 2, "c0": 2, "i": 2, "start": 0, "step": 0}


def _lstm_generic(z: tf.Tensor, v_h: tf.Tensor, c: tf.Tensor, i: tf.Tensor) -> tuple[tf.Tensor, None, tf.Tensor]:
    output, state = seq_cells.NativeLstmCell.op(z, v_h, c, i)
    return output, None, state.c


def _lstm2(x: Any, w: Any, y0: Any, c0: Any, i: Any, start: Any, step: int) -> tuple[Any, None, None, Any]:
    _begins_at_first_frame(start)
    output, state = seq_cells.NativeLstm2.op(x, w, c0, y0, i, step)
    return output, None, None, state.c


def _lstm_low_mem(x: Any, w: Any, b: Any, y0: Any, c0: Any, i: Any, start: Any, step: int) -> tuple[Any, None, Any]:
    _begins_at_first_frame(start)
    output, state = seq_cells.NativeLstmLowMemCell.op(x, w, b, y0, c0, i, step)
    return output, None, state.c


def _begins_at_first_frame(start: Any) -> None:
    value = tf.get_static_value(tf.convert_to_tensor(start))
    if value is None or value != 0:
        raise ConfigError("native LSTM: 'start' has to be 0: sequences begin in the first frame. Cut off those before.")


class LstmGenericBase(NativeOpGenBase):
    """LSTM on gates (T, B, 4 F). Outputs (T, B, F), nothing (it was for the gradient), and the last cell (B, F)."""

    in_info = _arrays(Z=3, V_h=2, c=2, i=2)
    out_info = _arrays(Y=3, H=3, d=2)
    compute = staticmethod(_lstm_generic)


class LstmLowMem(NativeOpGenBase):
    """LSTM with one matrix for input and recurrence. Outputs as above, with the last cell at the end."""

    in_info = _arrays(X=3, W=2, b=1, **_LSTM_BEGIN)
    out_info = _arrays(Y=3, C=3, d=2)
    compute = staticmethod(_lstm_low_mem)


class NativeLstm2(NativeOpGenBase):
    """LSTM on gates (T, B, 4 F). Outputs as above, with the last cell at the end."""

    in_info = _arrays(X=3, W=2, **_LSTM_BEGIN)
    out_info = _arrays(Y=3, C=3, H=3, d=2)
    compute = staticmethod(_lstm2)


class TwoDLSTM(NativeOpGenBase):
    """LSTM over two axes."""

    cpu_support = False
    instead = "use `returnn.tf.native_op.TwoDNativeLstmCell`, or the layer class 'twod_lstm'"


# Alignments.


class FastBaumWelchOp(NativeOpGenBase):
    """See `returnn.tf.native_op.fast_baum_welch`. There is no buffer for states any more."""

    in_info = _arrays(am_scores=3, edges=2, weights=1, start_end_states=2, index=2)
    out_info = _arrays(output=3, sums=2)
    compute = staticmethod(full_sum.fast_baum_welch)


class FastViterbiOp(NativeOpGenBase):
    """See `returnn.tf.native_op.fast_viterbi`."""

    in_info = _arrays(am_scores=3, am_seq_len=1, edges=2, weights=1, start_end_states=2)
    out_info = _arrays(output=2, scores=1)
    compute = staticmethod(
        lambda am_scores, am_seq_len, edges, weights, start_end_states: full_sum.fast_viterbi(
            am_scores=am_scores,
            am_seq_len=am_seq_len,
            edges=edges,
            weights=weights,
            start_end_states=start_end_states,
        )
    )


class GetCtcFsaFastBwOp(NativeOpGenBase):
    """See `returnn.tf.native_op.get_ctc_fsa_fast_bw`."""

    in_info = _arrays(targets=2, seq_lens=1, blank_idx=0)
    out_info = _arrays(edges=2, weights=1, start_end_states=2)
    compute = staticmethod(full_sum.get_ctc_fsa_fast_bw)


class MultiEndFastBaumWelchOp(NativeOpGenBase):
    """Automata with several end states."""

    cpu_support = False
    instead = "add one end state to the automata, with an edge for each edge into an end state, and `FastBaumWelchOp`"


class SegmentFastBaumWelchOp(NativeOpGenBase):
    """Sums over segmentations."""

    cpu_support = False
    instead = "use the layers of `returnn.tf.layers.segmental_model`"


class FastBaumWelchPackedOp(NativeOpGenBase):
    """On sequences one behind the other."""

    instead = "pad the sequences, and use `FastBaumWelchOp`"


class GetCtcFsaFastBwPackedOp(NativeOpGenBase):
    """On sequences one behind the other."""

    instead = "pad the sequences, and use `GetCtcFsaFastBwOp`"


# Edit distances.


class EditDistanceOp(NativeOpGenBase):
    """See `returnn.tf.native_op.edit_distance`."""

    in_info = _arrays(a=2, a_len=1, b=2, b_len=1)
    out_info = _arrays(output=1)
    compute = staticmethod(edit_distance.edit_distance)


class OptimalCompletionEditDistanceOp(NativeOpGenBase):
    """See `returnn.tf.native_op.optimal_completion_edit_distance`."""

    in_info = _arrays(a=2, a_len=1, b=2, b_len=1)
    out_info = _arrays(output=1)
    compute = staticmethod(edit_distance.optimal_completion_edit_distance)


class OptimalCompletionEditDistancePerSuccessorOp(NativeOpGenBase):
    """See `returnn.tf.native_op.optimal_completion_edit_distance_per_successor`."""

    in_info = _arrays(a=2, a_len=1, b=2, b_len=1, successors=1)
    out_info = _arrays(output=2)
    compute = staticmethod(edit_distance.optimal_completion_edit_distance_per_successor)


class NextEditDistanceRowOp(NativeOpGenBase):
    """See `returnn.tf.native_op.next_edit_distance_row`."""

    in_info = _arrays(last_row=2, a=1, a_n=1, a_ended=1, b=2, b_len=1)
    out_info = _arrays(output=2)
    compute = staticmethod(edit_distance.next_edit_distance_row)


class NextEditDistanceReduceOp(NativeOpGenBase):
    """See `returnn.tf.native_op.next_edit_distance_reduce`."""

    in_info = _arrays(last_row=2, a=2, a_n=1, a_ended=1, b=2, b_len=1)
    out_info = _arrays(output=2)
    compute = staticmethod(edit_distance.next_edit_distance_reduce)


# Chunks and indices.


class Chunking(NativeOpGenBase):
    """See `returnn.tf.native_op.chunk`."""

    in_info = _arrays(input=3, index=2, chunk_size=0, chunk_step=0)
    out_info = _arrays(output=3, oindex=2)
    compute = staticmethod(chunks.chunk)
    naive_chunk_start_frames = staticmethod(chunks.naive_chunk_start_frames)


class UnChunking(NativeOpGenBase):
    """See `returnn.tf.native_op.unchunk`."""

    in_info = _arrays(input=3, index=2, chunk_size=0, chunk_step=0, n_time=0, n_batch=0)
    out_info = _arrays(output=3, oindex=2, ofactors=2)
    compute = staticmethod(chunks.unchunk)


class SubtensorBatchedIndex(NativeOpGenBase):
    """One entry of the last axis for each frame: (T, B, F) at (T, B)."""

    in_info = _arrays(x=3, idx=2)
    out_info = ({"name": "y", "ndim": 2, "shape": ((0, 0), (0, 1))},)
    compute = staticmethod(lambda x, idx: tf.gather(x, tf.cast(idx, tf.int32), batch_dims=2))


class SparseToDense(NativeOpGenBase):
    """Of Theano's sparse matrices."""

    instead = "use `tf.sparse.to_dense`"


class MaxAndArgmaxSparse(NativeOpGenBase):
    """Of Theano's sparse matrices."""

    instead = "use `tf.sparse.reduce_max`"


class CrossEntropySoftmaxAndGradientZSparse(NativeOpGenBase):
    """Of Theano's sparse matrices."""

    instead = "use `tf.nn.softmax_cross_entropy_with_logits`, with dense targets"


_MADE_OF_GATHERS = (Chunking, UnChunking, SubtensorBatchedIndex)


# From classes to functions.


class OpMaker:
    """Gives the function of an operation."""

    def __init__(self, description: OpDescription, **compiler_options: Any) -> None:
        """
        :param description: of the operation
        :param compiler_options: there are none any more
        :raises ConfigError: if there are some
        """
        if compiler_options:
            raise ConfigError(
                f"native operation {description.name!r}: option {next(iter(compiler_options))!r} is not supported.\n"
                "  Kernels are compiled together; `CXX` and RETURNN_NATIVE_LEVEL say how, see docs/native.md."
            )
        self.description = description
        self.name = description.name

    @property
    def op_name(self) -> str | None:
        """Name of the operation."""
        return self.name

    @property
    def cache_key(self) -> str | None:
        """What tells it from others."""
        return self.name

    def make_op(self, grad_func: Callable[..., Any] | None = None) -> Callable[..., Any]:
        """
        :param grad_func: from the operation and the gradient of each output to the gradient of each input
        :return: function on raw tensors
        :raises ConfigError: if there is none
        """
        compute = self.description.compute
        if compute is None:
            raise ConfigError(f"there is no native operation {self.name!r}.\n  Instead: {self.description.instead}.")
        if grad_func is None:
            return compute

        @tf.custom_gradient
        def with_gradient(*inputs: tf.Tensor) -> Any:
            outputs = compute(*inputs)
            call = _Call(list(inputs), tf.nest.flatten(outputs))
            return outputs, lambda *upstream: grad_func(call, *upstream)

        return with_gradient


class _Call:
    """What a function for the gradient sees of the operation."""

    def __init__(self, inputs: list[tf.Tensor], outputs: list[tf.Tensor]) -> None:
        self.inputs = inputs
        self.outputs = outputs


def make_op(cls: type[NativeOpGenBase], **kwargs: Any) -> Callable[..., Any]:
    """
    :param cls: an operation
    :param kwargs: for `OpMaker`
    :return: function on raw tensors
    """
    return OpMaker(OpDescription.from_gen_base(cls), **kwargs).make_op()


def make_lstm_op(**kwargs: Any) -> Callable[..., Any]:
    """:return: function with the inputs and outputs of `LstmGenericBase`"""
    return make_op(LstmGenericBase, **kwargs)


def have_blocksparse_requirements() -> bool:
    """:return: whether there are the GPU kernels of the package `blocksparse`: it does not work since TensorFlow 2"""
    return False


def init_blocksparse(with_native_module: bool = True) -> None:
    """
    :param with_native_module: whether its kernels are needed
    :raises ConfigError: if they are
    """
    if with_native_module:
        raise ConfigError("the package 'blocksparse' does not work with this version of TensorFlow.")
