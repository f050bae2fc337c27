"""
The compiler of loops: `compile_loop` makes a value of a time step (parse, infer, plan, check), and `emit` makes a
TensorFlow graph of that.

Nothing that `plan` and `infer` need imports TensorFlow.
"""
