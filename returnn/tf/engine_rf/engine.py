"""`Engine`: the engine for models of the frontend in graphs; data and epochs are as with all backends."""

from __future__ import annotations

from typing import Any

from returnn.config import Config, get_global_config
from returnn.datasets.core.dataset import Dataset
from returnn.engine.frontend.engine import FrontendEngine
from returnn.tf.engine_rf.runner import GraphRunner


class Engine(FrontendEngine):
    """The tasks of a config with `backend = "tensorflow"`."""

    def __init__(self, config: Config | None = None) -> None:
        """:param config: default: the global one"""
        config = config if config is not None else get_global_config()
        super().__init__(config, GraphRunner(config))

    def eval_model(  # type: ignore[override]  # a documented signature of its own
        self, name: str | None = None, dataset: Dataset | None = None, **options: Any
    ) -> dict[str, dict[str, float]]:
        """
        :param name: of the data set, such as "dev"
        :param dataset: is evaluated alone; default: all that are evaluated after each epoch
        :param options: see `Evaluation.run`
        :return: means over all frames, by data set, and by `loss:NAME` and `error:NAME`
        """
        if dataset is not None:
            options["datasets"] = {name or "eval": dataset}
        return self.evaluation.run(**options)
