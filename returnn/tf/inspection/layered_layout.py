"""
Where the boxes of a drawing go: in layers from top to bottom, so that edges point down; boxes can have boxes inside.

After Sugiyama et al. 1981, "Methods for visual understanding of hierarchical system structures": rank the boxes by the
longest way to them, give long edges a place in each rank that they cross, order each rank by the mean of the
neighbours, and at last move boxes close to their neighbours, without changing the order. An edge from outside enters a
box through a port at its top. Edges to the next time step go upwards, in lanes of their own on the right.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

Point = tuple[float, float]

_GAP_X, _GAP_Y = 24.0, 46.0
_PADDING, _HEADER = 16.0, 40.0
_NUM_SWEEPS = 12
_DUMMY_WIDTH = 8.0
_LANE = 11.0


@dataclass
class Box:
    """A box. Without boxes inside, its size is given; otherwise it follows from them."""

    name: str
    width: float
    height: float
    children: list[Box] = field(default_factory=list)
    x: float = 0.0  # left, absolute after `lay_out`
    y: float = 0.0  # top

    @property
    def center(self) -> float:
        """Of the width."""
        return self.x + self.width / 2

    def walk(self) -> Iterator[Box]:
        """:return: the box and all inside of it, outer ones first"""
        yield self
        for child in self.children:
            yield from child.walk()


@dataclass(frozen=True)
class Edge:
    """From one box to another one, by their names."""

    source: str
    target: str
    is_back: bool = False  # does not count for the ranks, as it goes to the next time step

    def __str__(self) -> str:
        return f"{self.source} -> {self.target}"


@dataclass
class Layout:
    """The result: the boxes have places now, and each edge has the points that it goes through (back: has corners)."""

    root: Box
    routes: dict[Edge, list[Point]] = field(default_factory=dict)


def lay_out(root: Box, edges: Sequence[Edge]) -> Layout:
    """
    :param root: has all boxes inside; they get their places
    :param edges: between boxes anywhere in it
    """
    parents = {child.name: box for box in root.walk() for child in box.children}
    inside = _Inside()
    for edge in edges:
        inside.add(edge, parents)
    _place_inside(root, inside)
    _make_absolute(root, inside.bends)
    boxes = {box.name: box for box in root.walk()}
    layout = Layout(root)
    for edge in edges:
        if not edge.is_back:
            source, target = boxes[edge.source], boxes[edge.target]
            middle = [point for pair in inside.ways[edge] for point in inside.bends.get(pair, [])]
            layout.routes[edge] = [(source.center, source.y + source.height), *middle, (target.center, target.y)]
    for name, back_edges in inside.back.items():
        layout.routes.update(_routes_in_lanes(boxes, boxes[name], back_edges))
    return layout


@dataclass
class _Inside:
    """What is drawn inside of each box, beside boxes."""

    pairs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)  # box -> edges between its parts
    back: dict[str, list[Edge]] = field(default_factory=dict)  # box -> edges in its lanes
    ways: dict[Edge, list[tuple[str, str]]] = field(default_factory=dict)  # the pairs that an edge consists of
    bends: dict[tuple[str, str], list[Point]] = field(default_factory=dict)  # pair -> points between its ends

    def add(self, edge: Edge, parents: dict[str, Box]) -> None:
        """Sees to it that there is room for the edge."""
        sources = _ancestors(parents, edge.source)[::-1]
        targets = _ancestors(parents, edge.target)[::-1]
        depth = 0  # of the innermost box around both ends
        while depth + 2 < min(len(sources), len(targets)) and sources[depth + 1] == targets[depth + 1]:
            depth += 1
        if edge.is_back:
            self.back.setdefault(sources[depth], []).append(edge)
            return
        ends = [(targets[depth], (sources[depth + 1], targets[depth + 1]))]
        for outer, inner in itertools.pairwise(targets[depth + 1 :]):
            ends.append((outer, (_port(edge.source), inner)))
        self.ways[edge] = [pair for _, pair in ends]
        for container, pair in ends:
            pairs = self.pairs.setdefault(container, [])
            if pair not in pairs and pair[0] != pair[1]:
                pairs.append(pair)


def _port(source: str) -> str:
    return f"\n{source}"


def _is_port(name: str) -> bool:
    return name.startswith("\n")


def _routes_in_lanes(boxes: dict[str, Box], container: Box, edges: Sequence[Edge]) -> dict[Edge, list[Point]]:
    """:return: the ways of edges to the next time step, which have corners"""
    right = container.x + container.width - _LANE * len(edges)
    routes = {}
    for i, edge in enumerate(sorted(edges, key=lambda e: abs(boxes[e.source].y - boxes[e.target].y))):
        source, target, x = boxes[edge.source], boxes[edge.target], right + i * _LANE
        start = (source.x + source.width, source.y + source.height * 2 / 3)
        end = (target.x + target.width, target.y + target.height / 3)
        routes[edge] = [start, (x, start[1]), (x, end[1]), end]
    return routes


def _ancestors(parents: dict[str, Box], name: str) -> list[str]:
    """:return: the box and those around it, the outermost one last"""
    found = [name]
    while found[-1] in parents:
        found.append(parents[found[-1]].name)
    return found


# One container.


def _place_inside(box: Box, inside: _Inside) -> None:
    """Places what is inside, relative to the box, and sets the size of the box."""
    if not box.children:
        return
    for child in box.children:
        _place_inside(child, inside)
    pairs = inside.pairs.get(box.name, [])
    ports = list(dict.fromkeys(source for source, _ in pairs if _is_port(source)))
    rank_of, pairs = _ranks([*ports, *(child.name for child in box.children)], pairs)
    widths = {**dict.fromkeys(ports, _DUMMY_WIDTH), **{child.name: child.width for child in box.children}}
    cells, links, chains = _with_dummies(widths, rank_of, pairs)
    rows = _rows(cells, rank_of_cell={name: rank for name, (rank, _) in cells.items()}, links=links)
    x_of = _columns(rows, cells, links)
    y_of, height = _heights(rows, {child.name: child.height for child in box.children})
    left = min(x_of[name] - width / 2 for name, (_, width) in cells.items()) - _PADDING
    for child in box.children:
        child.x, child.y = x_of[child.name] - child.width / 2 - left, y_of[child.name]
    for pair, dummies in chains.items():
        port = [(x_of[pair[0]] - left, _PADDING / 2)] if _is_port(pair[0]) else []
        inside.bends[pair] = [*port, *((x_of[name] - left, y_of[name]) for name in dummies)]
    right = max(x_of[name] + width / 2 for name, (_, width) in cells.items()) + _PADDING
    box.width = max(box.width, right - left) + _LANE * len(inside.back.get(box.name, []))
    box.height = height


def _heights(rows: Sequence[Sequence[str]], height_of: dict[str, float]) -> tuple[dict[str, float], float]:
    """:return: top of each box, and middle of each other cell; height of all"""
    y, y_of = _HEADER, {}
    for row in rows:
        height = max((height_of.get(name, 0.0) for name in row), default=0.0)
        for name in row:
            y_of[name] = y + (height - height_of.get(name, 0.0)) / 2
        y += height + _GAP_Y
    return y_of, y - _GAP_Y + _PADDING


def _ranks(names: Sequence[str], pairs: Sequence[tuple[str, str]]) -> tuple[dict[str, int], list[tuple[str, str]]]:
    """:return: row of each box; and the edges, turned around where they would close a circle"""
    targets = {name: [b for a, b in pairs if a == name] for name in names}
    order: list[str] = []
    state: dict[str, int] = {}
    backward: set[tuple[str, str]] = set()
    for start in names:
        stack = [(start, iter(targets[start]))] if start not in state else []
        state.setdefault(start, 1)
        while stack:
            name, rest = stack[-1]
            following = next(rest, None)
            if following is None:
                state[name] = 2
                order.append(name)
                stack.pop()
            elif state.get(following) == 1:
                backward.add((name, following))
            elif following not in state:
                state[following] = 1
                stack.append((following, iter(targets[following])))
    forward = [pair for pair in pairs if pair not in backward]
    rank_of = dict.fromkeys(names, 0)
    sources: dict[str, list[str]] = {name: [] for name in names}
    for a, b in forward:
        sources[b].append(a)
    for name in reversed(order):
        rank_of[name] = max((rank_of[a] + 1 for a in sources[name]), default=0)
    return rank_of, forward


def _with_dummies(
    widths: dict[str, float], rank_of: dict[str, int], pairs: Sequence[tuple[str, str]]
) -> tuple[dict[str, tuple[int, float]], list[tuple[str, str]], dict[tuple[str, str], list[str]]]:
    """:return: row and width of each cell; links between neighbouring rows; the cells that long edges go through"""
    cells = {name: (rank_of[name], width) for name, width in widths.items()}
    links, chains = [], {}
    for source, target in pairs:
        dummies = [f"{source}\n{target}\n{rank}" for rank in range(rank_of[source] + 1, rank_of[target])]
        cells.update({name: (rank_of[source] + 1 + i, _DUMMY_WIDTH) for i, name in enumerate(dummies)})
        chains[source, target] = dummies
        way = [source, *dummies, target]
        links += list(itertools.pairwise(way))
    return cells, links, chains


def _rows(cells: Iterable[str], *, rank_of_cell: dict[str, int], links: Sequence[tuple[str, str]]) -> list[list[str]]:
    """:return: the cells of each row, in an order with few crossings"""
    rows: list[list[str]] = [[] for _ in range(max(rank_of_cell.values()) + 1)]
    for name in cells:
        rows[rank_of_cell[name]].append(name)
    above, below = _neighbours(cells, links)
    for sweep in range(_NUM_SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        place = {name: i for row in rows for i, name in enumerate(row)}
        for row in rows if sweep % 2 == 0 else reversed(rows):
            row.sort(key=lambda name: _mean([place[n] for n in neighbours[name]], default=place[name]))
            place.update({name: i for i, name in enumerate(row)})
    return rows


def _columns(
    rows: Sequence[Sequence[str]], cells: dict[str, tuple[int, float]], links: Sequence[tuple[str, str]]
) -> dict[str, float]:
    """:return: center of each cell"""
    above, below = _neighbours(cells, links)
    x_of: dict[str, float] = {}
    for row in rows:
        offsets = _offsets(row, cells)
        middle = (offsets[0] + offsets[-1]) / 2
        x_of.update({name: offset - middle for name, offset in zip(row, offsets, strict=True)})
    for sweep in range(_NUM_SWEEPS):
        neighbours = above if sweep % 2 == 0 else below
        for row in rows if sweep % 2 == 0 else reversed(rows):
            wanted = [_mean([x_of[n] for n in neighbours[name]], default=x_of[name]) for name in row]
            x_of.update(zip(row, _closest_in_order(wanted, _offsets(row, cells)), strict=True))
    return x_of


def _offsets(row: Sequence[str], cells: dict[str, tuple[int, float]]) -> list[float]:
    """:return: centers, if the cells stand side by side"""
    offsets, x = [], 0.0
    for name in row:
        width = cells[name][1]
        offsets.append(x + width / 2)
        x += width + _GAP_X
    return offsets


def _closest_in_order(wanted: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """:return: places as close as possible to the wanted ones, at least as far from each other as the offsets are"""
    blocks: list[tuple[float, int]] = []  # (mean, number of cells), ascending: pool adjacent violators
    for value in (w - o for w, o in zip(wanted, offsets, strict=True)):
        mean, count = value, 1
        while blocks and blocks[-1][0] > mean:
            last_mean, last_count = blocks.pop()
            mean = (mean * count + last_mean * last_count) / (count + last_count)
            count += last_count
        blocks.append((mean, count))
    shifts = [mean for mean, count in blocks for _ in range(count)]
    return [shift + offset for shift, offset in zip(shifts, offsets, strict=True)]


def _neighbours(
    cells: Iterable[str], links: Sequence[tuple[str, str]]
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    above: dict[str, list[str]] = {name: [] for name in cells}
    below: dict[str, list[str]] = {name: [] for name in above}
    for source, target in links:
        above[target].append(source)
        below[source].append(target)
    return above, below


def _mean(values: Sequence[float], *, default: float) -> float:
    return sum(values) / len(values) if values else default


def _make_absolute(root: Box, bends: dict[tuple[str, str], list[Point]]) -> None:
    by_target: dict[str, list[tuple[str, str]]] = {}
    for pair in bends:
        by_target.setdefault(pair[1], []).append(pair)
    for box in root.walk():  # outer ones first
        for child in box.children:
            child.x += box.x
            child.y += box.y
            for pair in by_target.get(child.name, []):
                bends[pair] = [(x + box.x, y + box.y) for x, y in bends[pair]]
