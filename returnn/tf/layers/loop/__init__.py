"""
The compiler of loops, as far as it makes no graph: what a time step is made of, its dims, its beams, and the plan.

Nothing here imports TensorFlow. `returnn.tf.layers.rec` turns the plan into a graph.
"""
