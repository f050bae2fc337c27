"""Attention, a module per theme. `returnn.frontend.attention` hands it on."""
