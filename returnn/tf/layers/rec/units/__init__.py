"""The units of recurrent layers, a module per theme. `registry` knows them by name."""
