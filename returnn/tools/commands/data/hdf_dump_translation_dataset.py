"""Converts a parallel text corpus into a HDF file."""

import argparse

from returnn.tools.translation_hdf import Side, write_translation_hdf
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(
        description=__doc__,
        epilog="It puts no label of the end behind the words, as decoders need it. 'returnn tool hdf-dump' writes a"
        " data set of a config, with what its vocabularies put there ('seq_postfix', 'add_eos').",
    )
    parser.add_argument("-s", "--source_corpus", required=True, help="a sentence per line, words with spaces; or .gz")
    parser.add_argument("-t", "--target_corpus", required=True, help="the same, line by line its translation")
    vocab_help = "label per line, or Python dict, or .pkl; with factors, one per factor, with commas"
    parser.add_argument("-v", "--source_vocabulary", required=True, help=vocab_help)
    parser.add_argument("-w", "--target_vocabulary", required=True, help=vocab_help)
    parser.add_argument("-o", "--hdf_file", required=True, help="the new file")
    parser.add_argument("-n", "--number_of_lines", type=int, required=True, help="so many, from the first one on")
    parser.add_argument("-l", "--line_buffer_size", type=int, default=100000, help="lines to keep in memory")
    parser.add_argument("-d", "--data_buffer_size", type=int, default=5000000, help="words to keep in memory")
    parser.add_argument("-c", "--compression", help="of the data, gzip or lzf. Default: none")
    parser.add_argument("--source_factors", help="names of factors after the first one, with commas, as data keys")
    parser.add_argument("--target_factors", help="the same")
    parser.add_argument("--factor_separator", default="|", help="between the factors of a word")
    parser.add_argument("--unknown_label", help="for words that are not in the vocabulary. Default: they are an error")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    source = Side.open(
        args.source_corpus, args.source_vocabulary, "data", args.source_factors, unknown_label=args.unknown_label
    )
    target = Side.open(
        args.target_corpus, args.target_vocabulary, "classes", args.target_factors, unknown_label=args.unknown_label
    )
    num_words = write_translation_hdf(
        args.hdf_file,
        [source, target],
        num_lines=args.number_of_lines,
        factor_separator=args.factor_separator,
        compression=args.compression,
        buffer_lines=args.line_buffer_size,
        buffer_words=args.data_buffer_size,
    )
    print(f"wrote {args.hdf_file}: {counted(args.number_of_lines, 'line')}, {counted(num_words, 'word')}")
