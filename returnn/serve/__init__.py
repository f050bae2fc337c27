"""A model over HTTP: task `serve`. `http_service` is also what the run viewer is built on."""
