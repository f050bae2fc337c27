"""Hooks: functions that are called after a method of an object."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, ClassVar

from returnn.frontend._own_class import delete_member, get_original_class, set_member

Hook = Callable[[Any, "tuple[Any, ...]", "dict[str, Any]", Any], Any]


def setup_post_hook_on_method(obj: Any, attr: str, hook: Hook, *, prepend: bool = False) -> RemovableHandle:
    """
    :param obj: the hook is for this object alone
    :param attr: name of the method; also a special one such as `__call__`
    :param hook: `hook(obj, args, kwargs, result)` is called after the method; if it returns something else than None,
        that becomes the result
    :param prepend: call it before the other hooks
    """
    method = MethodWithHooks.get(obj, attr)
    method.setup()
    handle = RemovableHandle(method, method.post_hooks)
    method.post_hooks[handle.id] = hook
    if prepend:
        method.post_hooks.move_to_end(handle.id, last=False)
    return handle


class MethodWithHooks:
    """A method of one object, with the hooks that are called after it."""

    def __init__(self, obj: Any, attr: str) -> None:
        """
        :param obj: any object
        :param attr: name of the method
        """
        self.obj = obj
        self.attr = attr
        self.post_hooks: OrderedDict[int, Hook] = OrderedDict()

    @classmethod
    def get(cls, obj: Any, attr: str) -> MethodWithHooks:
        """:return: the one of this object and method; a new one, not set up yet, if there is none"""
        methods = obj.__dict__.get(_ATTRIBUTE, {})
        return methods.get(attr) or cls(obj, attr)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """:return: what the method returns, and the hooks make of it"""
        result = getattr(get_original_class(self.obj), self.attr)(self.obj, *args, **kwargs)
        for hook in list(self.post_hooks.values()):
            changed = hook(self.obj, args, kwargs, result)
            result = result if changed is None else changed
        return result

    def has_any_hook(self) -> bool:
        """:return: whether there is a hook"""
        return bool(self.post_hooks)

    def setup(self) -> None:
        """Puts itself in front of the method."""
        attr = self.attr

        def call(obj: Any, *args: Any, **kwargs: Any) -> Any:
            return obj.__dict__[_ATTRIBUTE][attr](*args, **kwargs)

        methods = self.obj.__dict__.setdefault(_ATTRIBUTE, {})
        if attr not in methods:
            methods[attr] = self
            set_member(self.obj, attr, call)

    def uninstall(self) -> None:
        """Gives the object its own method back."""
        methods = self.obj.__dict__.get(_ATTRIBUTE, {})
        if methods.pop(self.attr, None) is not None:
            delete_member(self.obj, self.attr)
        if not methods:
            self.obj.__dict__.pop(_ATTRIBUTE, None)


_ATTRIBUTE = "_methods_with_hooks"  # in the object: name -> MethodWithHooks


class RemovableHandle:
    """Stands for a hook, and removes it."""

    next_id: ClassVar[int] = 0

    def __init__(self, method: MethodWithHooks, hooks_dict: OrderedDict[int, Hook]) -> None:
        """
        :param method: has the hook
        :param hooks_dict: holds the hook under the id of this handle
        """
        self.method_ref = weakref.ref(method)
        self.hooks_dict_ref = weakref.ref(hooks_dict)
        self.id = RemovableHandle.next_id
        RemovableHandle.next_id += 1

    def remove(self) -> None:
        """Removes the hook. With the last one, the object gets its own method back."""
        hooks, method = self.hooks_dict_ref(), self.method_ref()
        if hooks is not None:
            hooks.pop(self.id, None)
        if method is not None and not method.has_any_hook():
            method.uninstall()


__all__ = ["MethodWithHooks", "RemovableHandle", "setup_post_hook_on_method"]
