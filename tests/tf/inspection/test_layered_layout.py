"""Boxes of a drawing do not overlap, stay inside of the boxes around them, and edges point down."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from returnn.tf.inspection.layered_layout import Box, Edge, lay_out


@st.composite
def graphs(draw):
    """Boxes inside of boxes, and edges from each one to later ones, or back to earlier ones."""
    leaves, top = [], []
    for i in range(draw(st.integers(1, 5))):
        names = [f"{i}/{k}" for k in range(draw(st.integers(0, 5)))]
        top.append(Box(str(i), 50, 30, children=[Box(name, 20 + 7 * k, 20) for k, name in enumerate(names)]))
        leaves += names or [str(i)]
    ends = st.tuples(st.integers(0, len(leaves) - 1), st.integers(0, len(leaves) - 1))
    pairs = draw(st.lists(ends, max_size=20, unique=True))
    edges = [Edge(leaves[a], leaves[b], is_back=a >= b) for a, b in pairs]
    return Box("", 0, 0, children=top), edges


def overlap(a, b):
    return a.x < b.x + b.width and b.x < a.x + a.width and a.y < b.y + b.height and b.y < a.y + a.height


@settings(max_examples=60, deadline=None)
@given(graphs())
def test_boxes_have_their_places(graph):
    root, edges = graph
    layout = lay_out(root, edges)
    for box in root.walk():
        for one, other in itertools.combinations(box.children, 2):
            assert not overlap(one, other)
        for child in box.children:
            assert box.x <= child.x
            assert child.x + child.width <= box.x + box.width + 1e-6
            assert box.y <= child.y
            assert child.y + child.height <= box.y + box.height
    boxes = {box.name: box for box in root.walk()}
    assert set(layout.routes) == set(edges)
    for edge, points in layout.routes.items():
        if edge.is_back:
            assert len(points) == 4
        else:
            assert points[0][1] == boxes[edge.source].y + boxes[edge.source].height
            assert points[-1][1] == boxes[edge.target].y
            assert points[0][1] < points[-1][1]
            assert [y for _, y in points] == sorted(y for _, y in points)


def test_a_long_edge_goes_around_the_boxes_between():
    root = Box("", 0, 0, children=[Box(name, 50, 20) for name in "abc"])
    layout = lay_out(root, [Edge("a", "b"), Edge("b", "c"), Edge("a", "c")])
    a, b, c = root.children
    assert a.y < b.y < c.y
    (x, _y) = layout.routes[Edge("a", "c")][1]
    assert not b.x <= x <= b.x + b.width
