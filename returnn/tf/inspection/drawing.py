"""Draws a network: loops and subnetworks as boxes around their layers, edges with the dims of what goes along them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from returnn.tf.inspection.found_layers import FoundLayer
from returnn.tf.inspection.layered_layout import Box, Edge, Layout, lay_out
from returnn.tf.inspection.net_graph import Node, net_graph
from returnn.tf.inspection.picture import CHAR_WIDTH, Curve, Picture, Rectangle, Text

_FILL = {
    "layer": "#f4f4f4",
    "data": "#e4e4e4",
    "loop": "#fffdf3",
    "subnetwork": "#f8fbff",
    "before": "#dff2df",
    "inside": "#ffe9b8",
    "after": "#d8ecf8",
}
_LEGEND = {
    "before": "before its loop, all frames at once",
    "inside": "inside of its loop",
    "after": "after its loop, all frames at once",
}
_NAME, _SMALL = 12.0, 9.0
_MARGIN = 20.0
_LEGEND_HEIGHT = 46.0
_WIDTH_OF_LEGEND = 840.0
_ROOT = ""


def drawn_network(layers: Sequence[FoundLayer], *, title: str) -> Picture:
    """
    :param layers: of the network, with or without values
    :param title: for people
    :return: the drawing
    """
    graph = net_graph(layers)
    root = Box(_ROOT, 0, 0, children=[_box(node) for node in graph.nodes])
    edges = {Edge(use.source, use.user, use.is_prev) for use in graph.uses if use.source != use.user or use.is_prev}
    root.x, root.y = _MARGIN, _LEGEND_HEIGHT / 2
    layout = lay_out(root, sorted(edges, key=str))
    nodes = {node.name: node for top in graph.nodes for node in _walk(top)}
    shapes = [
        *_legend(title),
        *_boxes(layout, nodes, outer=True),
        *_edges(layout, nodes),
        *_boxes(layout, nodes, outer=False),
        *_dims_of_edges(layout, nodes),
    ]
    return Picture(max(root.width + 2 * _MARGIN, _WIDTH_OF_LEGEND), root.y + root.height + _MARGIN, shapes)


def _walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from _walk(child)


def _lines(node: Node) -> tuple[str, str]:
    return node.name.rpartition("/")[2], "" if node.kind == "data" else node.layer_class


def _box(node: Node) -> Box:
    name, layer_class = _lines(node)
    width = max(len(name) * _NAME, len(layer_class) * _SMALL, len(node.output) * _SMALL * 0.8) * CHAR_WIDTH + 18
    return Box(node.name, max(width, 60.0), 34.0 if layer_class else 24.0, children=[_box(c) for c in node.children])


def _legend(title: str) -> Iterator[Rectangle | Text]:
    yield Text(_MARGIN, 20, title, size=14, is_bold=True, is_centered=False)
    x = _MARGIN
    for kind, words in _LEGEND.items():
        yield Rectangle(x, 28, 12, 12, _FILL[kind])
        yield Text(x + 17, 38, words, size=_SMALL, is_centered=False)
        x += 44 + len(words) * _SMALL * CHAR_WIDTH
    yield Text(x, 38, "dashed: from the time step before", size=_SMALL, color="#b05050", is_centered=False)


def _boxes(layout: Layout, nodes: dict[str, Node], *, outer: bool) -> Iterator[Rectangle | Text]:
    """:return: the boxes with others inside; or those without, which are drawn over the edges"""
    for box in layout.root.walk():
        if box.name == _ROOT or bool(box.children) is not outer:
            continue
        node = nodes[box.name]
        name, layer_class = _lines(node)
        tooltip = "\n".join(filter(None, [f"{node.name} ({node.layer_class})", node.output, node.note]))
        stroke = "#333333" if box.children else "#888888"
        yield Rectangle(box.x, box.y, box.width, box.height, _FILL[node.kind], stroke, tooltip)
        yield Text(box.center, box.y + 15, name, size=_NAME, is_bold=True)
        if layer_class:
            yield Text(box.center, box.y + 28, layer_class, size=_SMALL, color="#555555")


def _edges(layout: Layout, nodes: dict[str, Node]) -> Iterator[Curve]:
    for edge, points in layout.routes.items():
        color = "#b05050" if edge.is_back else "#777777"
        tooltip = f"{'prev:' if edge.is_back else ''}{edge.source} \u2192 {edge.target}: {nodes[edge.source].output}"
        yield Curve(points, color, is_dashed=edge.is_back, has_corners=edge.is_back, tooltip=tooltip)


def _dims_of_edges(layout: Layout, nodes: dict[str, Node]) -> Iterator[Text]:
    sources = {edge.source for edge in layout.routes}
    for box in layout.root.walk():
        if box.name in sources:  # all that goes out of a layer has the same dims
            bottom = box.y + box.height
            yield Text(
                box.center, bottom + 11, nodes[box.name].output, size=_SMALL * 0.8, color="#3355aa", has_halo=True
            )
