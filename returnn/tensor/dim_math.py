"""
The normal form of arithmetic on dims.

A dim that was computed from others (`time // 2 + 1`) is an expression over them. Here are these expressions, as values:
equal expressions compare equal, whatever way they were written, so that `(a + b) - b == a` and
`(a // 2) // 3 == a // 6`. An expression is a `Sum` of `Term`s; a term is an integer times factors; a factor is an atom
(a dim that was not computed) or a `Quotient` which does not divide out.

Order is kept: `a + b` is an axis with the frames of `a` first and those of `b` behind, which is not `b + a`. The same
holds for products, where the left dim is the outer one. Integer factors commute: `2 * a == a * 2 == a + a`. Within a
division, only the number of frames counts: `(1 + a) // 2 == (a + 1) // 2`.

Lengths below zero do not exist: whoever evaluates an expression clips at zero, once, at its end.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

from returnn.util.errors import DimError


@dataclass(frozen=True, eq=False)
class Atom:
    """A dim that was not computed from others. Compares by identity: what the dim is equal to is another question."""

    dim: Any  # Dim; this module knows nothing about it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.dim is other.dim

    def __hash__(self) -> int:
        return id(self.dim)


@dataclass(frozen=True, eq=False)
class Quotient:
    """
    A division that does not divide out. "truediv" is known to be exact, though not to us.

    Only the number of frames counts here, so the order of the terms within is left out of the comparison.
    """

    kind: Literal["floordiv", "ceildiv", "truediv"]
    numerator: Sum
    divisor: Sum

    def _key(self) -> Any:
        return self.kind, frozenset(self.numerator.terms), frozenset(self.divisor.terms)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quotient) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


Factor = Atom | Quotient


@dataclass(frozen=True)
class Term:
    """`coefficient * factors[0] * factors[1] * ...`"""

    coefficient: int
    factors: tuple[Factor, ...] = ()


@dataclass(frozen=True)
class Sum:
    """Sum of terms, none with coefficient 0. No term is zero."""

    terms: tuple[Term, ...] = ()

    def as_constant(self) -> int | None:
        """:return: the number, if no dim occurs"""
        if any(term.factors for term in self.terms):
            return None
        return sum(term.coefficient for term in self.terms)

    def as_atom(self) -> Any | None:
        """:return: the dim, if the expression is just this dim"""
        if len(self.terms) == 1 and self.terms[0].coefficient == 1 and len(self.terms[0].factors) == 1:
            factor = self.terms[0].factors[0]
            if isinstance(factor, Atom):
                return factor.dim
        return None

    def atoms(self) -> Iterator[Any]:
        """:return: all dims in the expression, with repetitions"""
        for term in self.terms:
            for factor in term.factors:
                if isinstance(factor, Atom):
                    yield factor.dim
                else:
                    yield from factor.numerator.atoms()
                    yield from factor.divisor.atoms()


def constant(value: int) -> Sum:
    """:return: the expression that is this number"""
    return Sum((Term(value),)) if value else Sum()


def atom(dim: Any) -> Sum:
    """:return: the expression that is this dim"""
    return Sum((Term(1, (Atom(dim),)),))


def add(left: Sum, right: Sum) -> Sum:
    """:return: left + right. Neighbours with the same factors are joined; what was taken away at the end cancels."""
    terms = list(left.terms)
    for term in right.terms:
        rest = _cancel_from_right(terms, term)
        if rest is not None:
            _append_term(terms, rest)
    return Sum(tuple(terms))


def sub_right(left: Sum, right: Sum) -> Sum:
    """:return: left without the frames of `right` at its end"""
    terms = list(left.terms)
    remaining = [_cancel_from_right(terms, Term(-term.coefficient, term.factors)) for term in reversed(right.terms)]
    for term in reversed(remaining):
        if term is not None:
            _append_term(terms, term)
    return Sum(tuple(terms))


def sub_left(left: Sum, right: Sum) -> Sum:
    """:return: left without the frames of `right` at its beginning"""
    return _mirror(sub_right(_mirror(left), _mirror(right)))


def neg(x: Sum) -> Sum:
    """:return: -x"""
    return Sum(tuple(Term(-term.coefficient, term.factors) for term in x.terms))


def mul(left: Sum, right: Sum) -> Sum:
    """:return: left * right, multiplied out"""
    for a, b in ((left, right), (right, left)):
        quotient = _single_factor(a)
        if isinstance(quotient, Quotient) and quotient.kind == "truediv" and quotient.divisor == b:
            return quotient.numerator
    result = Sum()
    for x in left.terms:
        for y in right.terms:
            result = add(result, Sum((Term(x.coefficient * y.coefficient, x.factors + y.factors),)))
    return result


def floordiv(x: Sum, divisor: Sum) -> Sum:
    """:return: x // divisor"""
    n = divisor.as_constant()
    if n is None:
        return _divide_by_dims("floordiv", x, divisor)
    return _floordiv_by_constant(x, n)


