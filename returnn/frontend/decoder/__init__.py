"""
Decoders: modules which predict the next label from those before, and from an encoder.

Not a part of `rf`; import them as `from returnn.frontend.decoder.transformer import TransformerDecoder`.
"""
