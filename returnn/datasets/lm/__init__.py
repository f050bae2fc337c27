"""Documented path: hands on the text data sets, and what they are made with."""

from __future__ import annotations

from returnn.datasets.lm.lm_dataset import LmDataset
from returnn.datasets.lm.translation import ConfusionNetworkDataset, TranslationDataset, TranslationFactorsDataset
from returnn.datasets.util.allophone import AllophoneState, StateTying
from returnn.datasets.util.lexicon import Lexicon, PhoneSeqGenerator
from returnn.datasets.util.text_corpus import iter_corpus, read_corpus
from returnn.datasets.util.text_post_process import (
    basic_cleaners,
    collapse_whitespace,
    convert_to_ascii,
    english_cleaners,
    english_cleaners_keep_special,
    expand_abbreviations,
    get_post_processor_function,
    get_remove_chars,
    get_replace,
    lowercase,
    lowercase_keep_special,
    normalize_numbers,
    transliteration_cleaners,
)

__all__ = [
    "AllophoneState",
    "ConfusionNetworkDataset",
    "Lexicon",
    "LmDataset",
    "PhoneSeqGenerator",
    "StateTying",
    "TranslationDataset",
    "TranslationFactorsDataset",
    "basic_cleaners",
    "collapse_whitespace",
    "convert_to_ascii",
    "english_cleaners",
    "english_cleaners_keep_special",
    "expand_abbreviations",
    "get_post_processor_function",
    "get_remove_chars",
    "get_replace",
    "iter_corpus",
    "lowercase",
    "lowercase_keep_special",
    "normalize_numbers",
    "read_corpus",
    "transliteration_cleaners",
]
