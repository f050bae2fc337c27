"""
Beam search over models written with the frontend, on all backends, also within a graph.

    from returnn.frontend.search import beam_search

    def step(labels, state):
        logits, state = decoder(labels, spatial_dim=single_step_dim, state=state, encoder=encoder)
        return rf.log_softmax(logits, axis=vocab_dim), state

    found = beam_search(
        step, initial_state=decoder.default_initial_state, batch_dims=[batch_dim], beam_size=12, vocab_dim=vocab_dim,
        bos=0, eos=0, max_seq_len=2 * enc_spatial_dim.get_size_tensor(),
    )
    found.labels  # {batch, beam, found.spatial_dim}, the best hypothesis first

What is found for a sequence does not depend on the others in its batch: its limits are its own.
"""

from returnn.frontend.search.label_synchronous import beam_search
from returnn.frontend.search.result import SearchResult
from returnn.frontend.search.time_synchronous import time_synchronous_search

__all__ = ["SearchResult", "beam_search", "time_synchronous_search"]
