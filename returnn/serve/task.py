"""The task `serve`."""

from __future__ import annotations

from returnn.config import Config
from returnn.engine.run.interrupts import InterruptedRun, Interrupts
from returnn.engine.run.loaded_model import LoadedModel, load_model
from returnn.log import log
from returnn.serve.model_service import ModelService
from returnn.util.texts.counted import counted


def serve(config: Config) -> None:
    """Answers requests over HTTP, at `web_server_port`, until a signal ends it."""
    config.set("task", config.options.web_server_output)  # which is what the model is for
    model = load_model(config)
    try:
        serve_model(model)
    finally:
        model.close()


def serve_model(model: LoadedModel) -> None:
    """
    :param model: answers requests until a signal comes; a step that has begun is finished
    :raises UserError: if the port is in use
    """
    service = ModelService(model)
    with service.http_service() as http:  # a port that cannot be used is said before the model is loaded
        service.load()
        try:
            with Interrupts() as interrupts, http.running(on_end=service.waiting.close):
                print(f"serve: {http.url}", file=log.v1)
                log.flush()
                service.waiting.run(lambda: interrupts.check(where="the last request"))
        except InterruptedRun as exc:
            print(
                f"serve: ends: {exc}. {counted(service.num_inputs, 'input')} in "
                f"{counted(service.num_batches, 'batch')}.",
                file=log.v1,
            )
