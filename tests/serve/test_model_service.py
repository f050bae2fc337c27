"""Inputs of all kinds, over HTTP, for a model that says what it gets; and for a network and a model in Python."""

import contextlib
import io
import json
import threading
import wave
from concurrent.futures import ThreadPoolExecutor

import numpy
import pytest

from returnn.config import Config
from returnn.datasets.util.vocabulary import Vocabulary
from returnn.engine.model_inputs import ModelInputs
from returnn.log import log
from returnn.serve.model_service import ModelService
from returnn.tensor import Dim, Tensor, batch_dim
from tests.serve.asking import LIMIT_S, ask, ask_bytes

VOCAB = Vocabulary(vocab_file=None, labels=["<unk>", "hello", "a.wav", "world"], unknown_label="<unk>")


class ModelOfTests:
    """Says what it gets."""

    def __init__(self, *, frames=False, languages=False, **options):
        time, features, labels = Dim(None, name="time"), Dim(4, name="features"), Dim(4, name="labels", vocab=VOCAB)
        if frames:
            data = Tensor("data", dims=[batch_dim, time, features], dtype="float32", feature_dim=features)
        else:
            data = Tensor("data", dims=[batch_dim, time], dtype="int32", sparse_dim=labels)
        target = Tensor(
            "classes", dims=[batch_dim, time], dtype="int32", sparse_dim=labels, available_for_inference=False
        )
        other = Tensor("other", dims=[batch_dim, time], dtype="int32", sparse_dim=labels)
        audio = {"features": "log_mel_filterbank", "num_feature_filters": 4}
        dev = {"class": "OggZipDataset", "path": "x.zip", "audio": audio}
        self.config = Config({"model": "net", "web_server_port": 0, **({"dev": dev} if frames else {}), **options})
        language = {"language": Tensor("language", [batch_dim], "int32", sparse_dim=labels)} if languages else {}
        self.inputs = ModelInputs(self.config, "data", {"data": data, "other": other, "classes": target, **language})
        self.batches = []
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.has_begun = threading.Event()

    def prepare(self, what):
        return 7

    def decode(self, inputs, *, with_beam):
        assert with_beam
        self.batches.append(inputs)
        self.has_begun.set()
        assert self.may_go_on.wait(LIMIT_S)
        if any(3 in seq for seq in inputs["data"]):
            raise RuntimeError("the world is too large")
        return [[(-float(len(seq)), f"data{len(seq)}")] for seq in inputs["data"]]

    def forward(self, inputs, layer):
        return [numpy.array([[0.5, float("-inf")]], "float32") for _ in inputs["data"]]


@contextlib.contextmanager
def serving(model, **options):
    log.initialize(verbosity=[3])
    service = ModelService(model)
    service.load()
    end = threading.Event()

    def check():
        if end.is_set():
            raise InterruptedError

    def run():
        with contextlib.suppress(InterruptedError):
            service.waiting.run(check)

    with service.http_service() as http, http.running(on_end=service.waiting.close):
        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield http.url
        finally:
            end.set()
            getattr(model, "may_go_on", end).set()
            thread.join()


@pytest.fixture(scope="module")
def text_url():
    with serving(ModelOfTests()) as url:
        yield url


@pytest.fixture(scope="module")
def frames_url():
    with serving(ModelOfTests(frames=True, web_server_max_audio_s=2.0)) as url:
        yield url


def search(url, content, content_type="application/json"):
    body = content if isinstance(content, (bytes, str)) else json.dumps(content)
    status, answer = ask(f"{url}/search", body, content_type=content_type)
    return status, answer.get("output", answer.get("error"))


@pytest.mark.parametrize(
    ("item", "output"),
    [("hello world hello"[:5], [[-1.0, "data1"]]), ("hello what", [[-2.0, "data2"]]), ([1, 2, 0], [[-3.0, "data3"]]),
     ("a.wav", [[-1.0, "data1"]]), ("", [[0.0, "data0"]]), ({"data": [1], "other": "hello hello"}, [[-1.0, "data1"]])],
    ids=["text", "unknown word", "labels", "text like a name of a file", "empty", "by key"],
)  # fmt: skip
def test_inputs(item, output, text_url):
    assert search(text_url, {"input": item}) == (200, output)


