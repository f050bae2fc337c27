"""
Pronunciations: Bliss lexicon files, and sequences of phones that are drawn for a text.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypedDict
from xml.etree import ElementTree

import numpy
import numpy.typing

from returnn.datasets.util.allophone import AllophoneState, StateTying
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.util.errors import ConfigError, UserError, check_known, nearest_hint
from returnn.util.files.text_file import read_bytes
from returnn.util.files.xml_parser import where_and_what, xml_parser


class Phoneme(TypedDict):
    """A phone of the inventory."""

    index: int
    symbol: str
    variation: str  # "context" or "none": whether it depends on its neighbours


class Pronunciation(TypedDict):
    """Phones of a lemma, separated by spaces, and how unlikely it is (negative natural log of the probability)."""

    phon: str
    score: float


class Lemma(TypedDict):
    """A word and its pronunciations."""

    orth: str
    phons: list[Pronunciation]


class Lexicon:
    """A Bliss lexicon: `phoneme_list` (symbols in order), `phonemes` by symbol, `lemmas` by orthography."""

    def __init__(self, filename: str):
        """
        :param filename: XML, can be gzipped
        :raises UserError: if it is no such file
        """
        self.phoneme_list: list[str] = []
        self.phonemes: dict[str, Phoneme] = {}
        self.lemmas: dict[str, Lemma] = {}
        self._where = f"lexicon {filename!r}"
        try:
            text = read_bytes(filename)
            root = ElementTree.fromstring(text, parser=xml_parser(text))
        except ElementTree.ParseError as exc:
            raise UserError(f"{self._where}{where_and_what(exc)}") from exc
        for element in root.findall("phoneme-inventory/phoneme"):
            self._add_phoneme(element)
        for element in root.findall("lemma"):
            self._add_lemma(element)
        if not self.lemmas or not self.phoneme_list:
            raise UserError(f"{self._where}: it has {len(self.lemmas)} lemmas and {len(self.phoneme_list)} phonemes.")

    def _add_phoneme(self, element: ElementTree.Element) -> None:
        symbol = (element.findtext("symbol") or "").strip()
        variation = (element.findtext("variation") or "context").strip()
        if not symbol or symbol in self.phonemes:
            raise UserError(f"{self._where}: phoneme {symbol!r} is empty, or is there twice.")
        self.phonemes[symbol] = Phoneme(index=len(self.phonemes), symbol=symbol, variation=variation)
        self.phoneme_list.append(symbol)

    def _add_lemma(self, element: ElementTree.Element) -> None:
        orths = [(orth.text or "").strip() for orth in element.findall("orth")]
        phons = [self._pronunciation(phon, orths) for phon in element.findall("phon")]
        for orth in orths:
            lemma = self.lemmas.setdefault(orth, Lemma(orth=orth, phons=[]))
            lemma["phons"].extend(phons)

    def _pronunciation(self, element: ElementTree.Element, orths: Sequence[str]) -> Pronunciation:
        phones = (element.text or "").split()
        unknown = next((phone for phone in phones if phone not in self.phonemes), None)
        if unknown is not None:
            raise UserError(
                f"{self._where}: lemma {orths}: there is no phoneme {unknown!r}.\n"
                f"  {nearest_hint(unknown, self.phonemes)}"
            )
        return Pronunciation(phon=" ".join(phones), score=float(element.get("score", 0.0)))


class PhoneSeqGenerator:
    """
    Draws sequences of phones, as long as if they were said, for a text.

    What they are, by the options: phones (`phoneme_vocab_file`), classes of allophone states (`state_tying_file`), or
    states of phones.
    """

    def __init__(
        self,
        *,
        lexicon_file: str,
        phoneme_vocab_file: str | None = None,
        allo_num_states: int = 3,
        allo_context_len: int = 1,
        state_tying_file: str | None = None,
        add_silence_beginning: float = 0.1,
        add_silence_between_words: float = 0.1,
        add_silence_end: float = 0.1,
        repetition: float = 0.9,
        silence_repetition: float = 0.95,
        silence_lemma_orth: str = "[SILENCE]",
        extra_begin_lemma: Lemma | None = None,
        add_extra_begin_lemma: float = 1.0,
        extra_end_lemma: Lemma | None = None,
        add_extra_end_lemma: float = 1.0,
        phon_pick_strategy: str = "random",
    ):
        """
        :param lexicon_file: Bliss lexicon
        :param phoneme_vocab_file: a vocabulary of phones. The sequence is then of phones, without repetitions
        :param allo_num_states: states per allophone
        :param allo_context_len: phones before, and after, which an allophone depends on
        :param state_tying_file: see `StateTying`
        :param add_silence_beginning: probability
        :param add_silence_between_words: probability
        :param add_silence_end: probability
        :param repetition: probability to repeat a state once more
        :param silence_repetition: the same for silence
        :param silence_lemma_orth: of the lemma in the lexicon
        :param extra_begin_lemma: `{"phons": [{"phon": "a b"}]}`
        :param add_extra_begin_lemma: probability
        :param extra_end_lemma: as `extra_begin_lemma`
        :param add_extra_end_lemma: probability
        :param phon_pick_strategy: "random" by the scores, or "first"
        """
        check_known("phon_pick_strategy", phon_pick_strategy, ("random", "first"), where="phone sequences")
        if phoneme_vocab_file and state_tying_file:
            raise ConfigError("phone sequences: give only one of 'phoneme_vocab_file' and 'state_tying_file'.")
        self.lexicon = Lexicon(lexicon_file)
        self.phonemes = sorted(self.lexicon.phonemes)
        self.phoneme_vocab = Vocabulary(phoneme_vocab_file, unknown_label=None) if phoneme_vocab_file else None
        self.state_tying = StateTying(state_tying_file) if state_tying_file else None
        self.rnd = numpy.random.RandomState(0)
        self.allo_num_states = allo_num_states
        self.allo_context_len = allo_context_len
        self.add_silence_beginning = add_silence_beginning
        self.add_silence_between_words = add_silence_between_words
        self.add_silence_end = add_silence_end
        self.repetition = repetition
        self.silence_repetition = silence_repetition
        self.extra_begin_lemma = extra_begin_lemma
        self.add_extra_begin_lemma = add_extra_begin_lemma
        self.extra_end_lemma = extra_end_lemma
        self.add_extra_end_lemma = add_extra_end_lemma
        self.phon_pick_strategy = phon_pick_strategy
        self.si_lemma = self._lemma(silence_lemma_orth)
        self.si_phone = self.si_lemma["phons"][0]["phon"]
        self._phone_index = {phone: i for i, phone in enumerate(self.phonemes)}

    def random_seed(self, seed: int) -> None:
        """From here on, the same seed gives the same sequences."""
        self.rnd.seed(seed % 2**32)

    def get_class_labels(self) -> list[str]:
        """:return: a name for each index of `seq_to_class_idxs`"""
        if self.phoneme_vocab:
            return self.phoneme_vocab.labels
        if self.state_tying:
            return ["|".join(sorted(self.state_tying.class_map[i])) for i in range(self.state_tying.num_classes)]
        return [f"{phone}.{state}" for phone in self.phonemes for state in range(self.allo_num_states)]

    def seq_to_class_idxs(
        self, phones: Sequence[AllophoneState], dtype: str | None = None
    ) -> numpy.typing.NDArray[Any]:
        """
        :param phones: from `generate_seq`
        :param dtype: int32 by default
        :return: (frames,)
        """
        return numpy.array([self._class_index(phone) for phone in phones], dtype=dtype or "int32")

    def orth_to_phones(self, orth: str) -> str:
        """:return: phones, separated by spaces, without repetitions"""
        phones = (self._pick(lemma)["phon"] for lemma in self._lemmas_of_text(orth))
        return " ".join(phone for phone in phones if phone)

    def generate_seq(self, orth: str) -> list[AllophoneState]:
        """
        :param orth: text
        :raises UserError: if a word is not in the lexicon
        """
        return self._with_states(self._in_context(self._allophones(self._lemmas_of_text(orth))))

    def generate_garbage_seq(self, target_len: int) -> list[AllophoneState]:
        """:return: of random words with a pronunciation (unknown words have none), as long as `target_len`"""
        lemmas = [lemma for _, lemma in sorted(self.lexicon.lemmas.items()) if lemma["phons"]]
        seq: list[AllophoneState] = []
        while len(seq) < target_len:
            lemma = lemmas[self.rnd.randint(len(lemmas))]
            seq += self._with_states(self._in_context(self._allophones(self._with_silence([lemma]))))
        return seq[:target_len]

    def _class_index(self, phone: AllophoneState) -> int:
        if self.phoneme_vocab:
            return self.phoneme_vocab.get_seq_indices([str(phone.id)])[0]
        if self.state_tying:
            name = phone.format()
            if name not in self.state_tying.allo_map:
                raise UserError(f"The state tying has no class for the state {name!r}.")
            return self.state_tying.allo_map[name]
        return self._phone_index[str(phone.id)] * self.allo_num_states + (phone.state or 0)

    def _lemma(self, orth: str) -> Lemma:
        lemma = self.lexicon.lemmas.get(orth)
        if lemma is None or not lemma["phons"]:
            what = "no lemma" if lemma is None else "no pronunciation of"
            raise UserError(f"The lexicon has {what} {orth!r}.")
        return lemma

    def _lemmas_of_text(self, orth: str) -> Iterator[Lemma]:
        return self._with_silence(self._lemma(word) for word in orth.split())

    def _with_silence(self, lemmas: Iterable[Lemma]) -> Iterator[Lemma]:
        """:return: with lemmas between and around them"""
        if self.extra_begin_lemma and self._happens(self.add_extra_begin_lemma):
            yield self.extra_begin_lemma
        if self._happens(self.add_silence_beginning):
            yield self.si_lemma
        for i, lemma in enumerate(lemmas):
            if i > 0 and self._happens(self.add_silence_between_words):
                yield self.si_lemma
            yield lemma
        if self._happens(self.add_silence_end):
            yield self.si_lemma
        if self.extra_end_lemma and self._happens(self.add_extra_end_lemma):
            yield self.extra_end_lemma

    def _happens(self, probability: float) -> bool:
        return bool(self.rnd.random_sample() < probability)

    def _pick(self, lemma: Lemma) -> Pronunciation:
        phons = lemma["phons"]
        if self.phon_pick_strategy == "first" or len(phons) == 1:
            return phons[0]
        weights = numpy.array([math.exp(-phon.get("score", 0.0)) for phon in phons])
        return phons[self.rnd.choice(len(phons), p=weights / weights.sum())]

    def _allophones(self, lemmas: Iterator[Lemma]) -> list[AllophoneState]:
        seq: list[AllophoneState] = []
        for lemma in lemmas:
            word = [AllophoneState(id=phone) for phone in self._pick(lemma)["phon"].split()]
            if word:
                word[0].mark_initial()
                word[-1].mark_final()
            seq += word
        return seq

    def _in_context(self, seq: list[AllophoneState]) -> list[AllophoneState]:
        for i, phone in enumerate(seq):
            if not self._has_context(phone):
                continue
            before, after = seq[max(i - self.allo_context_len, 0) : i], seq[i + 1 : i + 1 + self.allo_context_len]
            phone.context_history = tuple(reversed(self._context(reversed(before))))
            phone.context_future = tuple(self._context(iter(after)))
        return seq

    def _context(self, phones: Iterator[AllophoneState]) -> list[str]:
        return [str(phone.id) for phone in itertools.takewhile(self._has_context, phones)]

    def _has_context(self, phone: AllophoneState) -> bool:
        return self.lexicon.phonemes[str(phone.id)]["variation"] != "none"

    def _with_states(self, seq: list[AllophoneState]) -> list[AllophoneState]:
        if self.phoneme_vocab:
            return seq
        result: list[AllophoneState] = []
        for phone in seq:
            is_silence = phone.id == self.si_phone
            for state in range(1 if is_silence else self.allo_num_states):
                copy = phone.copy()
                copy.state = state
                result.append(copy)
                while self._happens(self.silence_repetition if is_silence else self.repetition):
                    result.append(copy)
        return result
