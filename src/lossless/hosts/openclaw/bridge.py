"""What every call of the plugin stands on: the engine, the pipes, and what is known about the host."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.hosts.openclaw.peer import Peer
    from lossless.model.conversations import Session

#: Sessions whose budget and model are remembered; the oldest are forgotten.
_REMEMBERED = 1_000


@dataclass(frozen=True, slots=True)
class Host:
    """What the plugin says about the host that it runs in."""

    version: str = ""
    #: Whether there is a model that can be asked at any time.
    has_model: bool = False
    has_subagents: bool = False
    state_dir: str | None = None
    #: Whether the host lets the plugin add to system prompts; where not, the assembled prompt brings it along.
    adds_policy: bool = True


@dataclass(frozen=True, slots=True)
class Bridge:
    """The engine behind one plugin."""

    engine: Engine
    peer: Peer
    host: Host = field(default_factory=Host)
    budgets: Budgets = field(default_factory=lambda: Budgets())
    models: Models = field(default_factory=lambda: Models())
    #: What the first prompt of each session's turn has by our estimate, until it is over.
    sent: dict[str, int] = field(default_factory=dict)

    def sending(self, session: Session, estimated: int) -> None:
        """A prompt is about to be sent."""
        self.sent.setdefault(session.name, estimated)
        _forget_oldest(self.sent)


@dataclass(frozen=True, slots=True)
class Model:
    """The model of a session's turns: its name as `provider/model`, and how large its window is."""

    name: str | None = None
    window: int | None = None
    #: What counts as its window for as long as the host has named none: the budget of its prompts.
    budget: int | None = None


class Models:
    """The model of each session. Hosts name it in some calls; it holds for the others until they name another."""

    def __init__(self) -> None:
        self._known: dict[str, Model] = {}
        self._lock = threading.Lock()

    def of(self, session: Session, told: Model) -> Model:
        """The session's model, now that the host tells this about it."""
        with self._lock:
            known = self._known.get(session.name, Model())
            same = told.name in (None, known.name)
            found = Model(told.name or known.name, told.window or (known.window if same else None))
            self._known[session.name] = found
            _forget_oldest(self._known)
            return Model(found.name, found.window or told.budget)


def _forget_oldest(remembered: dict[str, Any]) -> None:
    while len(remembered) > _REMEMBERED:
        del remembered[next(iter(remembered))]


@dataclass(frozen=True, slots=True)
class Budget:
    """What a host gives to prompts, and what of it is taken by the frame that it puts around them."""

    window: int | None = None
    beside: int | None = None


class Budgets:
    """The budget of each session's turn.

    The host names what is left beside its system prompt when a turn begins, and the model's whole window from
    then on. The smallest of a turn holds for all of it, so that a prompt neither overflows nor changes on the way;
    what it lacks of the largest is the host's frame.
    """

    def __init__(self) -> None:
        self._smallest: dict[str, int] = {}
        #: The largest of this turn, and the one that holds: that of the turn before until a larger one is named.
        self._offered: dict[str, int] = {}
        self._largest: dict[str, int] = {}
        self._lock = threading.Lock()

    def begin(self, session: Session) -> None:
        """A turn begins."""
        with self._lock:
            self._smallest.pop(session.name, None)
            if (offered := self._offered.pop(session.name, None)) is not None:
                self._largest[session.name] = offered

    def of(self, session: Session, offered: int | None) -> Budget:
        """The budget of the turn, now that the host offers this."""
        with self._lock:
            if offered is not None:
                name = session.name
                self._smallest[name] = min(self._smallest.get(name, offered), offered)
                self._offered[name] = max(self._offered.get(name, offered), offered)
                self._largest[name] = max(self._largest.get(name, offered), offered)
                for remembered in (self._smallest, self._offered, self._largest):
                    _forget_oldest(remembered)
            window = self._largest.get(session.name)
            left = self._smallest.get(session.name, window)
            return Budget(window, None if window is None or left is None else window - left)
