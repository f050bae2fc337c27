"""
Which module is being called: from the stack of Python's calls, so that code needs no names of its own.

Inside of `encoder(x)`, where the encoder calls `self.layers[0](x)`, new layers go to "encoder/layers_0". A call is
known by its frame: two calls of a module are two subnetworks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Generic, TypeVar

from returnn.frontend import _owner
from returnn.frontend.module import Module
from returnn.tf.frontend_layers.place import Place

P = TypeVar("P", bound=Place)
F = TypeVar("F", bound=Callable[..., Any])
_ignored: set[CodeType] = set()


def auto_setup_name_ctx_ignore_func(func: Callable[..., Any]) -> None:
    """
    The method, although one of a module, makes no subnetwork when it is called.

    :param func: function or method
    """
    function = getattr(func, "__func__", func)
    _ignored.add(function.__code__)


@dataclass(frozen=True)
class _Call(Generic[P]):
    frame: FrameType  # it is kept, so that no other frame gets its identity
    module: Module
    layer: P


class CallStack(Generic[P]):
    """The calls of modules inside of a network, from the point on where it was entered."""

    def __init__(self) -> None:
        self._entered_by: list[FrameType] = []
        self._calls: list[list[_Call[P]]] = [[]]  # for each time that it was entered

    def begin(self) -> None:
        """Calls count which are made inside of the function which enters the network."""
        self._entered_by.append(sys._getframe(2))
        self._calls.append([])

    def end(self) -> None:
        """The network was left."""
        self._entered_by.pop()
        self._calls.pop()

    def innermost(self, network: P, *, skip: int) -> P:
        """
        :param network: to which these calls belong
        :param skip: so many calls, from the innermost on, do not count
        :return: the place of the innermost module
        """
        frames = self._frames_of_modules(skip + 1)
        known = self._calls[-1]
        num_same = 0
        for call, (frame, _) in zip(known, frames, strict=False):
            if call.frame is not frame:
                break
            num_same += 1
        del known[num_same:]
        for frame, module in frames[num_same:]:
            around, outer = (known[-1].layer, known[-1].module) if known else (network, _module_around(network))
            layer = around
            if module is not outer and (name := _name_of(module, outer)):
                layer = around.get_new_child(name)
                layer.is_subnet, layer.module = True, module
                layer.extend_reserved_names({"output"})
            known.append(_Call(frame, module, layer))
        return known[-1].layer if known else network

    def _frames_of_modules(self, skip: int) -> list[tuple[FrameType, Module]]:
        found: list[tuple[FrameType, Module]] = []
        frame: FrameType | None = sys._getframe(skip + 1)
        stop = self._entered_by[-1] if self._entered_by else None
        while frame is not None and frame is not stop:
            code = frame.f_code
            if code.co_argcount and code.co_varnames[0] == "self" and code not in _ignored:
                obj = frame.f_locals.get("self")
                if isinstance(obj, Module):
                    found.append((frame, obj))
            frame = frame.f_back
        return found[::-1]


def _module_around(network: Place) -> Module | None:
    return next((place.module for place in network.ancestors() if place.module is not None), None)


def _name_of(module: Module, outer: Module | None) -> str:
    """:return: name of the module by the attributes on the way from the outer one; "" for the outermost one"""
    names: list[str] = []
    child: Any = module
    while child is not outer:
        found = _owner.get_owner(child)
        if found is None:
            break
        child, attribute = found
        names.insert(0, attribute)
    if outer is not None and child is not outer and not names:
        return module.get_default_name()
    if outer is not None and child is not outer:
        names = names[-1:]
    return "_".join(names)
