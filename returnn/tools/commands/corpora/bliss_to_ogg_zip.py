"""Builds an OggZipDataset archive from a Bliss corpus."""

import argparse
import shutil
import tempfile
from collections.abc import Sequence

from returnn.datasets.util.bliss import BlissSegment, iter_bliss
from returnn.tools.ogg_zip import (
    FfmpegOptions,
    MakeAudio,
    find_ffmpeg,
    segment_by_ffmpeg,
    segment_of_cache,
    whole_recording,
    write_ogg_zip,
)
from returnn.util.errors import UserError
from returnn.util.files.text_file import iter_lines
from returnn.util.system.command_parser import CommandParser
from returnn.util.texts.counted import counted


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    parser.add_argument("bliss_filename", help="Bliss corpus file, may be compressed")
    parser.add_argument("--subset_segment_file", help="only those in this file, which has a name per line")
    parser.add_argument("--output", required=True, help="the archive, such as train.ogg.zip")
    parser.add_argument("--no_ogg", action="store_true", help="no audio, only the list of texts")
    parser.add_argument("--no_conversion", action="store_true", help="audio files as they are, a segment in each")
    parser.add_argument("--no_cleanup", action="store_true", help="leave the folder with converted files there")
    parser.add_argument("--sprint_cache", help="archive of RASR with the samples, instead of the files of the corpus")
    parser.add_argument("--raw_sample_rate", type=int, default=8000, help="of samples in --sprint_cache, in Hz")
    parser.add_argument("--feat_sample_rate", type=int, default=100, help="of frames in --sprint_cache, in Hz")
    parser.add_argument(
        "--ffmpeg_loglevel", default="info", help="how much is shown of ffmpeg if it fails: error, info or others"
    )
    parser.add_argument("--ffmpeg_resample", type=int, default=0, help="new sample rate in Hz; 0: as it is")
    parser.add_argument("--ffmpeg_acodec", help="libvorbis, which is the default, or libopus")
    parser.add_argument("--number_of_channels", type=int, default=0, help="such as 1 for a mix; 0: as it is")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    segments: Sequence[BlissSegment] = list(iter_bliss(args.bliss_filename))
    if args.subset_segment_file:
        wanted = {line.strip() for line in iter_lines(args.subset_segment_file)}
        segments = [segment for segment in segments if segment.name in wanted]
    folder = tempfile.mkdtemp(prefix="bliss-to-ogg-zip-")
    try:
        contents = write_ogg_zip(segments, args.output, make_audio=_make_audio(args, segments), folder=folder)
    finally:
        if args.no_cleanup:
            print(f"converted files: {folder}")
        else:
            shutil.rmtree(folder)
    print(f"wrote {args.output}: {counted(contents.num, 'segment')}, {contents.seconds / 3600:.3f} hours")


def _make_audio(args: argparse.Namespace, segments: Sequence[BlissSegment]) -> MakeAudio | None:
    """:return: what gives the audio of a segment; None: nothing does"""
    conversion = {
        "--ffmpeg_acodec": args.ffmpeg_acodec,
        "--ffmpeg_resample": args.ffmpeg_resample,
        "--number_of_channels": args.number_of_channels,
        "--sprint_cache": args.sprint_cache,
    }
    given = next((option for option, value in conversion.items() if value), None)
    without = "--no_ogg" if args.no_ogg else "--no_conversion" if args.no_conversion else None
    if without and given:
        raise UserError(f"option {given!r}: with {without!r}, nothing is converted.")
    if args.no_ogg:
        return None
    if args.no_conversion:
        return whole_recording(args.bliss_filename, segments)
    find_ffmpeg()
    options = FfmpegOptions(args.ffmpeg_acodec, args.ffmpeg_loglevel, args.ffmpeg_resample, args.number_of_channels)
    if args.sprint_cache is None:
        return segment_by_ffmpeg(args.bliss_filename, options)
    if not 0 < args.feat_sample_rate <= args.raw_sample_rate:
        raise UserError(
            f"option '--feat_sample_rate': {args.feat_sample_rate} is not between 1 and {args.raw_sample_rate}, "
            "the rate of the samples."
        )
    rates = {"sample_rate": args.raw_sample_rate, "frame_rate": args.feat_sample_rate}
    return segment_of_cache(args.sprint_cache, options, **rates)
