"""
Encoders: modules which map sequences to sequences.

Not a part of `rf`; import them as `from returnn.frontend.encoder.conformer import ConformerEncoder`.
"""
