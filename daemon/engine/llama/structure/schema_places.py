"""The schemas that hold for one and the same value, through references too.

A reference may lead back to itself without a step into the value: no validator ever gets to the end of such a one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from daemon.records import JSON, JSONObject


class SameValue:
    """Looks through one schema's references; what was found to end is not looked through again.

    Args:
        target: finds what a `$ref` points to.
    """

    def __init__(self, target: Callable[[JSON], JSON]) -> None:
        self._target = target
        self._ends: set[int] = set()

    def leads_back(self, schema: JSON) -> bool:
        """Whether this schema, or one that holds for the same value, holds for it again and again."""
        if not isinstance(schema, dict):
            return False
        path = [(schema, self._next(schema))]
        above = {id(schema)}
        while path:
            current, others = path[-1]
            following = next(others, None)
            if following is None:
                path.pop()
                above.discard(id(current))
                self._ends.add(id(current))
            elif id(following) in above:
                return True
            elif id(following) not in self._ends:
                path.append((following, self._next(following)))
                above.add(id(following))
        return False

    def all_of(self, schema: JSONObject) -> Iterator[JSONObject]:
        """This schema, and all that hold for the same value or may hold for it."""
        seen: set[int] = set()
        waiting = [schema]
        while waiting:
            current = waiting.pop()
            if id(current) not in seen:
                seen.add(id(current))
                waiting += self._next(current)
                yield current

    def _next(self, schema: JSONObject) -> Iterator[JSONObject]:
        """The schemas that are named in this one's place."""
        found: list[JSON] = [self._target(schema["$ref"])] if "$ref" in schema else []
        for keyword in ("anyOf", "oneOf", "allOf"):
            several = schema.get(keyword)
            found += several if isinstance(several, list) else []
        return (each for each in found if isinstance(each, dict))
