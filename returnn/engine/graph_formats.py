"""Formats of exported graphs."""

GRAPH_FORMATS = {
    ".pb": "graph, binary",
    ".pbtxt": "graph, as text",
    ".meta": "meta graph, binary",
    ".metatxt": "meta graph, as text",
}
