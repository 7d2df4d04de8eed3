"""Nodes whose items have been replaced, or are more than are kept, until somebody has seen to them."""


class Replaced:
    """By node, the ids that were published; one task at a time sees to each node."""

    def __init__(self) -> None:
        self._ids: dict[str, list[set[str]]] = {}

    def note(self, node: str, ids: list[str]) -> bool:
        """Items of these ids, or of none, were published. True where nobody sees to the node yet."""
        is_first = node not in self._ids
        noted = self._ids.setdefault(node, [])
        if not noted:
            noted.append(set())
        noted[0].update(ids)
        return is_first

    def take(self, node: str) -> set[str] | None:
        """The ids that were noted since it was called last; None where nothing was."""
        noted = self._ids.get(node)
        return noted.pop() if noted else None

    def done(self, node: str) -> None:
        """Forget a node to which nobody sees any more."""
        self._ids.pop(node, None)
