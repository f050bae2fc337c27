"""Which layer does which operation, by theme. What is not here is an expression, see `recording`."""
