"""Convolution and pooling: functions, their out dims, and modules. Public in `returnn.frontend.conv`."""
