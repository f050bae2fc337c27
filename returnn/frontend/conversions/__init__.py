"""
Parameters of models of other toolkits, into modules of the frontend.

A function gets a module of the other toolkit, which it only looks at (names and shapes are facts, no import is needed),
and the module of the frontend, whose parameters it sets.
"""
