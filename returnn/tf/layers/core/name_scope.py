"""The names of variables: a parameter is called "SCOPE/NAME", where the scope follows from the name of its layer."""

from __future__ import annotations

import re


def scope_name(layer_name: str) -> str:
    """:return: name scope for a layer of this name: what TensorFlow allows as such"""
    scope = re.sub(r"[^A-Za-z0-9_./-]", "_", layer_name.replace(":", "__"))
    return scope if re.match(r"[A-Za-z0-9.]", scope) else f".{ord(scope[0])}.{scope[1:]}"  # so the outermost can begin


def scope_of_params(own: str, *, name_scope: str | None, outer: str) -> str:
    """
    :param own: scope name of the layer
    :param name_scope: its option of this name: inside of `outer`; or from the root on, with "/" in front
    :param outer: scope of its network, with "/" at the end; "" for the root
    :return: scope of its parameters, with "/" at the end; "" for the root
    """
    if name_scope is None:
        return f"{outer}{own}/"
    scope = name_scope[1:] if name_scope.startswith("/") else outer + name_scope
    return f"{scope}/" if scope and not scope.endswith("/") else scope
