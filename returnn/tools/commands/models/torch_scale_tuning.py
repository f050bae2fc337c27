"""Tunes the scales of a log-linear combination of scores."""

import argparse
import json

from returnn.tools.n_best_lists import NBest, check_same_hyps, count_errors, read_n_best
from returnn.tools.scale_options import pairs_of, scale_ranges
from returnn.tools.text_dict import read_text_dict
from returnn.util.errors import UserError, check_known
from returnn.util.files.atomic_file import write_atomic
from returnn.util.python.optional_import import import_optional, import_part
from returnn.util.system.command_parser import CommandParser
from returnn.util.system.picture import new_figure, save_figure

_MODES = ("auto", "grid", "random")
_NEEDED_FOR = "the tuning of scales"
_EDIT_DISTANCE = "edit_distance"


def make_parser() -> argparse.ArgumentParser:
    """:return: of the arguments"""
    parser = CommandParser(description=__doc__)
    pairs = "names and values in turn, such as lm 0.5"
    parser.add_argument("--names", nargs="+", required=True, help="of the scores, such as am lm")
    parser.add_argument("--scores", nargs="+", required=True, help="a file for each: n-best lists of a search")
    parser.add_argument(
        "--evaluation",
        required=True,
        help="edit_distance, or a file as --scores: the errors of each hypothesis in place of a score",
    )
    parser.add_argument("--ref", help="references for edit_distance: file with a dict from tag to text")
    parser.add_argument("--search-mode", default="auto", help=f"{', '.join(_MODES)}")
    parser.add_argument("--num-steps", type=int, default=21, help="values of each scale in a grid")
    parser.add_argument("--num-iterations", type=int, default=10, help="each is finer, around the best point so far")
    parser.add_argument("--batch-size", type=int, default=1024, help="points at once")
    parser.add_argument("--device", default="cpu", help="of PyTorch, such as cpu or cuda")
    parser.add_argument("--fixed-scales", nargs="*", default=[], help=f"that are not tuned: {pairs}")
    parser.add_argument("--negative-scales", nargs="*", default=[], help="names whose scores are subtracted")
    parser.add_argument("--scale-relative-to", nargs="*", default=[], help="names in turn: prior lm: prior * lm")
    parser.add_argument("--min-scales", nargs="*", default=[], help=f"{pairs}. Default: 0")
    parser.add_argument("--max-scales", nargs="*", default=[], help=f"{pairs}. Default: --max-scale")
    parser.add_argument("--max-scale", type=float, default=2.0, help="of all other scales")
    parser.add_argument("--output-scales", help="file for the scales as they were tuned, as JSON")
    parser.add_argument("--output-real-scales", help="the same, with sign, multiplied by what they are relative to")
    parser.add_argument("--output-grid-plot", help="picture of the errors in the first grid, for one or two scales")
    return parser


def main(args: argparse.Namespace) -> None:
    """Does the work."""
    check_known("mode", args.search_mode, _MODES, where="option '--search-mode'")
    ranges = scale_ranges(args)
    tuning = import_part("returnn.torch.scale_tuning", needed_for=_NEEDED_FOR)
    free = [name for name in args.names if ranges[name][0] < ranges[name][1]]
    if args.output_grid_plot and len(free) not in (1, 2):
        raise UserError(f"option '--output-grid-plot': {len(free)} scales are tuned; a picture shows one or two.")
    if args.num_steps < 2 or args.num_iterations < 1 or args.batch_size < 1:
        raise UserError("'--num-steps' is a number from 2, '--num-iterations' and '--batch-size' are from 1.")
    if args.search_mode == "grid" and args.num_steps ** len(free) > tuning.MAX_GRID_POINTS:
        raise UserError(
            f"option '--search-mode': a grid of {args.num_steps}^{len(free)} points is too large: 'random'."
        )
    relative = pairs_of(args.scale_relative_to, args.names, option="--scale-relative-to")
    space = tuning.ScaleSpace(
        lowest=[ranges[name][0] for name in args.names],
        highest=[ranges[name][1] for name in args.names],
        relative_to=[args.names.index(relative[name]) if name in relative else None for name in args.names],
        signs=[-1.0 if name in args.negative_scales else 1.0 for name in args.names],
    )
    tuned = tuning.tune_scales(
        _lists(args).to(args.device),
        space,
        mode=args.search_mode,
        num_steps=args.num_steps,
        num_iterations=args.num_iterations,
        batch_size=args.batch_size,
    )
    _show(args, tuned, free)


