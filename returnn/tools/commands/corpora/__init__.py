"""Tools for corpora, texts and vocabularies."""
