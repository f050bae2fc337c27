"""The interface of a backend, a module per theme. `returnn.frontend._backend.Backend` puts them together."""
