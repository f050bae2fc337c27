"""What a time step is made of: its layers and who uses what, as values, which the plan of the loop is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from returnn.tf.layers.loop.frame import Edge


@dataclass(frozen=True)
class LoopNode:
    """A layer of the time step, as far as the plan has to know it."""

    path: str
    layer_class: str
    edges: tuple[Edge, ...] = ()
    output: str = ""  # the template of its output, for people
    has_state: bool = False  # it keeps something from frame to frame
    works_on_sequences: bool = True  # it computes the same for all frames at once
    must_be_inside: str = ""  # a reason, if there is one
    collocate_with: tuple[str, ...] = ()
    selects_frames: bool = False  # for all frames at once, the output only has some of them
    mask: str = ""  # by which it selects them: equal masks select the same frames
    restores_frames: bool = False  # the way back from there
    sees_frames: bool = False  # it differs from frame to frame, also if it uses nothing that does
    makers_of_dims: tuple[str, ...] = ()  # layers which make a dim that it sees, with other lengths in each frame
    looks_ahead: bool = False  # it needs frames behind its own one, so it cannot be inside
    is_one_block: bool = False  # the layers inside of it are where it is


@dataclass(frozen=True)
class LoopGraph:
    """The layers of the time step, and what the outside wants of them."""

    nodes: Mapping[str, LoopNode]
    wanted: Sequence[str] = ("output",)  # layers of which all frames are needed outside
    conditions: Sequence[str] = ()  # layers that the loop itself needs, such as "end"
    length_is_known: bool = True  # before the loop starts
