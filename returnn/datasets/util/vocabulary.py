"""All vocabularies. The option `class` of `Vocabulary.create_vocab` is one of these names."""

from returnn.datasets.util.vocabulary_base import Vocabulary
from returnn.datasets.util.vocabulary_chars import CharacterTargets, Utf8ByteTargets
from returnn.datasets.util.vocabulary_subword import (
    BytePairEncoding,
    HuggingFaceTokenizer,
    SamplingBytePairEncoding,
    SentencePieces,
)

__all__ = [
    "BytePairEncoding",
    "CharacterTargets",
    "HuggingFaceTokenizer",
    "SamplingBytePairEncoding",
    "SentencePieces",
    "Utf8ByteTargets",
    "Vocabulary",
]