def test_a_label_of_the_whole_input_is_a_text_or_a_number():
    model = ModelOfTests(languages=True)
    with serving(model) as url:
        for language, label in (("world", 3), (2, 2), (0, 0)):
            assert search(url, {"input": {"data": [1, 2], "language": language}}) == (200, [[-2.0, "data2"]])
            (seq,) = model.batches[-1]["language"]
            assert seq.shape == ()
            assert seq == label
        for language, error in {
            "hello world": "'hello world' is 2 labels, but the model expects one: 'language' [B]",
            (1,): "the input 'language' is [1], expected a text or a number.",
            True: "the input 'language' is true, expected a text or a number.",
            7: "the input has labels from 7 to 7",
            0.5: "the input has values that are no int32",
        }.items():
            status, answer = search(url, {"input": {"data": [1, 2], "language": language}})
            assert status == 400
            assert error in answer
        status, answer = search(url, {"input": {"data": [1, 2], "langauge": 1}})
        assert (status, "Did you mean 'language'" in answer) == (400, True)


WRONG_INPUTS = {
    "no JSON": ("{", 'expected JSON, {"input": ...}: Expecting property name'),
    "no bytes": ("", "expected JSON"),
    "nested": ("[" * 100_000, "expected JSON"),
    "not UTF-8": (b'{"input": "\xff"}', "\n  Audio is sent with the header 'Content-Type: audio/wav'."),
    "no dict": ([1], 'expected JSON with the key "input" alone'),
    "other key": ({"input": [1], "layer": "x"}, 'expected JSON with the key "input" alone'),
    "null": ({"input": None}, "the input 'data' is null, expected a text or a list"),
    "number": ({"input": 3}, "the input 'data' is 3, expected a text or a list"),
    "no keys": ({"input": {}}, "the input is empty"),
    "unknown key": ({"input": {"date": [1]}}, "there is no data key 'date'.\n  Did you mean 'data'?"),
    "NaN": ('{"input": [NaN]}', "NaN is no number that a model can take"),
    "label too large": ({"input": [1, 4]}, "has labels from 1 to 4, but the model expects 'data'"),
    "negative label": ({"input": [-1]}, "has labels from -1 to -1"),
    "floats": ({"input": [1.5]}, "has values that are no int32"),
    "booleans": ({"input": [True]}, "has values that are no int32"),
    "huge integer": ({"input": [10**30]}, "the input "),
    "texts": ({"input": ["a"]}, "the input is a list of texts, but one text is one input"),
    "ragged": ({"input": [[1], [1, 2]]}, "no array of numbers"),
    "vectors": ({"input": [[1, 2]]}, "has the shape [1, 2], but the model expects"),
}


@pytest.mark.parametrize("kind", WRONG_INPUTS)
def test_wrong_inputs(kind, text_url):
    content, text = WRONG_INPUTS[kind]
    status, answer = search(text_url, content)
    assert status == 400, answer
    assert text in answer


def audio(seconds, *, rate=8000):
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(numpy.random.RandomState(1).randint(-999, 999, int(seconds * rate)).astype("<i2").tobytes())
    return file.getvalue()


@pytest.mark.parametrize("content_type", ["audio/wav", "audio/x-wav; codecs=1", "application/octet-stream"])
def test_audio(content_type, frames_url):
    status, output = search(frames_url, audio(0.5), content_type)
    assert status == 200
    assert output[0][1].startswith("data")


