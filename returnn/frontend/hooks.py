"""
Hooks: functions that see what a method of one object returns, and can return something else in its place.

The object gets a class of its own (`_own_class`), in which the method is another one: it asks the `MethodWithHooks` of
the object. When the last hook is gone, so is that method.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import Any, ClassVar

from returnn.frontend._own_class import delete_member, get_original_class, set_member

Hook = Callable[[Any, "tuple[Any, ...]", "dict[str, Any]", Any], Any]
_HOOKED = "_methods_with_hooks"  # attribute of an object: its methods with hooks, by name

__all__ = ["MethodWithHooks", "RemovableHandle", "setup_post_hook_on_method"]


def setup_post_hook_on_method(obj: Any, attr: str, hook: Hook, *, prepend: bool = False) -> RemovableHandle:
    """
    :param obj: whose method it is; other objects of its class keep theirs
    :param attr: name of the method, which can also be a special one such as `__call__`
    :param hook: gets the object, positional and keyword arguments, and the result. It returns another result, or None
    :param prepend: whether it sees the result before the other hooks do
    :return: what removes the hook
    """
    method = MethodWithHooks.get(obj, attr)
    method.setup()
    return method.add(hook, is_first=prepend)


class _Hooks(dict[int, Hook]):
    """Hooks by number, in the order of their calls. Unlike a dict, it can be referred to weakly."""


class MethodWithHooks:
    """Is called in place of a method of one object."""

    def __init__(self, obj: Any, attr: str) -> None:
        """
        :param obj: the object
        :param attr: name of the method
        """
        self.obj = obj
        self.attr = attr
        self.post_hooks = _Hooks()

    @classmethod
    def get(cls, obj: Any, attr: str) -> MethodWithHooks:
        """:return: what is called in place of the method by now; if that is the method itself, a new one"""
        found: MethodWithHooks | None = vars(obj).get(_HOOKED, {}).get(attr)
        return cls(obj, attr) if found is None else found

    def add(self, hook: Hook, *, is_first: bool) -> RemovableHandle:
        """
        :param hook: see `setup_post_hook_on_method`
        :param is_first: whether it comes before the others; else behind them
        """
        handle = RemovableHandle(self, self.post_hooks)
        others = list(self.post_hooks.items())
        self.post_hooks.clear()
        self.post_hooks.update([(handle.id, hook), *others] if is_first else [*others, (handle.id, hook)])
        return handle

    def has_any_hook(self) -> bool:
        """:return: whether somebody wants to see the result"""
        return len(self.post_hooks) > 0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """:return: the result of the method, as the hooks leave it"""
        own_method = getattr(get_original_class(self.obj), self.attr)
        result = own_method(self.obj, *args, **kwargs)
        for hook in tuple(self.post_hooks.values()):  # a hook may remove itself
            if (other := hook(self.obj, args, kwargs, result)) is not None:
                result = other
        return result

    def setup(self) -> None:
        """From now on, it is called in place of the method. It does not matter whether it is already."""
        hooked = vars(self.obj).setdefault(_HOOKED, {})
        if self.attr not in hooked:
            hooked[self.attr] = self
            set_member(self.obj, self.attr, _calls_hooked(self.attr))

    def uninstall(self) -> None:
        """From now on, the method is called itself."""
        hooked = vars(self.obj).get(_HOOKED, {})
        if self.attr in hooked:
            del hooked[self.attr]
            delete_member(self.obj, self.attr)
        if not hooked:
            vars(self.obj).pop(_HOOKED, None)


def _calls_hooked(attr: str) -> Callable[..., Any]:
    """:return: method that finds the hooks by its object, as a copy of an object has its own"""

    def method(obj: Any, *args: Any, **kwargs: Any) -> Any:
        return vars(obj)[_HOOKED][attr](*args, **kwargs)

    return method


class RemovableHandle:
    """A hook that was set up. It keeps neither the object nor the hook alive."""

    next_id: ClassVar[int] = 0

    def __init__(self, method: MethodWithHooks, hooks_dict: _Hooks) -> None:
        """
        :param method: what is called in place of the method
        :param hooks_dict: in which the hook has the number of this handle
        """
        self.id = self.next_id
        type(self).next_id += 1
        self.method_ref = weakref.ref(method)
        self.hooks_dict_ref = weakref.ref(hooks_dict)

    def remove(self) -> None:
        """The hook is not called any more. If it was removed before, nothing happens."""
        hooks = self.hooks_dict_ref()
        if hooks is not None and self.id in hooks:
            del hooks[self.id]
        method = self.method_ref()
        if method is not None and not method.has_any_hook():
            method.uninstall()
