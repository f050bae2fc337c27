"""State of modules, such as that of a recurrent one."""

from __future__ import annotations

from typing import Any

from returnn.tensor import Tensor


class State(dict[str, Any]):
    """
    Nested structure of tensors by name, which are attributes too: `State(h=h, c=c).h`.

    The convention is that a module with state takes it as argument `state`, and returns it as the last result.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """
        :param args: nothing; or a dict; or a single value without a name, which gets the name "state"
        :param kwargs: values by name
        """
        if len(args) > 1:
            raise TypeError(f"State: at most one value can be without a name, got {len(args)}.")
        if args and isinstance(args[0], dict):
            super().__init__(args[0], **kwargs)
        elif args:
            super().__init__(state=args[0], **kwargs)
        else:
            super().__init__(**kwargs)

    def __repr__(self) -> str:
        return f"State({', '.join(f'{key}={value!r}' for key, value in self.items())})"

    def __getattr__(self, name: str) -> Any:
        if name in self:
            return self[name]
        raise AttributeError(f"{self} has no {name!r}.")

    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    def flatten_tensors(self) -> list[Tensor]:
        """:return: all tensors in there"""
        return self.cls_flatten_tensors(self)

    @classmethod
    def cls_flatten_tensors(cls, obj: Any) -> list[Tensor]:
        """:return: all tensors in a nested structure"""
        if isinstance(obj, Tensor):
            return [obj]
        if isinstance(obj, dict):
            obj = obj.values()
        elif not isinstance(obj, (list, tuple)):
            return []
        return [tensor for value in obj for tensor in cls.cls_flatten_tensors(value)]


__all__ = ["State"]
