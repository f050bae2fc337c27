"""The model of a config with the parameters of one of its epochs, whatever its backend is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy

from returnn.config import Config
from returnn.engine.model_inputs import Inputs, ModelInputs
from returnn.engine.model_names import check_has_model
from returnn.util.backend_engine import BackendEngine
from returnn.util.python.optional_import import import_part


class LoadedModel(Protocol):
    """`returnn.tf.engine.model.Model` or `returnn.engine.frontend.model.Model`."""

    config: Config
    inputs: ModelInputs

    def decode(self, inputs: Inputs, *, with_beam: bool = False) -> list[Any]:
        """:return: hypotheses of the inputs"""

    def forward(self, inputs: Inputs, layer: str | None = None) -> Sequence[numpy.ndarray]:
        """:return: outputs of the inputs"""

    def prepare(self, what: str) -> int | None:
        """
        Loads what is loaded at first use.

        :param what: "search" or "forward"
        :return: epoch of the model
        """

    def close(self) -> None:
        """Frees the memory."""


def load_model(config: Config) -> LoadedModel:
    """
    :param config: for the backend that is selected
    :return: its model
    :raises UserError: if the config is wrong, or there is no such model
    """
    is_net_dict = BackendEngine.get_selected_engine() == BackendEngine.TensorFlowNetDict
    if is_net_dict:  # others may have no parameters
        check_has_model(config)
    module = import_part(
        "returnn.tf.engine.model" if is_net_dict else "returnn.engine.frontend.model",
        needed_for=BackendEngine.describe_selected(),
    )
    model: LoadedModel = module.Model(config)
    return model
