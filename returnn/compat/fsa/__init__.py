"""Finite state automata as numpy arrays for a batch, and as lists of edges for the words of a sentence."""

from returnn.compat.fsa.batch import (
    FastBaumWelchBatchFsa,
    FastBwFsaShared,
    fast_bw_fsa_staircase,
    get_ctc_fsa_fast_bw,
)
from returnn.compat.fsa.drawing import Store
from returnn.compat.fsa.edge import Edge
from returnn.compat.fsa.graph import Asg, Ctc, Graph
from returnn.compat.fsa.words import AllPossibleWordsFsa, Hmm, Ngram, load_lexicon, load_state_tying

__all__ = [
    "AllPossibleWordsFsa",
    "Asg",
    "Ctc",
    "Edge",
    "FastBaumWelchBatchFsa",
    "FastBwFsaShared",
    "Graph",
    "Hmm",
    "Ngram",
    "Store",
    "fast_bw_fsa_staircase",
    "get_ctc_fsa_fast_bw",
    "load_lexicon",
    "load_state_tying",
]
