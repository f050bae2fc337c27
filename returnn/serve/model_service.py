"""
`ModelService`: what a model answers over HTTP. Task `serve`; see docs/serve.md.

Requests are turned into inputs by the threads of the service, and computed by the thread that has the model.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy

from returnn.engine.model_names import epoch_of_checkpoint
from returnn.engine.run.loaded_model import LoadedModel
from returnn.serve.http_service import HTML, Answer, HttpError, HttpService, Limits, Request, Route
from returnn.serve.waiting_inputs import WaitingInputs
from returnn.util.errors import UserError
from returnn.util.numbers.json_value import json_value

_PAGE = Path(__file__).parent / "page.html"
_JSON_TYPES = ("application/json", "application/x-www-form-urlencoded", "text/plain")  # as curl and `fetch` say
_BINARY = "application/octet-stream"
Seq = Mapping[str, numpy.ndarray]  # by data key


class ModelService:
    """Search or forward of a model."""

    def __init__(self, model: LoadedModel) -> None:
        """:param model: its config says what is served, and how much"""
        self.model = model
        options = model.config.options
        self._what = options.web_server_output
        self._layer = options.forward_output_layer
        self.limits = Limits(
            max_bytes=options.web_server_max_bytes,
            timeout_s=options.web_server_timeout_s,
            max_requests=options.web_server_max_requests,
        )
        self._max_audio_s = options.web_server_max_audio_s
        self.waiting = WaitingInputs(
            self._compute, max_inputs=self.limits.max_requests, wait_s=options.web_server_batch_wait_s
        )
        self._making_inputs = threading.Lock()  # vocabularies and functions of the config are not for several threads
        self._epoch: int | None = None
        self.num_batches = 0
        self.num_inputs = 0

    def load(self) -> None:
        """Loads the model, so that the first request need not wait for it."""
        epoch = self.model.prepare(self._what)
        load = self.model.config.options.load  # whose name need not say an epoch, as that of an average of models
        self._epoch = epoch or (epoch_of_checkpoint(load) if load else epoch)

    def http_service(self) -> HttpService:
        """:return: at the place that the config says"""
        options = self.model.config.options
        return HttpService(
            options.web_server_host,
            options.web_server_port,
            self.routes(),
            limits=self.limits,
            option="options 'web_server_host' and 'web_server_port'",
        )

    def routes(self) -> dict[str, Route]:
        """:return: by path"""
        return {
            "/": ("GET", lambda request: Answer(_PAGE.read_bytes(), HTML)),
            "/info": ("GET", lambda request: Answer.of(self.info())),
            f"/{self._what}": ("POST", self.answer),
        }

    def info(self) -> dict[str, Any]:
        """:return: what the page, or a program, has to know"""
        options = self.model.config.options
        return {
            "model": options.load or options.model,
            "epoch": self._epoch,
            "path": f"/{self._what}",
            "inputs": self.model.inputs.describe(for_search=self._what == "search"),
            "default_input": self.model.inputs.default_key,
            "max_bytes": self.limits.max_bytes,
            "timeout_s": self.limits.timeout_s,
            "num_inputs": self.num_inputs,
            "num_batches": self.num_batches,
        }

    def answer(self, request: Request) -> Answer:
        """
        :param request: JSON, `{"input": text or labels or frames}`, or the content of an audio file
        :return: `{"output": ...}`
        :raises HttpError: if it has a wrong type, or takes too long
        :raises UserError: if it does not fit to the model
        """
        start_s = time.monotonic()
        seq = self._seq(request)
        output = self.waiting.output_of(seq, deadline_s=request.deadline_s)
        return Answer.of({"output": output, "seconds": round(time.monotonic() - start_s, 4)})

    def _seq(self, request: Request) -> Seq:
        """:return: the input, as the model needs it"""
        inputs = self.model.inputs
        if request.content_type.startswith("audio/") or request.content_type == _BINARY:
            items: Mapping[str, Any] = {inputs.default_key: request.body}
        elif request.content_type in _JSON_TYPES:
            items = self._items(_parsed(request.body))
        else:
            text = f"the type {request.content_type!r} is not possible."
            raise HttpError(415, f"{text} Send JSON, or the content of an audio file as 'audio/wav'.")
        with self._making_inputs:
            seq = {key: inputs.array(key, item, max_audio_s=self._max_audio_s) for key, item in items.items()}
        if missing := sorted(inputs.needed.difference(items)):
            raise UserError(f"the input {missing[0]!r} is missing. Needed: {', '.join(sorted(inputs.needed))}.")
        for key, array in seq.items():
            if not array.size and self._what != "search":  # where nothing is found, then
                raise UserError(f"the input {key!r} is empty.")
        return seq

    def _items(self, content: Any) -> Mapping[str, Any]:
        if not isinstance(content, dict) or set(content) != {"input"}:
            raise UserError('expected JSON with the key "input" alone: {"input": text, labels or frames}.')
        items = content["input"]
        if not isinstance(items, dict):
            items = {self.model.inputs.default_key: items}
        if not items:
            raise UserError("the input is empty.")
        for key, item in items.items():
            one = self.model.inputs.is_one_value(key)
            if not (isinstance(item, str) or (_is_number(item) if one else isinstance(item, list))):
                expected = "number" if one else "list"
                raise UserError(f"the input {key!r} is {json.dumps(item)}, expected a text or a {expected}.")
        return items

    def _compute(self, seqs: Sequence[Seq]) -> list[Any]:
        """:return: outputs, as JSON has them"""
        outputs: list[Any] = [None] * len(seqs)
        by_keys: dict[tuple[str, ...], list[int]] = {}
        for i, seq in enumerate(seqs):
            by_keys.setdefault(tuple(sorted(seq)), []).append(i)
        for keys, positions in by_keys.items():
            inputs = {key: [seqs[i][key] for i in positions] for key in keys}
            for i, output in zip(positions, self._outputs(inputs), strict=True):
                outputs[i] = json_value(output)
        self.num_batches += 1
        self.num_inputs += len(seqs)
        return outputs

    def _outputs(self, inputs: Mapping[str, Sequence[numpy.ndarray]]) -> Sequence[Any]:
        if self._what == "search":
            return self.model.decode(inputs, with_beam=True)
        return self.model.forward(inputs, self._layer)


def _is_number(item: Any) -> bool:
    return isinstance(item, (int, float)) and not isinstance(item, bool)


def _parsed(body: bytes) -> Any:
    """:raises UserError: if it is no JSON"""
    try:
        return json.loads(body, parse_constant=_not_a_number)
    except UserError:
        raise
    except (ValueError, RecursionError) as exc:
        is_binary = isinstance(exc, UnicodeDecodeError)
        hint = "\n  Audio is sent with the header 'Content-Type: audio/wav'." if is_binary else ""
        raise UserError(f'expected JSON, {{"input": ...}}: {exc}.{hint}') from None


def _not_a_number(text: str) -> Any:
    raise UserError(f"{text} is no number that a model can take.")
