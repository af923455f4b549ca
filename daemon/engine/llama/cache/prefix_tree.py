"""A prefix tree over token ids: who shares how much of a prompt, found in one walk along it.

Edges carry runs of tokens. Every node knows all that pass through it, so the walk meets each holder at the last token it shares.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, TypeVar

from daemon.engine.llama.cache.slots import common_prefix

H = TypeVar("H")


@dataclass(slots=True, eq=False)
class _Node(Generic[H]):
    edge: list[int]  # the tokens from the parent to here
    parent: _Node[H] | None
    holders: set[H] = field(default_factory=set)  # that end here or below
    children: dict[int, _Node[H]] = field(default_factory=dict)  # by the first token of their edge


class PrefixTree(Generic[H]):
    """One tree a key (the LoRA): what one holds is of no use to another. A holder has one place at a time."""

    def __init__(self) -> None:
        self._roots: dict[str | None, _Node[H]] = {}
        self._ends: dict[H, _Node[H]] = {}

    def put(self, key: str | None, tokens: list[int], holder: H) -> None:
        """Give the holder its place, and take it from the one before."""
        self.remove(holder)
        node = self._roots.setdefault(key, _Node([], None))
        node.holders.add(holder)
        depth = 0
        while depth < len(tokens):
            child = node.children.get(tokens[depth])
            if child is None:
                child = node.children[tokens[depth]] = _Node(tokens[depth:], node)
            shared = common_prefix(child.edge, tokens, depth)
            if shared < len(child.edge):
                child = _split(child, node, shared)
            child.holders.add(holder)
            node, depth = child, depth + shared
        self._ends[holder] = node

    def remove(self, holder: H) -> None:
        """Take out a holder; nothing happens if it has no place."""
        node = self._ends.pop(holder, None)
        while node is not None:
            parent = node.parent
            node.holders.discard(holder)
            if parent is not None and not node.holders:
                del parent.children[node.edge[0]]
            elif parent is not None and len(node.children) == 1:
                self._join(node)
            node = parent

    @property
    def nodes(self) -> int:
        """How many there are, without the roots."""
        found, open_ = 0, list(self._roots.values())
        while open_:
            children = open_.pop().children.values()
            found += len(children)
            open_ += children
        return found

    def find(self, key: str | None, tokens: list[int]) -> dict[H, int]:
        """How many leading tokens each holder shares with these; those that share none are left out."""
        shares: dict[H, int] = {}
        node, depth = self._roots.get(key), 0
        while node is not None and depth < len(tokens):
            node = node.children.get(tokens[depth])
            if node is None:
                break
            shared = common_prefix(node.edge, tokens, depth)
            depth += shared
            shares.update(dict.fromkeys(node.holders, depth))
            if shared < len(node.edge):
                break
        return shares

    def _join(self, node: _Node[H]) -> None:
        """Make one of a node and its only child, if nobody ends between them."""
        (child,) = node.children.values()
        if child.holders != node.holders:
            return
        node.edge, node.children = node.edge + child.edge, child.children
        for below in node.children.values():
            below.parent = node
        for holder in node.holders:
            if self._ends[holder] is child:
                self._ends[holder] = node


def _split(child: _Node[H], parent: _Node[H], at: int) -> _Node[H]:
    """Put a node into an edge; returns it."""
    upper = _Node(child.edge[:at], parent, set(child.holders), {child.edge[at]: child})
    child.edge, child.parent = child.edge[at:], upper
    parent.children[upper.edge[0]] = upper
    return upper
