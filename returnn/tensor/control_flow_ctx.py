"""In which loop or branch a tensor lives."""

from __future__ import annotations

from typing import Any

from returnn.tensor.dim import Dim


class ControlFlowContext:
    """The body of a loop or a branch of a condition. No context (None) is the outermost one."""

    class Types:
        """The kinds of contexts."""

        Loop = "loop"
        Cond = "cond"

    def __init__(self, *, kind: str, identifier: str, outer_ctx: ControlFlowContext | None = None) -> None:
        """
        :param kind: one of `Types`
        :param identifier: names the context, for people
        :param outer_ctx: the context around it
        """
        self.kind = kind
        self.identifier = identifier
        self._outer_ctx = outer_ctx
        self._loop_spatial_dim: Dim | None = None
        self._tf_control_flow_ctx: Any = None

    def __repr__(self) -> str:
        return f"ControlFlowContext{{{self.repr_inner()}}}"

    def repr_inner(self) -> str:
        """:return: the contexts from the outermost to this one, as text"""
        return "/".join(f"{ctx.kind}({ctx.identifier})" for ctx in self.abs_ctx_stack(self))

    def is_loop(self) -> bool:
        """:return: whether this is the body of a loop"""
        return self.kind == self.Types.Loop

    def is_cond(self) -> bool:
        """:return: whether this is a branch of a condition"""
        return self.kind == self.Types.Cond

    @property
    def outer_ctx(self) -> ControlFlowContext | None:
        """The context around this one."""
        return self._outer_ctx

    @property
    def loop_spatial_dim(self) -> Dim | None:
        """The dim that the loop goes over, if it is known."""
        return self._loop_spatial_dim

    @loop_spatial_dim.setter
    def loop_spatial_dim(self, dim: Dim) -> None:
        self._loop_spatial_dim = dim

    @property
    def tf_control_flow_ctx(self) -> Any:
        """What TensorFlow calls the context, if it is built there."""
        return self._tf_control_flow_ctx

    @tf_control_flow_ctx.setter
    def tf_control_flow_ctx(self, ctx: Any) -> None:
        self._tf_control_flow_ctx = ctx

    @classmethod
    def abs_ctx_stack(cls, ctx: ControlFlowContext | None) -> list[ControlFlowContext]:
        """:return: the contexts from the outermost to `ctx`"""
        chain: list[ControlFlowContext] = []
        while ctx is not None:
            chain.insert(0, ctx)
            ctx = ctx.outer_ctx
        return chain

    @classmethod
    def abs_ctx_stack_with_root(cls, ctx: ControlFlowContext | None) -> list[ControlFlowContext | None]:
        """:return: None for the outside of all contexts, then those from the outermost to `ctx`"""
        return [None, *cls.abs_ctx_stack(ctx)]

    @classmethod
    def is_parent_or_same(cls, parent: ControlFlowContext | None, child: ControlFlowContext | None) -> bool:
        """:return: whether `child` is `parent` or lives inside of it"""
        return any(ctx is parent for ctx in cls.abs_ctx_stack_with_root(child))

    @classmethod
    def collect_parent_dims(cls, ctx: ControlFlowContext | None) -> list[Dim]:
        """:return: the dims of all loops from the outermost to `ctx`"""
        return [c.loop_spatial_dim for c in cls.abs_ctx_stack(ctx) if c.is_loop() and c.loop_spatial_dim is not None]
