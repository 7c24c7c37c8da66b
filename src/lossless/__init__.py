"""Lossless Context Management for AI agents: every message kept, the context small, any detail back.

import lossless

with lossless.open("lcm.db") as engine:
    session = lossless.Session(key="agent:main:main")
    engine.append(session, [{"role": "user", "content": "hello"}])
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.async_engine import AsyncEngine, open_async
    from lossless.engine import Engine, TurnReport
    from lossless.engine import open_engine as open
    from lossless.errors import LosslessError
    from lossless.hosts.chat import chat
    from lossless.ingest.run import AppendReport
    from lossless.model.conversations import Session
    from lossless.model.messages import Incoming, Message
    from lossless.settings import Settings

__version__ = "0.1.0"

#: Public names and where they live; loaded on first use, so that importing the package costs nothing.
_PUBLIC = {
    "AppendReport": ("lossless.ingest.run", "AppendReport"),
    "AsyncEngine": ("lossless.async_engine", "AsyncEngine"),
    "Engine": ("lossless.engine", "Engine"),
    "Incoming": ("lossless.model.messages", "Incoming"),
    "LosslessError": ("lossless.errors", "LosslessError"),
    "Message": ("lossless.model.messages", "Message"),
    "Session": ("lossless.model.conversations", "Session"),
    "Settings": ("lossless.settings", "Settings"),
    "TurnReport": ("lossless.engine", "TurnReport"),
    "chat": ("lossless.hosts.chat", "chat"),
    "open_async": ("lossless.async_engine", "open_async"),
    "open": ("lossless.engine", "open_engine"),
}

__all__ = [
    "AppendReport",
    "AsyncEngine",
    "Engine",
    "Incoming",
    "LosslessError",
    "Message",
    "Session",
    "Settings",
    "TurnReport",
    "__version__",
    "chat",
    "open",
    "open_async",
]


def __getattr__(name: str) -> Any:
    try:
        module, attribute = _PUBLIC[name]
    except KeyError:
        raise AttributeError(f"module 'lossless' has no attribute {name!r}") from None
    value = getattr(import_module(module), attribute)
    globals()[name] = value
    return value
