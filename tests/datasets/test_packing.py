from __future__ import annotations

import pytest

from returnn.config import Config, global_config_ctx
from returnn.datasets.packing import packed_batch_config, packed_batch_key_opts
from returnn.util.errors import ConfigError


@pytest.mark.parametrize(
    ("option", "of_data", "of_classes"),
    [
        (None, None, None),
        (False, None, None),
        (True, {}, {}),
        ({"data": True}, {}, None),
        ({"data": {"x": 1}, "classes": False}, {"x": 1}, None),
        ({"data": {}}, {}, None),
    ],
)
def test_forms_of_the_option(option, of_data, of_classes):
    with global_config_ctx(Config({} if option is None else {"packed_tensors": option})):
        packing = packed_batch_config()
    assert packed_batch_key_opts(packing, "data") == of_data
    assert packed_batch_key_opts(packing, "classes") == of_classes


def test_without_a_config_nothing_is_packed():
    assert packed_batch_config() is None


def test_wrong_option():
    message = "option 'packed_tensors': got 3, but expected True, False or a dict"
    with global_config_ctx(Config({"packed_tensors": 3})), pytest.raises(ConfigError, match=message):
        packed_batch_config()