def _show(args: argparse.Namespace, tuned: object, free: list[str]) -> None:
    scales = dict(zip(args.names, tuned.scales, strict=True))
    real = dict(zip(args.names, tuned.real_scales, strict=True))
    for name in args.names:
        print(f"{name}: scale {scales[name]:.6g}, its score is multiplied by {real[name]:.6g}")
    print(f"errors: {tuned.errors:g}")
    for filename, values in ((args.output_scales, scales), (args.output_real_scales, real)):
        if filename:
            write_atomic(filename, json.dumps(values) + "\n")
    if args.output_grid_plot:
        _plot(args.output_grid_plot, tuned, [(name, args.names.index(name)) for name in free])


def _lists(args: argparse.Namespace) -> object:
    lists = [read_n_best(filename) for filename in args.scores]
    for filename, content in zip(args.scores[1:], lists[1:], strict=True):
        check_same_hyps(filename, content, args.scores[0], lists[0])
    errors = _errors(args, lists[0])
    torch = import_optional("torch", needed_for=_NEEDED_FOR)
    tags, width = list(lists[0]), max(map(len, lists[0].values()))
    scores = torch.zeros((len(lists), len(tags), width), dtype=torch.float64)
    padded_errors = torch.zeros((len(tags), width), dtype=torch.float64)
    is_hyp = torch.zeros((len(tags), width), dtype=torch.bool)
    for i, tag in enumerate(tags):
        size = len(lists[0][tag])
        is_hyp[i, :size] = True
        padded_errors[i, :size] = torch.tensor(errors[tag], dtype=torch.float64)
        for n, content in enumerate(lists):
            scores[n, i, :size] = torch.tensor([score for score, _ in content[tag]], dtype=torch.float64)
    if not torch.isfinite(scores).all():
        n, i, _ = torch.argwhere(~torch.isfinite(scores))[0].tolist()
        raise UserError(f"file {args.scores[n]!r}: {tags[i]!r} has a score that is not finite.")
    tuning = import_part("returnn.torch.scale_tuning", needed_for=_NEEDED_FOR)
    return tuning.NBestLists(scores, padded_errors, is_hyp)


def _errors(args: argparse.Namespace, hyps: dict[str, NBest]) -> dict[str, list[float]]:
    if args.evaluation == _EDIT_DISTANCE:
        if not args.ref:
            raise UserError("option '--ref': is required for the edit distance.")
        return count_errors(hyps, read_text_dict(args.ref))
    if args.ref:
        raise UserError("option '--ref': is only for '--evaluation edit_distance'.")
    errors = read_n_best(args.evaluation)
    check_same_hyps(args.evaluation, errors, args.scores[0], hyps)
    return {tag: [float(error) for error, _ in pairs] for tag, pairs in errors.items()}


def _plot(filename: str, tuned: object, free: list[tuple[str, int]]) -> None:
    figure = new_figure(6.0, 4.5, needed_for="option '--output-grid-plot'")
    axes = figure.add_subplot()
    (x_name, x), *rest = free
    axes.set_xlabel(x_name)
    if rest:
        ((y_name, y),) = rest
        points = axes.scatter(tuned.grid[:, x], tuned.grid[:, y], c=tuned.grid_errors)
        figure.colorbar(points, label="errors")
        axes.set_ylabel(y_name)
    else:
        axes.plot(tuned.grid[:, x], tuned.grid_errors, marker=".")
        axes.set_ylabel("errors")
    save_figure(figure, filename)
