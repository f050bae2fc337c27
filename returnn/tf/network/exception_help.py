"""When a step of a session fails: which operation it was, what went into it, and what data was fed."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, TextIO

import numpy
import tensorflow as tf

tf1 = tf.compat.v1


def help_on_tf_exception(
    session: Any,
    exception: BaseException,
    fetches: Any,
    feed_dict: Mapping[Any, Any] | None = None,
    meta_step_info: Mapping[str, Any] | None = None,
    extern_data: Any = None,
    file: TextIO | None = None,
) -> None:
    """
    :param session: session which failed; the inputs of the operation are computed again with it, if that is possible
    :param exception: of TensorFlow
    :param fetches: what was to be computed
    :param feed_dict: what was fed
    :param meta_step_info: more about the step, such as tags of sequences
    :param extern_data: `ExternData`: to name what was fed
    :param file: where to write; default: the standard output
    """
    file = file or sys.stdout
    op = getattr(exception, "op", None)
    print(f"{type(exception).__name__}: {str(exception).splitlines()[0] if str(exception) else ''}", file=file)
    print(f"  fetches: {[getattr(x, 'name', x) for x in tf.nest.flatten(fetches)]}", file=file)
    if op is not None:
        print(f"  operation {op.name!r} (type {op.type})", file=file)
        for x in op.inputs:
            print(f"    input {x.name!r} {x.dtype.name} {_description_of(session, x, feed_dict)}", file=file)
    names = {} if extern_data is None else {d.raw_tensor.ref(): k for k, d in extern_data.data.items() if _has_raw(d)}
    for key, value in (feed_dict or {}).items():
        name = names.get(key.ref()) if isinstance(key, tf.Tensor) else None
        print(f"  fed {name or getattr(key, 'name', key)!r}: {_description(value)}", file=file)
    for name, value in (meta_step_info or {}).items():
        print(f"  {name}: {value!r}", file=file)


def _has_raw(data: Any) -> bool:
    return isinstance(data.raw_tensor, tf.Tensor)


def _description_of(session: Any, x: tf.Tensor, feed_dict: Mapping[Any, Any] | None) -> str:
    if x.graph is not session.graph:
        return f"shape {x.shape}, inside of a function"
    try:
        return _description(session.run(x, feed_dict=feed_dict))
    except (tf.errors.OpError, TypeError) as exc:
        return f"shape {x.shape}, cannot be computed: {str(exc).splitlines()[0]}"


def _description(value: Any) -> str:
    array = numpy.asarray(value)
    if not array.size or array.dtype.kind not in "iufb":
        return f"shape {array.shape}, {array.dtype}"
    text = f"shape {array.shape}, {array.dtype}, min {array.min()}, max {array.max()}"
    num_bad = 0 if array.dtype.kind != "f" else int((~numpy.isfinite(array)).sum())
    return f"{text}, {num_bad} not finite" if num_bad else text
