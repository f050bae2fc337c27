"""Builds an OggZipDataset archive from audio files and a text file."""

import argparse

from returnn.tools.ogg_zip import segments_of_folder, write_ogg_zip
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = argparse.ArgumentParser(
        description=__doc__,
        epilog="The files are put into the archive as they are. `OggZipDataset` reads wav without further packages, and"
        " Ogg, FLAC and others with the package soundfile. For parts of recordings, see bliss-to-ogg-zip.",
    )
    parser.add_argument("folder", help="with the audio files, also in folders below it")
    parser.add_argument("text", help="lines NAME TEXT; NAME is the file without its suffix, such as a/1 for a/1.wav")
    parser.add_argument("output", help="the archive, such as train.zip")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    segments = segments_of_folder(args.folder, args.text)
    num, seconds = write_ogg_zip(segments, args.output, make_audio=lambda segment, _path: str(segment.audio), folder="")
    print(f"wrote {args.output}: {counted(num, 'recording')}, {seconds / 3600:.3f} hours")
