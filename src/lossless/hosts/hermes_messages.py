"""Hermes joins neighbouring messages of one role: our own texts in them are split off again.

What two prompts differ by teaches the tokenizer's factor.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any

from lossless.formats.synthetic import PINNED_TEXT
from lossless.model.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from lossless.engine import Engine
    from lossless.model.conversations import Session

JoinedMessage = dict[str, Any]
#: How hosts join texts, and where a text of ours may end; so many places are tried.
_JOINT = "\n\n"
_ENDS = re.compile(r"\n\n|\Z")
_MARKS = ("<", "[", PINNED_TEXT[:6])
_SUMMARY, _SUMMARY_ENDS = "<summary ", re.compile(r"(?<=</summary>)(?:\n\n|\Z)")
_TRIES = 64


def split_joined(engine: Engine, session: Session, window: Iterable[JoinedMessage]) -> list[JoinedMessage]:
    """The window with our own texts, and what was joined to them, as messages of their own."""
    found = engine.browse.find(session)
    if found is None:
        return list(window)
    is_ours = partial(engine.host.identify_synthetic, found)
    return [part for message in window for part in _parts(message, is_ours)]


def _parts(message: JoinedMessage, is_ours: Callable[[Message], str | None]) -> Iterator[JoinedMessage]:
    text = message.get("content")
    if message.get("role") != "user" or not isinstance(text, str):
        yield message
        return
    rest = text
    while rest and (end := _end_of_ours(rest, is_ours)):
        yield {"role": "user", "content": rest[:end]}
        rest = rest[end + len(_JOINT) :]
    if rest or not text:
        yield message if rest == text else message | {"content": rest}


def _end_of_ours(text: str, is_ours: Callable[[Message], str | None]) -> int | None:
    """Where the text of ours ends that this text begins with; None when it begins with none."""
    if not text.startswith(_MARKS):
        return None
    ends = (_SUMMARY_ENDS if text.startswith(_SUMMARY) else _ENDS).finditer(text)
    places = (found.start() for found in islice(ends, _TRIES))
    return next((end for end in places if is_ours(Message("user", text[:end], tokens=0)) is not None), None)


#: A prompt must have grown by so many tokens to tell anything.
_LEAST = 500
#: The last prompt as the archive keeps it: its session, its size by our estimate, and by the provider's count.
_KEPT = re.compile(r"([0-9a-f]{16}) ([0-9]{1,9}) ([0-9]{1,9})")


@dataclass(slots=True)
class PromptGrowth:
    """Two prompts of one session with the same frame: what was added, by our estimate and by the provider's count."""

    model: str | None = None
    estimated: int = 0
    reported: int = 0

    def seen(self, estimated: int, reported: int) -> tuple[int, int] | None:
        """What has been added since the last prompt that told something; None when that is too little, or less."""
        added, counted = estimated - self.estimated, reported - self.reported
        is_first = not self.reported
        if 0 <= added < _LEAST and not is_first:
            return None
        self.estimated, self.reported = estimated, reported
        return None if is_first or added < _LEAST or counted <= 0 else (added, counted)

    def learn(self, engine: Engine, session: Session, estimated: int, reported: int | None) -> None:
        """Let the archive know what a prompt tells about its model's tokenizer.

        The last prompt is kept there, too, for hosts that start a process for each turn.
        """
        if not self.model or not reported:
            return
        place = blake2b(str(session.key).encode(), digest_size=8).hexdigest()
        if not self.reported:
            kept = _KEPT.fullmatch(engine.host.last_prompt(self.model))
            if kept is not None and kept[1] == place:
                self.estimated, self.reported = int(kept[2]), int(kept[3])
        before = self.reported
        if grown := self.seen(estimated, reported):
            engine.host.learn(self.model, *grown)
        if self.reported != before:
            engine.host.keep_last_prompt(self.model, f"{place} {self.estimated} {self.reported}")