def ceildiv(x: Sum, divisor: Sum) -> Sum:
    """:return: -(-x // divisor). By a number, this is written as a floor division, so there is one form."""
    n = divisor.as_constant()
    if n is None:
        return _divide_by_dims("ceildiv", x, divisor)
    _check_divisor(n)
    return _floordiv_by_constant(add(x, constant(n - 1)), n)


def truediv(x: Sum, divisor: Sum) -> Sum:
    """:return: x / divisor, where the division is exact"""
    n = divisor.as_constant()
    if n is not None:
        _check_divisor(n)
    if n == 1:
        return x
    if n is not None and all(term.coefficient % n == 0 for term in x.terms):
        return Sum(tuple(Term(term.coefficient // n, term.factors) for term in x.terms))
    return _divide_by_dims("truediv", x, divisor)


def evaluate(x: Sum, value_of: Callable[[Any], Any]) -> Any:
    """
    :param x:
    :param value_of: dim -> its value: anything with the operators `+ * // -`
    :return: the value of the expression, or an int if no dim occurs. Not clipped at zero.
    """
    result: Any = 0
    for term in x.terms:
        value: Any = term.coefficient
        for factor in term.factors:
            factor_value = value_of(factor.dim) if isinstance(factor, Atom) else _evaluate_quotient(factor, value_of)
            value = factor_value if isinstance(value, int) and value == 1 else value * factor_value
        result = value if isinstance(result, int) and result == 0 else result + value
    return result


def can_be_negative(x: Sum) -> bool:
    """:return: whether something is taken away somewhere in the expression"""
    quotients = [factor for term in x.terms for factor in term.factors if isinstance(factor, Quotient)]
    return any(term.coefficient < 0 for term in x.terms) or any(can_be_negative(q.numerator) for q in quotients)


def substitute(x: Sum, replace: Callable[[Any], Sum | None]) -> Sum:
    """
    :param x:
    :param replace: dim -> expression to put in its place, or None to leave it
    :return: x with the replacements, in normal form
    """
    operations = {"floordiv": floordiv, "ceildiv": ceildiv, "truediv": truediv}
    result = Sum()
    for term in x.terms:
        product = constant(term.coefficient)
        for factor in term.factors:
            if isinstance(factor, Atom):
                replacement = replace(factor.dim)
                value = atom(factor.dim) if replacement is None else replacement
            else:
                numerator, divisor = substitute(factor.numerator, replace), substitute(factor.divisor, replace)
                value = operations[factor.kind](numerator, divisor)
            product = mul(product, value)
        result = add(result, product)
    return result


def format_sum(x: Sum, name_of: Callable[[Any], str]) -> str:
    """:return: the expression as text, such as `2*time+1`"""
    if not x.terms:
        return "0"
    parts = [_format_term(term, name_of) for term in x.terms]
    return "+".join(parts).replace("+-", "-")


def _mirror(x: Sum) -> Sum:
    return Sum(x.terms[::-1])


def _append_term(terms: list[Term], term: Term) -> None:
    """Adds `term` at the right of `terms`, in place."""
    if term.coefficient:
        terms.append(term)
        _join_neighbours(terms, len(terms) - 1)


def _cancel_from_right(terms: list[Term], term: Term) -> Term | None:
    """
    Takes from `terms`, in place, what cancels with `term`: frames that are taken away can be anywhere, frames that are
    added only fill what was taken away at the end.

    :return: what is left of `term`
    """
    candidates = range(len(terms) - 1, -1, -1) if term.coefficient < 0 else range(len(terms) - 1, len(terms) - 2, -1)
    for i in candidates:
        if i < 0 or terms[i].factors != term.factors or (terms[i].coefficient < 0) == (term.coefficient < 0):
            continue
        coefficient = terms[i].coefficient + term.coefficient
        if coefficient and (coefficient < 0) == (terms[i].coefficient < 0):
            terms[i] = Term(coefficient, term.factors)
            return None
        del terms[i]
        _join_neighbours(terms, i)
        return _cancel_from_right(terms, Term(coefficient, term.factors)) if coefficient else None
    return term


def _join_neighbours(terms: list[Term], i: int) -> None:
    """Joins `terms[i - 1]` and `terms[i]`, which may have become neighbours because what was between them cancelled."""
    if 0 < i < len(terms) and terms[i - 1].factors == terms[i].factors:
        coefficient = terms[i - 1].coefficient + terms[i].coefficient
        terms[i - 1 : i + 1] = [Term(coefficient, terms[i].factors)] if coefficient else []


def _single_factor(x: Sum) -> Factor | None:
    if len(x.terms) == 1 and x.terms[0].coefficient == 1 and len(x.terms[0].factors) == 1:
        return x.terms[0].factors[0]
    return None


def _floordiv_by_constant(x: Sum, n: int) -> Sum:
    """
    :return: x // n. What is divisible by n is taken out: `(n * a + r) // n == r // n + a`. A division within is joined:
        `(a // m + r) // n == (a + m * r) // (m * n)`. And the fraction is reduced: `(2 * a + 3) // 4 == (a + 1) // 2`.
    """
    _check_divisor(n)
    if all(term.coefficient % n == 0 for term in x.terms):
        return Sum(tuple(Term(term.coefficient // n, term.factors) for term in x.terms))
    x = _count(x)
    whole = [Term(term.coefficient // n, term.factors) for term in x.terms if term.factors and not term.coefficient % n]
    rest = [term for term in x.terms if term.factors and term.coefficient % n]
    number, remainder = divmod(sum(term.coefficient for term in x.terms if not term.factors), n)
    reduced = _reduce_fraction(rest, remainder, n) if rest else Sum()
    return add(reduced, Sum((*whole, *constant(number).terms)))


def _reduce_fraction(terms: list[Term], number: int, n: int) -> Sum:
    """:return: (terms + number) // n, where no term is divisible by n"""
    inner = [found for term in terms if (found := _as_floordiv_by_number(term)) is not None]
    if len(inner) == 1:
        (quotient, m) = inner[0]
        parts = [quotient.numerator if t.factors == (quotient,) else mul(Sum((t,)), constant(m)) for t in terms]
        numerator = add(_count(Sum(tuple(term for part in parts for term in part.terms))), constant(m * number))
        return _floordiv_by_constant(numerator, m * n)
    common = math.gcd(n, *(term.coefficient for term in terms))
    numerator = Sum(tuple(Term(term.coefficient // common, term.factors) for term in terms))
    numerator = add(numerator, constant(number // common))
    return Sum((Term(1, (Quotient("floordiv", numerator, constant(n // common)),)),))


def _as_floordiv_by_number(term: Term) -> tuple[Quotient, int] | None:
    """:return: the quotient that the term is, and its divisor"""
    factor = _single_factor(Sum((term,)))
    if not isinstance(factor, Quotient) or factor.kind != "floordiv":
        return None
    divisor = factor.divisor.as_constant()
    return None if divisor is None else (factor, divisor)


def _count(x: Sum) -> Sum:
    """:return: a sum of the same value where terms are joined without regard to their order, with the number last"""
    coefficients: dict[tuple[Factor, ...], int] = {}
    for term in x.terms:
        coefficients[term.factors] = coefficients.get(term.factors, 0) + term.coefficient
    number = coefficients.pop((), 0)
    terms = [Term(coefficient, factors) for factors, coefficient in coefficients.items() if coefficient]
    return Sum((*terms, *constant(number).terms))


def _check_divisor(n: int) -> None:
    if n <= 0:
        raise DimError(f"a dim cannot be divided by {n}.")


def _divide_by_dims(kind: Literal["floordiv", "ceildiv", "truediv"], x: Sum, divisor: Sum) -> Sum:
    if x == divisor:
        return constant(1)
    if len(divisor.terms) == 1:
        cancelled = [_cancel(term, divisor.terms[0]) for term in x.terms]
        if all(cancelled):
            return Sum(tuple(term for term in cancelled if term))
    return Sum((Term(1, (Quotient(kind, x, divisor),)),))


def _cancel(term: Term, divisor: Term) -> Term | None:
    """:return: term / divisor, if the divisor's factors stand at the right or the left end of those of the term"""
    count = len(divisor.factors)
    if term.coefficient % divisor.coefficient:
        return None
    coefficient = term.coefficient // divisor.coefficient
    if term.factors[len(term.factors) - count :] == divisor.factors:
        return Term(coefficient, term.factors[: len(term.factors) - count])
    if term.factors[:count] == divisor.factors:
        return Term(coefficient, term.factors[count:])
    return None


def _evaluate_quotient(x: Quotient, value_of: Callable[[Any], Any]) -> Any:
    numerator, divisor = evaluate(x.numerator, value_of), evaluate(x.divisor, value_of)
    return -(-numerator // divisor) if x.kind == "ceildiv" else numerator // divisor


def _format_term(term: Term, name_of: Callable[[Any], str]) -> str:
    factors = [_format_factor(factor, name_of) for factor in term.factors]
    if term.coefficient == -1 and factors:
        return "-" + "*".join(factors)
    if term.coefficient != 1 or not factors:
        factors.insert(0, str(term.coefficient))
    return "*".join(factors)


def _format_factor(factor: Factor, name_of: Callable[[Any], str]) -> str:
    if isinstance(factor, Atom):
        return name_of(factor.dim)
    symbol = {"floordiv": "//", "ceildiv": "//ceil ", "truediv": "/"}[factor.kind]
    numerator, divisor = format_sum(factor.numerator, name_of), format_sum(factor.divisor, name_of)
    if len(factor.numerator.terms) > 1:
        numerator = f"({numerator})"
    if len(factor.divisor.terms) > 1:
        divisor = f"({divisor})"
    return f"({numerator}{symbol}{divisor})"
