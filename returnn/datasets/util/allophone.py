"""
Allophones of speech recognition: phones in their context, cut into states, which are tied into classes.

The text form of a state is as RASR writes it: `a{b+c}@i@f.1` is phone a with b before and c after, at the begin (`i`)
and the end (`f`) of a word, state 1. `#` stands where there is no phone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import total_ordering

from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines

_WORD_BEGIN, _WORD_END = 1, 2
_NO_PHONE = "#"


@total_ordering
class AllophoneState:
    """A phone, its context, its position in the word, and the number of the state in it."""

    # They are equal by all of these, in this order.
    _attributes = ("id", "context_history", "context_future", "boundary", "state")

    id: str | None = None  # the phone
    context_history: tuple[str, ...] = ()  # phones before, the nearest one last
    context_future: tuple[str, ...] = ()  # phones after, the nearest one first
    boundary: int = 0  # bit 1: begin of the word, bit 2: end of the word
    state: int | None = None  # from 0

    def __init__(self, id: str | None = None, state: int | None = None):
        self.id = id
        self.state = state

    def _key(self) -> tuple[str, ...]:
        return tuple(str(getattr(self, name)) for name in self._attributes)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AllophoneState) and self._key() == other._key()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __lt__(self, other: AllophoneState) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return self.format()

    def format(self) -> str:
        """:return: e.g. "a{b+c}@i.0\""""
        history = "-".join(self.context_history) or _NO_PHONE
        future = "-".join(self.context_future) or _NO_PHONE
        begin = "@i" if self.boundary & _WORD_BEGIN else ""
        end = "@f" if self.boundary & _WORD_END else ""
        state = "" if self.state is None else f".{self.state}"
        return f"{self.id}{{{history}+{future}}}{begin}{end}{state}"

    def copy(self) -> AllophoneState:
        """:return: one that can be changed on its own"""
        other = AllophoneState(id=self.id, state=self.state)
        other.context_history = self.context_history
        other.context_future = self.context_future
        other.boundary = self.boundary
        return other

    def mark_initial(self) -> None:
        """It is at the begin of a word."""
        self.boundary |= _WORD_BEGIN

    def mark_final(self) -> None:
        """It is at the end of a word."""
        self.boundary |= _WORD_END

    def phoneme(self, ctx_offset: int, out_of_context_id: str | None = None) -> str | None:
        """
        :param ctx_offset: 0: the phone itself, -1: the one before, 1: the one after, and so on
        :param out_of_context_id: returned if that is not in the context
        """
        if ctx_offset == 0:
            return self.id
        if ctx_offset > 0:
            return self.context_future[ctx_offset - 1] if ctx_offset <= len(self.context_future) else out_of_context_id
        return self.context_history[ctx_offset] if -ctx_offset <= len(self.context_history) else out_of_context_id

    def set_phoneme(self, ctx_offset: int, phone_id: str) -> None:
        """
        :param ctx_offset: as in `phoneme`. The context can grow by one phone at a time
        """
        if ctx_offset == 0:
            self.id = phone_id
        elif ctx_offset > 0:
            before = self.context_future[: ctx_offset - 1]
            self.context_future = (*before, phone_id, *self.context_future[ctx_offset:])
        else:
            size = len(self.context_history)
            before = self.context_history[: max(size + ctx_offset, 0)]
            after = self.context_history[size + ctx_offset + 1 :] if ctx_offset < -1 else ()
            self.context_history = (*before, phone_id, *after)

    def phone_idx(self, ctx_offset: int, phone_idxs: Mapping[str, int]) -> int:
        """:return: index of a phone, 0 if it is not in the context"""
        phone = self.phoneme(ctx_offset)
        return 0 if phone is None else phone_idxs[phone] + 1

    def index(self, phone_idxs: Mapping[str, int], num_states: int = 3, context_length: int = 1) -> int:
        """
        A number for it, which `from_index` reads.

        :param phone_idxs: phone -> index from 0
        :param num_states: per phone
        :param context_length: phones before, and after
        """
        base = len(phone_idxs) + 1  # there may be no phone
        result = 0
        for ctx_offset in _context_offsets(context_length):
            result = result * base + self.phone_idx(ctx_offset, phone_idxs)
        result = result * num_states + (self.state or 0)
        return result * 4 + self.boundary

    @classmethod
    def from_index(
        cls, index: int, phone_ids: Mapping[int, str], num_states: int = 3, context_length: int = 1
    ) -> AllophoneState:
        """
        :param index: from `index`
        :param phone_ids: index from 0 -> phone
        :param num_states: per phone
        :param context_length: phones before, and after
        """
        result = cls()
        rest, result.boundary = divmod(index, 4)
        rest, result.state = divmod(rest, num_states)
        phones: dict[int, str] = {}
        for ctx_offset in reversed(_context_offsets(context_length)):
            rest, phone_idx = divmod(rest, len(phone_ids) + 1)
            if phone_idx:
                phones[ctx_offset] = phone_ids[phone_idx - 1]
        for ctx_offset in sorted(phones, key=abs):
            result.set_phoneme(ctx_offset, phones[ctx_offset])
        return result

    @classmethod
    def from_classic_index(
        cls, index: int, allophones: Mapping[int, AllophoneState], max_states: int = 6
    ) -> AllophoneState:
        """
        :param index: as in alignments of RASR: number of the allophone plus number of allophones times the state
        :param allophones: by number
        :param max_states: per allophone
        :raises UserError: if the index is too large
        """
        state, allophone = divmod(index, len(allophones))
        if state >= max_states:
            raise UserError(
                f"Allophone state {index} is out of range: {len(allophones)} with {max_states} states each."
            )
        result = allophones[allophone].copy()
        result.state = state
        return result


class StateTying:
    """
    Which states share a class. A line of the file is `STATE CLASS`, e.g. `a{#+#}@i@f.0 12`.
    """

    def __init__(self, state_tying_file: str):
        """:raises UserError: if a line is wrong, or a class is missing"""
        self.allo_map: dict[str, int] = {}  # state, formatted -> class
        self.class_map: dict[int, set[str]] = {}  # class -> states
        where = f"state tying {state_tying_file!r}"
        for line_nr, line in enumerate(iter_lines(state_tying_file), start=1):
            if not line.strip():
                continue
            parts = line.split()
            if len(parts) != 2 or not parts[1].isdigit():
                raise UserError(f"{where}, line {line_nr}: expected a state and its class, got {line[:80]!r}.")
            self.allo_map[parts[0]] = int(parts[1])
            self.class_map.setdefault(int(parts[1]), set()).add(parts[0])
        self.num_classes = len(self.class_map)
        missing = next((i for i in range(self.num_classes) if i not in self.class_map), None)
        if missing is not None or not self.class_map:
            raise UserError(f"{where}: there is no state in the class {missing or 0}.")


def _context_offsets(context_length: int) -> Sequence[int]:
    return range(-context_length, context_length + 1)
