"""What all hosts share: a conversation that goes on, and a window of it that is shown now and then."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from tests.hosts_fuzz.calls import Shown, shown, sync

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.hosts_fuzz.calls import Call
    from tests.hosts_fuzz.world import Event, World


class Host:
    """A host that shows its whole list; others change what is shown, or when."""

    kind: ClassVar[str]
    #: Whether its messages have entry ids, and how often tools are used: None means at random.
    with_ids: ClassVar[bool | None] = None
    tools: ClassVar[float | None] = None
    #: The formats that it may write; only OpenAI's has system messages between others.
    formats: ClassVar[tuple[str, ...]] = ("openai-chat", "anthropic", "openclaw")
    #: Several windows on one session: they may become conversations of their own.
    tabs: ClassVar[bool] = False

    def __init__(self, world: World) -> None:
        self.world, self.random = world, world.random
        self.ids = world.style.with_ids

    def calls(self) -> Iterator[Call]:
        """The life of the host: turns, each shown before the answer, after it, or both."""
        self.begin()
        for turn in range(self.random.randint(3, 8)):
            self.before(turn)
            self.world.user(self.next_words())
            often = self.random.random()
            if often < 0.7:
                yield sync(self.view(self.world.path))
            self.world.reply()
            if often > 0.4:
                yield sync(self.view(self.world.path))

    def begin(self) -> None:
        if self.random.random() < 0.6:
            self.world.system()

    def before(self, turn: int) -> None:
        """What it does to its own list before the next turn."""

    def next_words(self) -> str | None:
        """What its user says next; None for anything."""
        return None

    def view(self, path: list[Event]) -> list[Shown]:
        """The window."""
        return self.plain(path)

    def plain(self, path: list[Event]) -> list[Shown]:
        return [shown(event, with_id=self.ids) for event in path]


def head_of(window: list[Shown]) -> int:
    """How many messages at the head are the system prompt."""
    return 1 if window and window[0].words.role == "system" else 0


def newest_user(window: list[Shown]) -> int:
    """The place of the newest user message."""
    return max(place for place, one in enumerate(window) if one.words.role == "user")
