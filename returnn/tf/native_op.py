"""Documented path: hands on recurrent units over all frames, and operations on raw tensors which were native ones."""

from returnn.compat.native_op.chunks import chunk, unchunk
from returnn.compat.native_op.descriptions import (
    OpDescription,
    OpMaker,
    have_blocksparse_requirements,
    init_blocksparse,
    make_lstm_op,
    make_op,
)
from returnn.compat.native_op.edit_distance import (
    edit_distance,
    edit_distance_via_next_edit_distance_row,
    next_edit_distance_reduce,
    next_edit_distance_row,
    optimal_completion_edit_distance,
    optimal_completion_edit_distance_per_successor,
    optimal_completion_edit_distance_per_successor_via_next_edit_distance,
)
from returnn.compat.native_op.full_sum import (
    ctc_loss,
    ctc_loss_viterbi,
    fast_baum_welch,
    fast_baum_welch_by_sprint_automata,
    fast_baum_welch_staircase,
    fast_viterbi,
    get_ctc_fsa_fast_bw,
    make_fast_baum_welch_op,
    tf_fast_bw_fsa_staircase,
)
from returnn.tf.layers.rec.units.seq_cells import (
    NativeLstm2,
    NativeLstmCell,
    NativeLstmLowMemCell,
    RecSeqCellOp,
    TwoDNativeLstmCell,
)

__all__ = [
    "NativeLstm2",
    "NativeLstmCell",
    "NativeLstmLowMemCell",
    "OpDescription",
    "OpMaker",
    "RecSeqCellOp",
    "TwoDNativeLstmCell",
    "chunk",
    "ctc_loss",
    "ctc_loss_viterbi",
    "edit_distance",
    "edit_distance_via_next_edit_distance_row",
    "fast_baum_welch",
    "fast_baum_welch_by_sprint_automata",
    "fast_baum_welch_staircase",
    "fast_viterbi",
    "get_ctc_fsa_fast_bw",
    "have_blocksparse_requirements",
    "init_blocksparse",
    "make_fast_baum_welch_op",
    "make_lstm_op",
    "make_op",
    "next_edit_distance_reduce",
    "next_edit_distance_row",
    "optimal_completion_edit_distance",
    "optimal_completion_edit_distance_per_successor",
    "optimal_completion_edit_distance_per_successor_via_next_edit_distance",
    "tf_fast_bw_fsa_staircase",
    "unchunk",
]
