"""Initial outputs that are used as labels, as far as they are constants: are they labels of their dim?"""

from __future__ import annotations

import numpy

from returnn.tf.layers.loop.infer import InferredLoop
from returnn.tf.layers.loop.inputs import LoopInputs
from returnn.util.errors import ConfigError

_WORDS = {"ones": 1}  # "zeros" is always a label


def check_initial_labels(inputs: LoopInputs, inferred: InferredLoop) -> None:
    """
    A number that no layer looks up, as it is only compared, can be any.

    :param inputs: the loop
    :param inferred: its layers
    :raises ConfigError: if a layer looks up an initial output in its weights that is no label
    """
    for path, layer in inferred.layers.items():
        used = [edge.path for edge in inferred.edges.get(path, ()) if edge.kind == "prev"]
        for prev_path in used if layer.looks_up_labels else ():
            _check(inputs, inferred, path, prev_path)


def _check(inputs: LoopInputs, inferred: InferredLoop, path: str, prev_path: str) -> None:
    labels, template = inferred.layers.get(prev_path), inferred.prev.get(prev_path)
    if labels is None or template is None or template.sparse_dim is None or template.sparse_dim.size is None:
        return
    given = labels._initial_output
    value = _WORDS.get(given, 0) if isinstance(given, str) else given
    if not isinstance(value, (int, float, numpy.number)) or 0 <= int(value) < template.sparse_dim.size:
        return
    raise ConfigError(
        f"{labels.where()}: option 'initial_output': {given!r} is no label of {template.sparse_dim}, as"
        f" {inputs.prefix + path!r} needs it.\n  Possible: 0 to {template.sparse_dim.size - 1}."
    )
