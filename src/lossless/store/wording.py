"""A wording of a message as columns: how it is stored as a version, and when it is the beginning of another one."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lossless.model.identity import words_digest
from lossless.store import rows
from lossless.store.rows import PartRow
from lossless.store.skeleton import squeeze, to_json, unsqueeze

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lossless.model.messages import Json, Message, Role


@dataclass(frozen=True, slots=True)
class Wording:
    """A message as columns, its role aside."""

    content: str
    parts: tuple[PartRow, ...]
    skeleton: bytes | None
    format: str | None
    event_key: str | None
    tokens: int

    @classmethod
    def of(cls, message: Message, notes: Mapping[int, Mapping[str, Json]] | None = None) -> Wording:
        """The columns of a message, with what is noted about the payloads that have left it."""
        packed = rows.pack(message)
        parts = rows.noted(packed.parts, message.role, notes) if notes else packed.parts
        format_ = None if message.format == "plain" else message.format
        return cls(packed.content, parts, packed.skeleton, format_, message.event_key, message.tokens)

    def message(self, role: Role) -> Message:
        """The message; ValueError when it cannot be rebuilt."""
        return rows.unpack(
            role, self.content, self.tokens, self.parts, self.skeleton, self.format, self.event_key
        )  # fmt: skip

    def cut(self, length: int, tokens: int) -> Wording:
        """The same with the beginning of its text only."""
        content = self.content[:length]
        parts = tuple(replace(part, text_content=content) if self._is_whole(part) else part for part in self.parts)
        return replace(self, content=content, parts=parts, tokens=tokens)

    def _is_whole(self, part: PartRow) -> bool:
        return part.text_content == self.content

    def begins(self, other: Wording, role: Role) -> bool:
        """Whether `other` with a shorter text is this wording: nothing but what are no words is different."""
        if len(self.content) >= len(other.content) or not other.content.startswith(self.content):
            return False
        if self._outline() != other._outline():
            return False
        mine, cut = self.message(role), other.cut(len(self.content), self.tokens).message(role)
        return words_digest(mine) == words_digest(cut) and _content(mine) == _content(cut)

    @property
    def shape(self) -> Json:
        """Where the text stands in the original; wordings of one shape and outline are cut alike."""
        shape: Json = None if self.skeleton is None else json.loads(unsqueeze(self.skeleton)).get("content")
        return shape

    def _outline(self) -> list[tuple[object, ...]]:
        return [
            (part.ordinal, part.part_type, True if self._is_whole(part) else part.text_content, part.tool_call_id,
             part.tool_name, part.tool_input, part.tool_output)
            for part in self.parts
        ]  # fmt: skip

    def body(self) -> bytes:
        """All of it but the tokens, as it is stored."""
        parts = [
            [part.ordinal, part.part_type, True if self._is_whole(part) else part.text_content, part.tool_call_id,
             part.tool_name, part.tool_input, part.tool_output, part.metadata]
            for part in self.parts
        ]  # fmt: skip
        skeleton = None if self.skeleton is None else unsqueeze(self.skeleton)
        return squeeze(to_json([self.content, self.format, self.event_key, skeleton, *parts]))

    @classmethod
    def from_body(cls, body: bytes, tokens: int) -> Wording:
        """What `body` was made of; ValueError when it is damaged."""
        try:
            content, format_, event_key, skeleton, *parts = json.loads(unsqueeze(body))
            rows_ = tuple(
                PartRow(n, type_, content if text is True else text, *more) for n, type_, text, *more in parts
            )
            return cls(content, rows_, None if skeleton is None else squeeze(skeleton), format_, event_key, tokens)
        except (TypeError, UnicodeDecodeError) as error:
            raise ValueError(f"a damaged version: {error}") from error

    @property
    def recipe(self) -> Json:
        """How the original is made again, when payloads have left it."""
        for part in self.parts:
            if '"restore":' in part.metadata:
                recipe: Json = json.loads(part.metadata).get("restore")
                return recipe
        return None


def _content(message: Message) -> Json:
    return None if message.body is None else message.body.get("content")
