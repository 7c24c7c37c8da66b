"""The looks that find a payload by its size: answers of tools, then whatever else is too large."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.files.document import TEXT_TYPES, answers, holds_only_words, spots, text_block
from lossless.files.kinds import shown_name
from lossless.files.recipe import JSON, TEXT, FromFile, Hole, Step, value_at
from lossless.files.references import raw_reference, tool_reference
from lossless.model.js_json import stringify
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from collections.abc import Callable

    from lossless.files.draft import Draft, Payload
    from lossless.files.recipe import Path

#: Answers of our own tools stay: a reference in place of what was just fetched would send the agent round in a circle.
_OWN_TOOLS = "lcm_"


@dataclass(frozen=True, slots=True)
class _Origin:
    """Whose payload it is: the answer of a tool, or something that a role said."""

    draft: Draft
    #: The tool's name, None when it is not known; not used for what was said.
    tool: str | None
    is_answer: bool

    def keep(self, text: str, *, is_json: bool = False) -> tuple[Payload, str]:
        """The payload and the reference to it."""
        ending, mime = (".json", "application/json") if is_json else (".txt", "text/plain")
        if self.is_answer:
            name = shown_name(self.tool, "tool-output").replace("/", "_") + ending
            payload = self.draft.keep_text(text, name, mime, "large_tool_result")
            return payload, tool_reference(payload.file_id, self.tool, len(payload.data), payload.summary)
        role = self.draft.message.role
        payload = self.draft.keep_text(text, f"raw-{role}-payload{ending}", mime, "large_raw_message")
        return payload, raw_reference(payload.file_id, role, len(payload.data), payload.summary)


def answers_leave(draft: Draft, tool_of: Callable[[str], str | None] | None) -> None:
    """Answers of tools from the threshold on leave; ids, names and error marks stay."""
    for answer in list(answers(draft.document, draft.message)):
        if _left(draft, answer.path, answer.value) < draft.threshold:
            continue
        tool = answer.tool
        if tool is None and tool_of is not None and answer.call_id is not None:
            tool = tool_of(answer.call_id)
        if tool is not None and _OWN_TOOLS in tool:
            continue
        _shrink(_Origin(draft, tool, True), answer.path, answer.value)
        if draft.message.role == "tool" and len(answer.path) > 2 and draft.format in ("openclaw", "plain"):
            _mark(draft, answer.path[:-1])


def _mark(draft: Draft, path: Path) -> None:
    """Say of a block that its answer is a reference: in these formats it would not count as words otherwise."""
    block = value_at(draft.document, path)
    draft.put(path, block | {"toolOutputExternalized": True}, Step(path, (), block), is_whole=False)


def the_rest_leaves(draft: Draft) -> None:
    """Whatever else was said and is too large leaves. Instructions of the system stay, whatever their size."""
    if draft.message.role in ("tool", "system"):
        return
    origin = _Origin(draft, None, False)
    if holds_only_words(draft.document):
        key = "content" if "content" in draft.document else "output"
        value = draft.document.get(key)
        if value is not None and _left(draft, (key,), value) >= draft.threshold:
            _shrink(origin, (key,), value)
        return
    for spot in list(spots(draft.document, draft.message.role)):
        if spot.is_file or spot.in_result or draft.tokens_left(spot.path, spot.value) < draft.threshold:
            continue
        payload, reference = origin.keep(spot.value)
        draft.put_reference(spot.path, reference, payload)


def _shrink(origin: _Origin, path: Path, value: Any) -> None:
    """Put a value into files: a text whole, of a list first each large text, then what is left."""
    draft = origin.draft
    if isinstance(value, str):
        payload, reference = origin.keep(value)
        draft.put_reference(path, reference, payload)
        return
    if not isinstance(value, list):
        payload, reference = origin.keep(_json(value), is_json=True)
        draft.put(path, reference, Step(path, (Hole((), (FromFile(payload.file_id, JSON),)),)))
        return
    for number, item in enumerate(value):
        text, inner = _text_in(item)
        place = (*path, number, *inner)
        if text is not None and draft.tokens_left(place, text) >= draft.threshold:
            payload, reference = origin.keep(text)
            draft.put_reference(place, reference, payload)
    if _left(draft, path, value_at(draft.document, path)) >= draft.threshold:
        _collapse(origin, path)


def _collapse(origin: _Origin, path: Path) -> None:
    """Put all blocks of a list that are no references into one file, and one reference into their place."""
    draft = origin.draft
    items: list[Any] = value_at(draft.document, path)
    rest = [number for number in range(len(items)) if not draft.is_done((*path, number))]
    shown = [item for number, item in enumerate(items) if draft.is_done((*path, number))]
    texts = [_text_in(items[number]) for number in rest]
    frame = list(items)
    holes: list[Hole] = []
    if all(text is not None for text, _ in texts):
        payload, reference = origin.keep("\n".join(text or "" for text, _ in texts))
        at = 0
        for number, (text, inner) in zip(rest, texts, strict=True):
            end = at + len(text or "")
            frame[number] = items[number] | {"text": ""} if inner else ""
            holes.append(Hole((number, *inner), (FromFile(payload.file_id, TEXT, at, end),)))
            at = end + 1
    else:
        payload, reference = origin.keep(_json([items[number] for number in rest]), is_json=True)
        for place, number in enumerate(rest):
            frame[number] = None
            holes.append(Hole((number,), (FromFile(payload.file_id, JSON, place),)))
    shown.append(text_block(reference, draft.format, draft.message.role))
    draft.put(path, shown, Step(path, tuple(holes), frame))


def _left(draft: Draft, path: Path, value: Any) -> int:
    """The tokens at a path without those of references."""
    if isinstance(value, str):
        return draft.tokens_left(path, value)
    if not isinstance(value, list):
        return 0 if draft.is_done(path) else estimate_tokens(stringify(value))
    total = 0
    for number, item in enumerate(value):
        text, inner = _text_in(item)
        place = (*path, number)
        if text is not None:
            total += draft.tokens_left((*place, *inner), text)
        elif not draft.is_done(place):
            total += estimate_tokens(stringify(item))
    return total


def _text_in(item: Any) -> tuple[str | None, Path]:
    """The text of an item of a list of blocks, and where in the item it stands; None when it is no text."""
    if isinstance(item, str):
        return item, ()
    if isinstance(item, dict) and item.get("type") in TEXT_TYPES and isinstance(item.get("text"), str):
        return item["text"], ("text",)
    return None, ()


def _json(value: Any) -> str:
    """JSON that gives the same value again; a surrogate without its other half is written as an escape."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(value, separators=(",", ":"))
    return text
