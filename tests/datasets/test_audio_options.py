"""Which options of audio features are those of a data key."""

import pytest

from returnn.datasets.audio_options import audio_options

SPEECH, NOISE = {"features": "mfcc"}, {"features": "raw"}
ZIP = {"class": "OggZipDataset", "path": "x.zip", "audio": SPEECH}
OTHER = {**ZIP, "audio": NOISE}
LABELS = {**ZIP, "audio": None}


def meta(data_map, **datasets):
    return {"class": "MetaDataset", "datasets": datasets, "data_map": data_map}


def combined(data_map, **datasets):
    return {"class": "CombinedDataset", "datasets": datasets, "data_map": data_map}


@pytest.mark.parametrize(
    ("description", "expected"),
    [
        (ZIP, SPEECH),
        (lambda: ZIP, SPEECH),
        (LABELS, None),
        (None, None),
        ("x.hdf", None),
        # Any name can be that of a part.
        (meta({"data": ("audio", "data")}, audio=ZIP, chars=LABELS), SPEECH),
        (meta({"data": ("dataset", "data")}, dataset=ZIP, audio=LABELS), SPEECH),
        (meta({"data": ("class", "data")}, **{"class": ZIP}), SPEECH),
        (combined({("audio", "data"): "data"}, audio=ZIP), SPEECH),
        # Of several, that where the key is from.
        (meta({"noise": ("a", "data"), "data": ("b", "data")}, a=OTHER, b=ZIP), SPEECH),
        (combined({("a", "data"): "noise", ("b", "data"): "data"}, a=OTHER, b=ZIP), SPEECH),
        (
            meta({"data": ("in", "speech")}, first=OTHER, **{"in": meta({"speech": ("b", "data")}, a=OTHER, b=ZIP)}),
            SPEECH,
        ),
        ({"class": "ConcatDataset", "datasets": [LABELS, ZIP]}, SPEECH),
        ({"class": "MultiProcDataset", "dataset": meta({"data": ("audio", "data")}, audio=ZIP)}, SPEECH),
        ({"class": "PostprocessingDataset", "dataset": lambda: ZIP, "map_seq": lambda seq, **_others: seq}, SPEECH),
        ({"class": "VariableDataset", "get_dataset": lambda dataset, **_others: dataset, "dataset": ZIP}, SPEECH),
    ],
)
def test_options_are_those_of_the_data_set_that_a_key_is_from(description, expected):
    assert audio_options(description, "data") == expected
