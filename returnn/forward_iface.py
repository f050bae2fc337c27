"""What a config gives as `forward_callback`, to get the outputs of the task `forward`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from returnn.tensor import TensorDict


class ForwardCallbackIface:
    """Derive from it, and override what is needed. The methods are called in this order."""

    def init(self, *, model: Any) -> None:
        """
        Called once, before the first sequence.

        :param model: the network
        """

    def process_seq(self, *, seq_tag: str, outputs: TensorDict) -> None:
        """
        Called for each sequence, in the order of the batches: data for evaluation is sorted by length, unless the
        data set's `seq_ordering` says otherwise.

        :param seq_tag: of the sequence
        :param outputs: of this sequence alone, without batch dim and padding; the values are numpy arrays
        """

    def finish(self) -> None:
        """Called once, after the last sequence."""
