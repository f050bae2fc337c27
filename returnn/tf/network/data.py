"""`NetworkData`: the data that the layers of a network use."""

from __future__ import annotations

from returnn.tensor import Tensor
from returnn.tf.layers.core.network_protocol import Network
from returnn.tf.network.layer_names import DataNotFound, where_it_is_needed
from returnn.tf.network.step import StepOfLoop
from returnn.util.errors import nearest_hint


class NetworkData:
    """Data of a network, or of the outermost one, by key."""

    def __init__(self, net: Network, step: StepOfLoop, root: NetworkData | None) -> None:
        """
        :param net: the network
        :param step: the loop that it is part of
        :param root: of the outermost network; None if it is this one
        """
        self.net = net
        self.step = step
        self.root = root or self
        self.used_keys: set[str] = set()

    def has_value(self, key: str | None) -> bool:
        """
        :param key: of data of this network, or of the outermost one
        :return: whether it is there
        """
        self.see_to_placeholders()
        key = self.net.extern_data.default_input if key is None else key
        owner = self._owner_of(key)
        found = owner.extern_data.data.get(key)
        return found is None or found.raw_tensor is not None

    def get(self, key: str, *, mark_as_used: bool = True) -> Tensor:
        """
        :param key: of the data; "seq_tag" and "seq_idx" are always there
        :param mark_as_used: so that the dataset has to provide it
        :raises DataNotFound: if there is no such data
        """
        self.see_to_placeholders()
        outermost = self.root.net.extern_data
        if key in ("seq_tag", "seq_idx"):
            outermost.add_seq_info(key)
        else:
            self.check_known(key)
        owner = self._owner_of(key)
        data = owner.extern_data.get_data(key)
        frame = self.step.innermost_frame()
        if owner is not self.net and frame is not None and frame is not owner.step.innermost_frame():
            data = frame.step_data(key, data)
        is_own = owner is not self.root.net
        if mark_as_used and not is_own and (self.net.only_template or self.has_value(key)):
            self.root.used_keys.add(key if key in outermost.data else outermost.default_input)
        return data

    def _owner_of(self, key: str) -> Network:
        """
        :return: the network that has the data: this one, the outermost one, or one between, where a layer gives the
            network inside of it other data for a key of the outermost one, such as the labels that a mask leaves. Those
            are the data of all networks in there. Its sources ("data") belong to one network alone
        """
        outermost = self.root.net
        if key in self.net.extern_data.data:
            return self.net
        if key == outermost.extern_data.default_input or key not in outermost.extern_data.data:
            return outermost
        around = reversed(self.net.get_network_hierarchy()[:-1])
        return next((net for net in around if key in net.extern_data.data), outermost)

    def see_to_placeholders(self) -> None:
        """Described data gets its placeholders, and so the batch its size, which layers without sources need."""
        if not self.net.only_template:
            self.root.net.extern_data.create_wanted_placeholders()

    def used(self, *, exclude_extra_added: bool = True) -> set[str]:
        """:return: keys of the data that the layers use"""
        return self.used_keys - self.net.extern_data.extra_added_keys if exclude_extra_added else set(self.used_keys)

    def check_known(self, key: str) -> None:
        """
        Makes the layer that gives this data, if there is one.

        :raises DataNotFound: if there is no such data
        """
        own, outermost = self.net.extern_data, self.root.net.extern_data
        if not self._is_there(key):
            self.make_layer_that_registers(key)
        if not self._is_there(key):
            known = {*own.data, *outermost.data}
            raise DataNotFound(f"{where_it_is_needed(self.net)}there is no data {key!r}.\n  {nearest_hint(key, known)}")

    def is_known(self, key: str) -> bool:
        """:return: whether there is such data, or a layer that gives it when it is made"""
        return self._is_there(key) or bool(self._layers_that_register(key))

    def _is_there(self, key: str) -> bool:
        own, outermost = self.net.extern_data, self.root.net.extern_data
        return key in ("seq_tag", "seq_idx") or own.has_data(key) or outermost.has_data(key)

    def make_layer_that_registers(self, key: str) -> None:
        """Makes the layer whose option `register_as_extern_data` is this key, if there is no such data yet."""
        root = self.root.net
        if root.extern_data.has_data(key):
            return
        for name in self._layers_that_register(key):
            if name not in root.layers and name not in root.construction.under_construction:
                root.construct_layer(root.layers_desc, name)

    def _layers_that_register(self, key: str) -> list[str]:
        layers = self.root.net.layers_desc.items()
        return [name for name, x in layers if isinstance(x, dict) and x.get("register_as_extern_data") == key]
