"""The floors of `LayerBase`, each with one theme: see `returnn.tf.layers.core.floors.layer_core`."""
