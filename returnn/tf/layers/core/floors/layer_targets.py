"""What a layer is compared with."""

from __future__ import annotations

from returnn.tensor import Dim, Tensor
from returnn.tf.layers.core.floors.layer_rec import LayerRec


class LayerTargets(LayerRec):
    """The part of `LayerBase` about the option `target`."""

    target: str | None
    targets: list[str] | None

    def get_target_value(self, target: str | None = None) -> Tensor | None:
        """
        :param target: key; default: the target of the layer
        :return: the data of this key, or the output of the layer that "layer:name" names; None if there is no target.
            Inside of a loop, it is one frame of what has the dim of the loop
        """
        key = self.target if target is None else target
        if key is None:
            return None
        if key in self._target_layers:
            return self._frame_of_target(self._target_layers[key])
        if key.startswith("layer:"):
            return self.network.get_layer(key[len("layer:") :]).output
        return self.network.get_extern_data(key, mark_data_key_as_used=True)

    def _frame_of_target(self, target: LayerRec) -> Tensor:
        frame = self.network.step.innermost_frame()
        if frame is None or frame.path_of(target.get_absolute_name()) is not None:
            return target.output
        return frame.step_data(target.get_absolute_name(), target.output)

    def feature_dim_from_target(self) -> Dim | None:
        """:return: the feature dim that the output needs, to be compared with the target; None if it is given"""
        if self.has_given_feature_dim:
            return None  # and it may be that the target is not known yet
        target = self.get_target_value()
        dim = None if target is None else target.feature_dim_or_sparse_dim
        if dim is None:
            return None
        loss = self.loss or self._loss_left_out  # the parameters are the same with the loss and without
        return loss.get_auto_output_layer_dim(dim) if loss is not None else dim
