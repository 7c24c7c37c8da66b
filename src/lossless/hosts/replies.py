"""What clients hand out: replies and events as objects, seen as plain JSON and given back as they came."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.exchange.turn import Turn


def plain(value: Any) -> Any:
    """JSON values for whatever a client takes or gives; what is no JSON (a sentinel, a handle) is left out."""
    if isinstance(value, dict):
        made = {str(key): plain(item) for key, item in value.items()}
        return {key: item for key, item in made.items() if item is not _NOTHING}
    if isinstance(value, list | tuple):
        return [item for item in map(plain, value) if item is not _NOTHING]
    if value is None or isinstance(value, str | int | float | bool):
        return value
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        return dump(mode="json", exclude_unset=True, warnings=False)
    return _NOTHING


_NOTHING = object()


def rebuilt(result: Any, reply: Any, final: Any) -> Any:
    """The client's own object when nothing changed, else one of its kind."""
    return result if final is reply else type(result).construct(**final)


class Events:
    """A turn's events as the client's objects."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self.is_over = False
        self._kinds: dict[object, Any] = {}
        #: Events that are not shown yet, by the identity of their plain form, which each entry keeps alive.
        self._held: dict[int, tuple[Any, Any]] = {}

    def feed(self, event: Any) -> list[Any]:
        """The objects to hand out for one that came."""
        raw = plain(event)
        if not isinstance(raw, dict):
            return [event]
        self._kinds[raw.get("type")] = type(event)
        self._held[id(raw)] = (raw, event)
        shown = [self._object(one) for one in self._turn.feed(raw)]
        if shown:
            del self._held[id(raw)]
        return shown

    def end(self) -> list[Any] | None:
        """The last objects; None when there is another round."""
        last = self._turn.end()
        made = None if last is None else [self._object(raw) for raw in last]
        self._held.clear()
        self.is_over = made is not None
        return made

    def broken(self) -> None:
        """Keep what had come, if the stream is not over."""
        if not self.is_over:
            self.is_over = True
            self._turn.broken()

    def _object(self, raw: Any) -> Any:
        held = self._held.get(id(raw))
        return held[1] if held else self._kinds[raw.get("type")].construct(**raw)
