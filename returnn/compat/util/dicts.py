"""Dicts, and what looks like one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, Generic, NoReturn, TypeVar

from returnn.util.errors import ConfigError, nearest_hint
from returnn.util.texts.bool_text import to_bool

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")


class DictAsObj:
    """A dict whose entries are attributes."""

    def __init__(self, dikt: dict[str, Any]):
        """:param dikt: is shared: changes show up on both sides"""
        self.__dict__ = dikt


class ObjAsDict(Mapping[str, Any]):
    """An object whose attributes are entries."""

    def __init__(self, obj: Any):
        """:param obj: any object"""
        self._obj = obj

    def __getitem__(self, item: str) -> Any:
        try:
            return getattr(self._obj, item)
        except AttributeError as exc:
            raise KeyError(item) from exc

    def __iter__(self) -> Iterator[str]:
        return iter(vars(self._obj))

    def __len__(self) -> int:
        return len(vars(self._obj))


class FrozenDict(dict[K, V]):
    """A dict that cannot be changed, and can be a key."""

    def _refuse(self, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise TypeError("FrozenDict cannot be changed")

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = _refuse

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


class RefIdEq(Generic[T]):
    """A reference that is equal only to references to the very same object."""

    def __init__(self, obj: T):
        """:param obj: any object, need not be hashable"""
        self.obj = obj

    def __repr__(self) -> str:
        return f"RefIdEq({self.obj!r})"

    def __hash__(self) -> int:
        return id(self.obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RefIdEq) and self.obj is other.obj


class DictRefKeys(Generic[K, V]):
    """A dict that compares its keys by identity."""

    def __init__(self, items: Mapping[K, V] | Iterable[tuple[K, V]] | None = None, **kwargs: V):
        """
        :param items: at the start
        :param kwargs: further ones
        """
        self._entries: dict[RefIdEq[Any], V] = {}
        self.update(dict(kwargs) if items is None else items)
        if items is not None:
            self.update(kwargs)

    def __repr__(self) -> str:
        return f"DictRefKeys({list(self.items())!r})"

    def __getitem__(self, key: K) -> V:
        return self._entries[RefIdEq(key)]

    def __setitem__(self, key: K, value: V) -> None:
        self._entries[RefIdEq(key)] = value

    def __contains__(self, key: K) -> bool:
        return RefIdEq(key) in self._entries

    def items(self) -> list[tuple[K, V]]:
        """:return: keys with values"""
        return [(ref.obj, value) for ref, value in self._entries.items()]

    def keys(self) -> list[K]:
        """:return: keys"""
        return [ref.obj for ref in self._entries]

    def values(self) -> list[V]:
        """:return: values"""
        return list(self._entries.values())

    def update(self, other: Any) -> None:
        """Takes over all entries of another one."""
        for key, value in other.items() if hasattr(other, "items") else other:
            self[key] = value


class CollectionReadCheckCovered:
    """An option that is a bool or a dict of options, which notices the options that nobody reads."""

    def __init__(self, collection: Mapping[str, Any], truth_value: bool | None = None):
        """
        :param collection: the options
        :param truth_value: what `bool` of it is; by default, whether there are any options
        """
        self.collection = collection
        self.truth_value = bool(collection) if truth_value is None else truth_value
        self.got_items: set[str] = set()

    @classmethod
    def from_bool_or_dict(cls, value: bool | Mapping[str, Any] | None) -> CollectionReadCheckCovered:
        """:param value: the option as it stands in a config"""
        if isinstance(value, Mapping):
            return cls(value)
        return cls({}, truth_value=to_bool(value or False))

    def __getitem__(self, item: str) -> Any:
        value = self.collection[item]
        self.got_items.add(item)
        return value

    def get(self, item: str, default: Any = None) -> Any:
        """:return: an option, or the default"""
        self.got_items.add(item)
        return self.collection.get(item, default)

    def __bool__(self) -> bool:
        return self.truth_value

    __nonzero__ = __bool__

    def __len__(self) -> int:
        return len(self.collection)

    def __iter__(self) -> Iterator[str]:
        for item in self.collection:
            self.got_items.add(item)
            yield item

    def assert_all_read(self) -> None:
        """:raises ConfigError: if there is an option that nobody read"""
        unread: Collection[str] = [item for item in self.collection if item not in self.got_items]
        for item in unread:
            raise ConfigError(f"there is no option {item!r}.\n  {nearest_hint(item, self.got_items)}")
