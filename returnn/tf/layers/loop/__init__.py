"""
The compiler of loops: what a time step is made of (`graph`), its dims (`infer`), its beams, the plan, and the
TensorFlow graph (`emit`).

Nothing before `emit` imports TensorFlow.
"""