def test_wrong_audio(frames_url, text_url):
    assert search(frames_url, b"RIFFxxxx", "audio/wav")[0] == 400
    assert search(frames_url, b"", "audio/wav") == (400, "the input: the audio file is empty.")
    error = "the input: the audio is longer than 2 seconds, at 8000 Hz."
    assert search(frames_url, audio(2.1), "audio/wav") == (400, error)
    # Resampled, this would need all of the memory.
    assert search(frames_url, audio(9, rate=1), "audio/wav") == (
        400,
        "the input: the audio is longer than 2 seconds, at 1 Hz.",
    )
    status, error = search(text_url, audio(0.1), "audio/wav")
    assert status == 400
    assert error.startswith("the input cannot be audio, as the model expects 'data'")


def test_a_text_is_never_the_name_of_a_file(frames_url, tmp_path):
    file = tmp_path / "a.wav"
    file.write_bytes(audio(0.5))
    status, error = search(frames_url, {"input": str(file)})
    assert status == 400
    assert "has no 'vocab'" in error


def test_other_types(text_url):
    status, error = search(text_url, "--x\r\n", "multipart/form-data; boundary=x")
    assert (status, error) == (
        415,
        "the type 'multipart/form-data' is not possible. Send JSON, or the content of an audio file as 'audio/wav'.",
    )


def test_page_and_info(text_url, frames_url):
    status, page = ask_bytes(text_url)
    assert status == 200
    assert b"<!doctype html>" in page
    info = ask(f"{text_url}/info")[1]
    assert (info["model"], info["epoch"], info["path"], info["default_input"]) == ("net", 7, "/search", "data")
    assert info["inputs"]["data"]["text"]
    assert not info["inputs"]["data"]["audio"]
    assert list(info["inputs"]) == ["data", "other"]  # "classes" is what the search should find
    service = ModelService(ModelOfTests(web_server_output="forward"))
    assert "classes" in service.info()["inputs"]
    assert ask(f"{frames_url}/info")[1]["inputs"]["data"]["audio"]


def test_inputs_that_a_search_needs_are_named():
    model = ModelOfTests()
    model.inputs.needed = frozenset({"data", "classes"})
    with serving(model) as url:
        inputs = ask(f"{url}/info")[1]["inputs"]
        assert set(inputs) == {"data", "other", "classes"}
        answer = (400, "the input 'classes' is missing. Needed: classes, data.")
        assert search(url, {"input": [1]}) == answer
        assert search(url, {"input": {"data": [1], "classes": [1]}})[0] == 200


@pytest.mark.parametrize(("load", "epoch"), [("folder/mean.pt", None), ("net.012", 12), (None, 0)])
def test_info_names_the_model_that_is_loaded(load, epoch):
    model = ModelOfTests(load=load)
    model.prepare = lambda what: 0  # as an engine says it of a file without an epoch
    service = ModelService(model)
    service.load()
    info = service.info()
    assert (info["model"], info["epoch"]) == (load or "net", epoch)


def test_forward_has_null_for_what_is_not_finite():
    with serving(ModelOfTests(web_server_output="forward")) as url:
        assert ask(f"{url}/forward", '{"input": [1]}')[1]["output"] == [[0.5, None]]
        assert "the input 'data' is empty" in ask(f"{url}/forward", '{"input": []}')[1]["error"]
        assert ask(f"{url}/search", '{"input": [1]}')[0] == 404


def test_several_clients_at_once_share_batches_and_one_that_fails_harms_nobody():
    model = ModelOfTests()
    model.may_go_on.clear()
    with serving(model) as url, ThreadPoolExecutor(20) as pool:
        first = pool.submit(search, url, {"input": [1]})
        assert model.has_begun.wait(LIMIT_S)
        texts = [[1] * (number + 1) if number != 5 else [3] for number in range(19)]
        futures = [pool.submit(search, url, {"input": text}) for text in texts]
        model.may_go_on.set()
        assert first.result() == (200, [[-1.0, "data1"]])
        for text, future in zip(texts, futures, strict=True):
            length = len(text)
            wrong = (500, "RuntimeError: the world is too large")
            assert future.result() == (wrong if 3 in text else (200, [[-float(length), f"data{length}"]]))
    assert max(len(batch["data"]) for batch in model.batches) > 1
