"""Automata as text for Graphviz."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from typing import Any

from returnn.compat.fsa.edge import Edge
from returnn.util.errors import UserError


class Store:
    """Draws an automaton: `fsa_to_dot_format`, then `save_to_file`. The lines of the drawing are `graph`."""

    def __init__(
        self, num_states: int, edges: Sequence[Edge], filename: str = "edges", path: str = "./tmp/",
        file_format: str = "svg",
    ) -> None:  # fmt: skip
        """
        :param num_states: number of states
        :param edges: between them
        :param filename: without its ending
        :param path: folder
        :param file_format: "dot", or what the program `dot` can write
        """
        self.num_states = num_states
        self.edges = list(edges)
        self.filename = filename
        self.path = path
        self.file_format = file_format
        self.graph: list[str] = []

    def fsa_to_dot_format(self) -> None:
        """Makes the lines of the drawing."""
        self.graph = []
        self.add_nodes(self.graph, self.num_states)
        self.add_edges(self.graph, self.edges)

    @staticmethod
    def add_nodes(graph: list[str], num_states: int) -> None:
        """Adds a node per state, the last one with a double circle."""
        for state in range(num_states):
            shape = "doublecircle" if state == num_states - 1 else "circle"
            graph.append(f"{state} [shape={shape}]")

    @staticmethod
    def add_edges(graph: list[str], edges: Sequence[Edge]) -> None:
        """Adds an arrow per edge."""
        for edge, label in zip(edges, Store.label_conversion(edges), strict=True):
            graph.append(f'{edge.source_state_idx} -> {edge.target_state_idx} [label="{label}"]')

    @staticmethod
    def label_conversion(edges: Sequence[Edge]) -> list[str]:
        """:return: texts for the edges: label, and weight if there is one"""
        return [_quoted(edge.label) + (f" / {edge.weight:.3g}" if edge.weight else "") for edge in edges]

    def save_to_file(self) -> None:
        """
        Writes the drawing into the folder.

        :raises UserError: if the program `dot` is needed and missing
        """
        os.makedirs(self.path, exist_ok=True)
        target = os.path.join(self.path, f"{self.filename}.{self.file_format}")
        text = "\n".join(["digraph fsa {", "rankdir=LR", *self.graph, "}", ""])
        if self.file_format == "dot":
            with open(target, "w", encoding="utf8") as file:
                file.write(text)
            return
        command = ["dot", f"-T{self.file_format}", "-o", target]
        try:
            subprocess.run(command, input=text, text=True, check=True)
        except FileNotFoundError as exc:
            raise UserError(
                "there is no program 'dot' (package graphviz).\n  file_format='dot' writes its text instead."
            ) from exc


def _quoted(label: Any) -> str:
    return str(label).replace("\\", "\\\\").replace('"', '\\"')
