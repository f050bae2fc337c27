"""Builds an OggZipDataset archive from audio files, or `wav.scp` of Kaldi, and a text file."""

import argparse
import sys

from returnn.tools.ogg_zip import files_without_text, segments_of_folder, write_ogg_zip
from returnn.tools.transcripts import FILE_COLUMNS, TEXT_COLUMNS
from returnn.util.errors import UserError
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(
        description=__doc__,
        epilog="The files are put into the archive as they are. `OggZipDataset` reads wav without further packages, and"
        " Ogg, FLAC and others with the package soundfile. For parts of recordings, see bliss-to-ogg-zip.",
    )
    parser.add_argument(
        "folder",
        help="with the audio files, also in folders below it; or a file of lines NAME FILE, as wav.scp of Kaldi, whose"
        " file text is TEXT then",
    )
    parser.add_argument(
        "text",
        help="what is said: lines NAME TEXT, where NAME is the file, such as a/1 for a/1.wav; .csv or .tsv with columns"
        f" {FILE_COLUMNS[0]!r} and {TEXT_COLUMNS[0]!r} (or {', '.join(FILE_COLUMNS[1:])};"
        f" {', '.join(TEXT_COLUMNS[1:])});"
        " .json: {'a/1.wav': 'text'} or [{'file': 'a/1.wav', 'text': 'text'}]; .jsonl: a dict in each line",
    )
    parser.add_argument("output", help="the archive, such as train.zip")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    if not args.output.endswith(".zip"):
        raise UserError(
            f"the output {args.output!r}: an archive of this kind is a zip file, so its name ends in '.zip'."
        )
    segments = segments_of_folder(args.folder, args.text)
    contents = write_ogg_zip(segments, args.output, make_audio=lambda segment, _path: str(segment.audio), folder="")
    print(f"wrote {args.output}: {counted(contents.num, 'recording')}, {contents.seconds / 3600:.3f} hours")
    left_out = files_without_text(args.folder, segments)
    num = counted(len(left_out), "audio file")
    without_text = [f"{num} without a text in {args.text!r} left out, such as {left_out[0]!r}."] if left_out else []
    for warning in [*without_text, *contents.warnings()]:
        print(f"WARNING: {warning}", file=sys.stderr)
