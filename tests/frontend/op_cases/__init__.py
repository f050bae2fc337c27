"""Cases of frontend operations, a module per theme. See `tests/frontend/op_case.py`."""
