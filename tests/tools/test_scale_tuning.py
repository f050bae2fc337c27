"""Scales of scores: found where they were hidden."""

import json

import numpy
import pytest

pytest.importorskip("torch")


@pytest.fixture
def lists(tmp_path):
    """n-best lists where am + 0.6 lm - 0.3 prior is right in each sequence, and others often are not."""
    rng = numpy.random.RandomState(1)
    scores, errors, refs = {"am": {}, "lm": {}, "prior": {}}, {}, {}
    for i in range(60):
        tag, texts = f"seq-{i}", [f"w{j} v{j}" for j in range(i % 3 + 6)]
        values = rng.normal(size=(3, len(texts)))
        best = int((values[0] + 0.6 * values[1] - 0.3 * values[2]).argmax())
        for name, row in zip(scores, values, strict=True):
            scores[name][tag] = [(float(x), text) for x, text in zip(row, texts, strict=True)]
        errors[tag] = [(0.0 if j == best else 2.0, text) for j, text in enumerate(texts)]
        refs[tag] = texts[best]
    for name, content in {**scores, "errors": errors, "refs": refs}.items():
        (tmp_path / name).write_text(repr(content), encoding="utf8")
    return tmp_path


def _options(lists, *names):
    return ["--names", *names, "--scores", *(lists / name for name in names), "--negative-scales", "prior"]


@pytest.mark.parametrize("evaluation", ["errors", "edit_distance"])
@pytest.mark.parametrize("mode", ["auto", "random"])
def test_hidden_scales_are_found(tool, lists, evaluation, mode):
    files = ["--output-scales", lists / "scales", "--output-real-scales", lists / "real"]
    how = ["--evaluation", lists / "errors"]
    if evaluation == "edit_distance":
        how = ["--evaluation", "edit_distance", "--ref", lists / "refs"]
    options = [*_options(lists, "am", "lm", "prior"), "--fixed-scales", "am", 1.0, "--search-mode", mode]
    plot = ["--output-grid-plot", lists / "grid.png"]
    status, out, err = tool("torch_scale_tuning", *options, *how, *files, *plot)
    assert (status, err) == (0, "")
    assert out.endswith("errors: 0\n")
    scales, real = (json.loads((lists / name).read_text()) for name in ("scales", "real"))
    assert scales["am"] == real["am"] == 1.0
    assert scales["prior"] == -real["prior"]
    assert real["lm"] == pytest.approx(0.6, abs=0.1)
    assert real["prior"] == pytest.approx(-0.3, abs=0.1)
    assert (lists / "grid.png").read_bytes().startswith(b"\x89PNG")


def test_a_scale_can_be_relative_to_another_one(tool, lists):
    options = [*_options(lists, "am", "lm", "prior"), "--evaluation", lists / "errors", "--fixed-scales", "am", 1]
    status, out, _ = tool("torch_scale_tuning", *options, "--scale-relative-to", "prior", "lm", "--max-scales", "lm", 1)
    assert status == 0
    lm, prior = (float(line.split()[2].rstrip(",")) for line in out.splitlines()[1:3])
    assert prior * lm == pytest.approx(0.3, abs=0.1)
    assert f"prior: scale {prior:.6g}, its score is multiplied by {-prior * lm:.3}" in out


def test_what_is_wrong(tool, lists):
    def error(*options):
        return tool("torch_scale_tuning", *_options(lists, "am", "prior"), "--evaluation", lists / "errors", *options)[
            2
        ]

    assert error("--fixed-scales", "an", 1).startswith("error: option '--fixed-scales': there is no score 'an'.\n")
    assert error("--fixed-scales", "am") == (
        "error: option '--fixed-scales': 'am': expected names and values in turn.\n"
    )
    assert error("--min-scales", "am", 3) == "error: scale 'am': the lowest value 3 is above the highest one, 2.\n"
    assert error("--scale-relative-to", "am", "prior", "prior", "am") == (
        "error: option '--scale-relative-to': 'am' is relative to itself.\n"
    )
    (lists / "prior").write_text("{'seq-0': [(1.0, 'w0')]}", encoding="utf8")
    assert (
        error() == f"error: files {str(lists / 'am')!r} and {str(lists / 'prior')!r}: 'seq-0' has other hypotheses.\n"
    )
    (lists / "prior").write_text("{'seq-0': 'w0'}", encoding="utf8")
    assert error().endswith("'seq-0': expected a list of (score, text), got w0.\n")
