"""
`ReturnnDimTagsProxy`: dims of a net dict as Python code.

Each dim that was not computed from others gets a name and a definition. What was computed is written as this
computation, such as `time_dim.ceildiv_right(4)`, so it is the same dim where the text is executed.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

from returnn.tensor import Dim, batch_dim, single_step_dim
from returnn.tensor.dim_math import Atom, Factor, Quotient, Sum, Term
from returnn.tensor.marked_dim import MarkedDim
from returnn.util.errors import UserError

T = TypeVar("T")
_GLOBAL = {"batch_dim": batch_dim, "single_step_dim": single_step_dim}
_RULES = {"padded": "padded_dim", "at most": "at_most", "at least": "at_least", "twin": "twin"}


class DimRefProxy:
    """Stands for a dim. Its `repr` is code."""

    def __init__(
        self, *, dim: Dim | MarkedDim, name: str | None, path: tuple[Any, ...], parent: ReturnnDimTagsProxy
    ) -> None:
        """
        :param dim: the dim
        :param name: in the code; None: there is no definition of its own
        :param path: where it was found first
        :param parent: knows the others
        """
        self._dim = dim
        self.name = name
        self.path = path
        self.parent = parent
        self.debug_idx = len(parent.dim_refs_by_tag)

    @property
    def dim(self) -> Dim:
        """The dim, without marks."""
        return self._dim.tag if isinstance(self._dim, MarkedDim) else self._dim

    def __repr__(self) -> str:
        return self.ref_repr()

    def __hash__(self) -> int:
        return hash(self._dim)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DimRefProxy) and self._dim == other._dim

    def __lt__(self, other: DimRefProxy) -> bool:
        return self.ref_repr() < other.ref_repr()

    def ref_repr(self) -> str:
        """:return: code that refers to it"""
        return self.parent.dim_ref_repr(self._dim, brackets=False)

    def py_id_name(self) -> str:
        """:return: name of the variable"""
        assert self.name is not None
        return self.name

    def dim_repr(self) -> str:
        """:return: code that makes it"""
        dim = self.dim
        options = [repr(dim.size), f"name={dim.name!r}"]
        if dim.kind is not None:
            options.append(f"kind=Dim.Types.{dim.kind.name}")
        if dim.capacity is not None:
            options.append(f"capacity={dim.capacity}")
        if dim.match_priority:
            options.append(f"match_priority={dim.match_priority}")
        options += [f"{flag}=True" for flag in ("auto_generated", "special") if getattr(dim, flag)]
        return f"Dim({', '.join(options)})"


class SetProxy:
    """A set whose `repr` has a fixed order."""

    def __init__(self, values: Sequence[Any]) -> None:
        """:param values: in this order"""
        self.values = values

    def __repr__(self) -> str:
        return f"{{{', '.join(map(repr, self.values))}}}" if self.values else "set()"


_Ref: TypeAlias = DimRefProxy  # in the next class, the attribute hides the name from annotations


class ReturnnDimTagsProxy:
    """All dims of a config. See the head of this module."""

    DimRefProxy = DimRefProxy
    SetProxy = SetProxy

    def __init__(self, *, reserved_names: set[str] | None = None) -> None:
        """:param reserved_names: which no dim can have"""
        self.dim_refs_by_name: dict[str, DimRefProxy] = {}
        self.dim_refs_by_tag: dict[Dim, DimRefProxy] = {}
        self.reserved_names = set(reserved_names or ())

    def __repr__(self) -> str:
        entries = ", ".join(f"{name!r}: {ref.dim_repr()}" for name, ref in self.dim_refs_by_name.items())
        return f"{{{entries}}}"

    def copy(self) -> ReturnnDimTagsProxy:
        """:return: another one with the same dims"""
        new = ReturnnDimTagsProxy(reserved_names=self.reserved_names)
        new.dim_refs_by_name = dict(self.dim_refs_by_name)
        new.dim_refs_by_tag = dict(self.dim_refs_by_tag)
        return new

    def py_code_str(self, exclude_dims: Collection[_Ref] = ()) -> str:
        """
        :param exclude_dims: which are defined already
        :return: code with a definition for each dim
        """
        excluded = [ref.dim for ref in exclude_dims]
        refs = [ref for ref in self.dim_refs_by_name.values() if ref.dim not in excluded]
        return "".join(f"{ref.py_id_name()} = {ref.dim_repr()}\n" for ref in refs)

    def dim_ref_repr(self, dim: Dim | MarkedDim, *, brackets: bool = True, prefer_ref: bool = True) -> str:
        """
        :param dim: its parts are registered
        :param brackets: around a sum or product
        :param prefer_ref: its name, where it has one
        :return: code
        """
        if isinstance(dim, MarkedDim):
            return f"{type(dim).__name__}({self.dim_ref_repr(dim.tag, brackets=False)})"
        name = next((name for name, known in _GLOBAL.items() if dim is known or dim == known), None)
        if name is not None:
            return name
        base = dim.get_same_base()
        if prefer_ref and base in self.dim_refs_by_tag:
            return self.dim_refs_by_tag[base].py_id_name()
        if base.length_rule is not None:
            kind, *args = base.length_rule.rule
            source = self.dim_ref_repr(base.length_rule.source, brackets=False)  # type: ignore[arg-type]
            return f"{_RULES[kind]}({', '.join([source, *map(repr, args)])})"
        text, is_simple = self._sum(base.expression)
        return f"({text})" if brackets and not is_simple else text

    def collect_dim_tags_and_transform_config(self, config: T) -> T:
        """
        :param config: nested structure with dims
        :return: the same, with proxies in place of dims and sets
        """
        return self._transformed(config, ())  # type: ignore[no-any-return]

    def _transformed(self, value: Any, path: tuple[Any, ...]) -> Any:
        if isinstance(value, (Dim, MarkedDim)):
            return self._register(value, path)
        if isinstance(value, Mapping):
            return {
                self._transformed(key, (*path, "key")): self._transformed(entry, (*path, key))
                for key, entry in value.items()
            }
        if isinstance(value, (set, frozenset)):
            return SetProxy(sorted((self._transformed(entry, path) for entry in value), key=repr))
        if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
            return type(value)(self._transformed(entry, (*path, i)) for i, entry in enumerate(value))
        return value

    def _register(self, dim: Dim | MarkedDim, path: tuple[Any, ...]) -> _Ref:
        """:return: proxy; those dims from which it was computed have definitions"""
        base = (dim.tag if isinstance(dim, MarkedDim) else dim).get_same_base()
        if base in self.dim_refs_by_tag:
            return DimRefProxy(dim=dim, name=self.dim_refs_by_tag[base].name, path=path, parent=self)
        if base in _GLOBAL.values():
            return DimRefProxy(dim=dim, name=None, path=path, parent=self)
        if base.length_rule is not None:
            self._register(base.length_rule.source, (*path, "source"))  # type: ignore[arg-type]
            return DimRefProxy(dim=dim, name=None, path=path, parent=self)
        atoms = [atom for atom in base.expression.atoms() if atom is not base] if base.is_derived() else []
        if base.is_derived():
            for atom in atoms:
                self._register(atom, (*path, "atom"))
            return DimRefProxy(dim=dim, name=None, path=path, parent=self)
        ref = DimRefProxy(dim=base, name=self._free_name(base, path), path=path, parent=self)
        self.dim_refs_by_name[ref.py_id_name()] = ref
        self.dim_refs_by_tag[base] = ref
        return ref if dim is base else DimRefProxy(dim=dim, name=ref.name, path=path, parent=self)

    def _free_name(self, dim: Dim, path: tuple[Any, ...]) -> str:
        words = dim.name or next((str(part) for part in reversed(path) if isinstance(part, str)), "dim")
        name = re.sub(r"\W+", "_", words).strip("_") or "dim"
        name = name if name.endswith("dim") else f"{name}_dim"
        name = f"dim_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
        free, number = name, 0
        while free in self.dim_refs_by_name or free in self.reserved_names or free in _GLOBAL:
            free, number = f"{name}_{number}", number + 1
        return free

    def _sum(self, x: Sum) -> tuple[str, bool]:
        """:return: code; whether it needs no brackets"""
        terms = [self._term(term) for term in x.terms]
        is_simple = len(terms) == 1 and " " not in terms[0]
        return " + ".join(terms), is_simple

    def _term(self, term: Term) -> str:
        factors = [self._factor(factor) for factor in term.factors]
        if term.coefficient != 1 or not factors:
            factors.insert(0, f"({term.coefficient})" if term.coefficient < 0 else str(term.coefficient))
        return " * ".join(factors)

    def _factor(self, factor: Factor) -> str:
        if isinstance(factor, Atom):
            return self.dim_ref_repr(factor.dim)
        assert isinstance(factor, Quotient)
        numerator, is_simple = self._sum(factor.numerator)
        divisor, _ = self._sum(factor.divisor)
        if factor.numerator.as_constant() is not None:
            raise UserError(f"dim {numerator} / {divisor}: a number divided by a dim cannot be written as code.")
        numerator = numerator if is_simple else f"({numerator})"
        method = {"floordiv": "__floordiv__", "ceildiv": "ceildiv_right", "truediv": "div_right"}[factor.kind]
        if method == "__floordiv__":
            return f"({numerator} // ({divisor}))"
        return f"{numerator}.{method}({divisor})"


__all__ = ["DimRefProxy", "ReturnnDimTagsProxy", "SetProxy"]
