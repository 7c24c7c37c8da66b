"""Messages for the model: rendered as text (summaries, pins, stubs), shortened, encoded, and measured in tokens."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime, tzinfo
from importlib.resources import files
from json.encoder import encode_basestring
from operator import is_
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless import formats
from lossless.files.document import tool_reference
from lossless.formats.reading import BLOB_CHARS, boundary_tokens, is_blob
from lossless.formats.synthetic import (
    PINNED_TEXT,
    attributes_text,
    correction_line,
    escape_markup,
    escape_synthetic_tags,
    has_synthetic_block,
    local_stamp,
    shortened_text,
)
from lossless.model.budget import message_budget_tokens
from lossless.model.context import framed_tokens
from lossless.model.js_json import hashed_utf8, is_encodable
from lossless.model.messages import File, Json, Message, Opaque, Part, Reasoning, Role, Text, ToolCall, ToolResult
from lossless.model.tokens import cut_to_tokens, estimate_tokens

if TYPE_CHECKING:
    from lossless.formats import EncodedMessage
    from lossless.model.records import StoredBrief
    from lossless.store.context import SourceChange


def summary_message(xml: str, changes: Sequence[SourceChange] = ()) -> Message:
    """A rendered summary as a user message, with a line about later changes to its messages."""
    return Message(role="user", content="\n".join([xml, *_corrections([changes])]))


def _corrections(changes: Sequence[Sequence[SourceChange]]) -> list[str]:
    return [correction_line(some) for some in changes if some]


def brief_covers(brief: StoredBrief, latest_seq: int | None, latest_at: datetime | None) -> bool:
    """Whether a brief replaces a summary whose newest message has this seq and time."""
    if brief.covered_message_seq is not None and latest_seq is not None:
        return latest_seq <= brief.covered_message_seq
    return brief.covered_latest_at is not None and latest_at is not None and latest_at <= brief.covered_latest_at


def focus_message(
    brief: StoredBrief, timezone: tzinfo = UTC, changes: Sequence[Sequence[SourceChange]] = ()
) -> Message:
    """The brief as a user message; prompt and content are escaped, so neither can end its element.

    `changes` concern the summaries that it replaces, one line each.
    """
    latest, seq = brief.covered_latest_at, brief.covered_message_seq
    attributes = {
        "id": brief.id,
        "prompt": brief.prompt,
        "token_count": str(brief.tokens),
        "target_tokens": str(brief.target_tokens),
        # '' in a damaged row
        "created_at": local_stamp(brief.created_at, timezone) if brief.created_at else "",
        "covered_latest_at": None if latest is None else local_stamp(latest, timezone),
        "covered_message_seq": None if seq is None else str(seq),
        "trust": "untrusted",
    }
    head = attributes_text((name, value) for name, value in attributes.items() if value is not None)
    block = f"<focus_brief {head}>\n{escape_markup(brief.content)}\n</focus_brief>"
    return Message(role="user", content="\n".join([block, *_corrections(changes)]))


#: A text that the model must always see, verbatim: its id, and the text.
Pin: TypeAlias = tuple[str, str]


def choose_pins(pins: Sequence[Pin], limit: int) -> tuple[tuple[Pin, ...], tuple[Pin, ...]]:
    """The pins that fit into a tenth of `limit` tokens, oldest first, and the others."""
    kept: list[Pin] = []
    left_out: list[Pin] = []
    for pin in pins:
        block = pins_message([*kept, pin])
        fits = block is not None and block.tokens <= 0.10 * limit
        (kept if fits else left_out).append(pin)
    return tuple(kept), tuple(left_out)


def pins_message(pins: Sequence[Pin]) -> Message | None:
    """One user message with the pins, byte for byte; None without pins.

    Pins are not escaped. When a pin's text could end the block, its tag carries a mark derived from the text.
    """
    if not pins:
        return None
    content = "\n\n".join([PINNED_TEXT, *(_pin_block(id_, text) for id_, text in pins)])
    return Message(role="user", content=content, tokens=estimate_tokens(content))


def _pin_block(id_: str, text: str) -> str:
    tag = "pinned"
    while f"</{tag}" in text:
        tag = f"pinned-{hashlib.sha256((tag + text).encode('utf-8', 'replace')).hexdigest()[:8]}"
    return f'<{tag} id="{escape_markup(id_, quote=True)}">\n{text}\n</{tag}>'


#: What a model with the recall tools is told about them: constant bytes.
RECALL_POLICY = files(__package__).joinpath("recall_policy.md").read_text("utf-8")


def with_parts(message: Message, parts: Iterable[Part], *, role: Role | None = None) -> Message:
    """The message with other parts; its foreign `body` is dropped, so that a codec encodes it again."""
    kept = tuple(parts)
    return replace(
        message,
        role=role or message.role,
        content="\n".join(part.text for part in kept if isinstance(part, (Text, ToolResult))),
        parts=kept,
        body=None,
        tokens=sum(map(part_tokens, kept)),
    )


def escape_synthetic_blocks(message: Message) -> Message:
    """The message with text that looks like one of our blocks escaped; the same object when there is none."""
    if not (message.parts or has_synthetic_block(message.content)):
        return message
    if not message.parts:
        return replace(message, content=escape_synthetic_tags(message.content), body=None, tokens=-1)
    parts = tuple(
        replace(part, text=escape_synthetic_tags(part.text))
        if isinstance(part, Text | ToolResult) and has_synthetic_block(part.text) else part
        for part in message.parts
    )  # fmt: skip
    return message if all(map(is_, parts, message.parts)) else with_parts(message, parts)


def part_tokens(part: Part) -> int:
    """The estimated tokens of a part once it is serialised."""
    match part:
        case ToolCall():
            return estimate_tokens(part.name) + estimate_tokens(_json(part.input))
        case File() | Opaque():
            return estimate_tokens(_json(part.raw))
        case _:
            return estimate_tokens(part.text)


def _json(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def is_blank(part: Part) -> bool:
    return isinstance(part, Text) and not part.text.strip()


def says_something(message: Message) -> bool:
    """Whether it has anything but white space and thinking. A tool result counts even when empty."""
    if not message.parts:
        return bool(message.content.strip())
    return any(not isinstance(part, Reasoning) and not is_blank(part) for part in message.parts)


def is_thinking_only(message: Message) -> bool:
    """Whether an assistant message has only thinking."""
    thinks = any(isinstance(part, Reasoning) for part in message.parts)
    return message.role == "assistant" and thinks and not says_something(message)


def is_user_turn(message: Message) -> bool:
    """Whether a person wrote it: tool results with the user's role are not a turn."""
    if message.role != "user" or not message.tool_results:
        return message.role == "user" and says_something(message)
    return any(not isinstance(part, ToolResult) and not is_blank(part) for part in message.parts)


def newest_user(messages: tuple[Message, ...]) -> int | None:
    """The index of the newest message written by a person."""
    return next((i for i in range(len(messages) - 1, -1, -1) if is_user_turn(messages[i])), None)


def open_calls(message: Message) -> tuple[ToolCall, ...]:
    """The calls of an assistant that another message must answer (a provider's own tools answer in place)."""
    if message.role != "assistant" or not message.parts:
        return ()
    inside = {part.call_id for part in message.tool_results}
    return tuple(call for call in message.tool_calls if call.id is None or call.id not in inside)


def answering_results(message: Message) -> tuple[ToolResult, ...]:
    """The results in a message that answer a call of another message."""
    results = message.tool_results
    if not results or message.role != "assistant":
        return results
    inside = {call.id for call in message.tool_calls}
    return tuple(result for result in results if result.call_id not in inside)


def same_if_unchanged(messages: tuple[Message, ...], made: Iterable[Message]) -> tuple[Message, ...]:
    """`messages` itself when `made` has the same objects, so that callers see that nothing changed."""
    new = tuple(made)
    return messages if len(new) == len(messages) and all(map(is_, new, messages)) else new


def estimated_tokens(message: Message) -> int:
    """The budget estimate of a message's text; never less than by its length."""
    return max(message.tokens, message_budget_tokens(message))


#: How many summary ids a stub for a run of messages lists; more are only counted.
MAX_NAMED_SUMMARIES = 6
#: The maximum size of the line about omitted items, as sent.
NOTICE_TOKENS = 160


def message_ref(message_id: int) -> str:
    """A message's name for the model, as `lcm_grep` prints it.

    >>> message_ref(812)
    'msg#812'
    """
    return f"msg#{message_id}"


def stub_results(message: Message, message_id: int, *, recall: bool = True) -> Message:
    """The message with each of its results stubbed; ids, names and error marks stay, so that pairs stay valid.

    With `recall` the stub says how to read the result.
    """
    ref, results = message_ref(message_id), answering_results(message)
    how = f' Call lcm_describe(id="{ref}") to read it in full.' if recall else ""

    def stubbed(part: Part) -> Part:
        if not isinstance(part, ToolResult) or part not in results:
            return part
        size = f"{len(part.text.encode('utf-8', 'replace')):,} bytes"
        head = f"[LCM Tool Output: {ref} | tool={part.name or 'unknown'} | {size}]"
        return replace(part, text=f"{head}\nLeft out of this long turn.{how}")

    shown = (part for part in message.parts if message.role != "tool" or isinstance(part, ToolResult))
    return with_parts(message, map(stubbed, shown))


def stub_with_file(message: Message, file_id: str, byte_size: int, summary: str) -> Message:
    """The message with its one result replaced by the reference to its file."""
    parts = tuple(
        replace(part, text=tool_reference(file_id, part.name, byte_size, summary))
        for part in message.parts
        if isinstance(part, ToolResult)
    )
    return with_parts(message, parts)


def omission_notice(count: int, next_id: int | None, summary_ids: Sequence[str], *, recall: bool = True) -> Message:
    """Says how many messages, before which one, and which summaries are omitted without a replacement.

    It changes only when the omitted items do.
    """
    before = "" if next_id is None else f" before {message_ref(next_id)}"
    what = [_count(count, "message") + before] if count else []
    what += [_named(summary_ids)] if summary_ids else []
    how = " lcm_grep searches them, lcm_describe opens them by id." if recall else ""
    return Message(role="user", content=f"[LCM left out here to make room: {'; '.join(what)}.{how}]")


def _named(summary_ids: Sequence[str]) -> str:
    more = f" and {len(summary_ids) - MAX_NAMED_SUMMARIES} more" if len(summary_ids) > MAX_NAMED_SUMMARIES else ""
    return ", ".join(summary_ids[:MAX_NAMED_SUMMARIES]) + more


def collapsed_steps_stub(
    message_ids: Sequence[int], summary_ids: Sequence[str] = (), *, recall: bool = True
) -> Message:
    """One message for the oldest steps of a long turn: how many, which ids, how to open them."""
    lines = [f"[LCM earlier steps of this turn: {_count(len(message_ids), 'message')} left out to make room]"]
    if message_ids:
        first, last = message_ref(message_ids[0]), message_ref(message_ids[-1])
        span = first if first == last else f"{first} to {last}"
        how = f' Call lcm_describe(id="{first}") to open one, lcm_grep to search them.' if recall else ""
        lines.append(f"They are {span}.{how}")
    if summary_ids:
        how = "; lcm_describe opens them by id." if recall else "."
        lines.append(f"Also left out: {_named(summary_ids)}{how}")
    return Message(role="user", content="\n".join(lines))


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def item_json(item: dict[str, Any]) -> str:
    """An encoded message as JSON, with a trailing comma."""
    if _is_role_and_text(item):
        # The common case, without the general serialiser.
        return f'{{"role":{encode_basestring(item["role"])},"content":{encode_basestring(item["content"])}}},'
    return _encode(item) + ","


def item_tokens(item: dict[str, Any], text: str) -> int:
    """The tokens of an encoded message whose `item_json` is `text`; file data has a flat price."""
    if len(text) < BLOB_CHARS:
        return estimate_tokens(text)
    if _is_role_and_text(item) and not is_blob(item["content"], "content"):
        return estimate_tokens(text[:-1]) + 1
    return boundary_tokens(item) + 1


def _is_role_and_text(item: dict[str, Any]) -> bool:
    return len(item) == 2 and type(item.get("role")) is str and type(item.get("content")) is str


#: How many blocks of an Anthropic prompt may have `cache_control`.
MAX_CACHE_MARKS = 4
#: The fields of a message that OpenClaw forwards; usage, times and prices are not among them.
_OPENCLAW_FIELDS = ("role", "content", "toolCallId", "toolName", "isError")
_HOST_FIELDS = 2
#: The key under which a message carries a framework's own object; it is returned unchanged and never sent.
CARRIED = "carried"


def encode_for_model(message: Message, format: str) -> EncodedMessage:
    """A message for the model: in the strict shape of its format, with valid Unicode; its tokens include commas."""
    written = formats.encode_message(message, format)
    if not written.is_built and CARRIED in written.items[0]:
        written = replace(written, items=[without_carried(item) for item in written.items])
    if message.parts:
        written = formats.strict(written, format)
    tokens, is_clean = 0, True
    for item in written.items:
        text = item_json(item)
        is_clean = is_clean and is_encodable(text)
        tokens += _tokens(item, text, format)
    if is_clean:
        return formats.EncodedMessage(written.items, written.is_built, tokens)
    items = [_with_texts(item, clean_text, clean_text) for item in written.items]
    size = sum(_tokens(item, item_json(item), format) for item in items)
    return formats.EncodedMessage(items, written.is_built, size)


def _tokens(item: dict[str, Any], text: str, format: str) -> int:
    """The tokens of an item; in a host's own format, only the forwarded fields count."""
    if format != "openclaw" or len(item) <= _HOST_FIELDS:
        return item_tokens(item, text)
    shown = {name: item[name] for name in _OPENCLAW_FIELDS if name in item}
    return item_tokens(shown, item_json(shown))


def tokens_as_sent(message: Message, written: EncodedMessage, estimate: int | None = None) -> int:
    """The tokens of a message as sent: by its length, and by the budget estimate for text that is denser than prose."""
    words = estimated_tokens(message) if estimate is None else estimate
    return written.tokens if words <= message.tokens else max(written.tokens, framed_tokens(words))


def without_carried(item: dict[str, Any]) -> dict[str, Any]:
    return item if CARRIED not in item else {name: item[name] for name in item if name != CARRIED}


def limit_cache_marks(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Messages with at most as many cache marks as Anthropic accepts: the newest ones."""
    places = [
        (n, at)
        for n, message in enumerate(messages)
        if isinstance(content := message.get("content"), list)
        for at, block in enumerate(content)
        if "cache_control" in block
    ]
    for n, at in places[:-MAX_CACHE_MARKS]:
        blocks = list(messages[n]["content"])
        blocks[at] = {key: value for key, value in blocks[at].items() if key != "cache_control"}
        messages[n] = messages[n] | {"content": blocks}
    return messages


def clean_text(text: str) -> str:
    """`text` as valid Unicode: lone surrogates become U+FFFD.

    >>> clean_text("a\\ud83d\\ude00 \\ud800")
    'a😀 �'
    """
    return text if text.isascii() else hashed_utf8(text).decode()


def _with_texts(value: Any, change: Callable[[str], str], change_name: Callable[[str], str] = str) -> Any:
    """A JSON value with each text changed, and each name in its objects."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change_name(name): _with_texts(item, change, change_name) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_with_texts(item, change, change_name) for item in value]
    return value


#: The share of a shortened text that is its beginning.
_HEAD_SHARE = 2 / 3
#: A cut moves to the end of a line when at most this share of the piece is lost.
_LINE_SLACK = 0.2
#: How often the sizes are recomputed until the message fits.
_TRIES = 12
#: The only argument of a call whose arguments are shown in part.
SHORTENED_ARGUMENT = "lcm_shortened"


def shorten_message(message: Message, message_id: int | None, max_tokens: int, format: str) -> Message:
    """The message in at most `max_tokens` tokens, as sent; more only when the parts that cannot be cut take more.

    Long text, tool results and arguments are cut in the middle. Ids, names and error marks stay, so that pairs stay
    valid; arguments stay valid JSON. Without an id, no text says where to find the rest.
    """
    ref = None if message_id is None else message_ref(message_id)
    space = max_tokens
    made = _cut(message, space, ref)
    for _ in range(_TRIES):
        tokens = encode_for_model(made, format).tokens
        if tokens <= max_tokens or space == 0:
            break
        space = min(space - 1, int(space * max_tokens / tokens * 0.98)) if space > 1 else 0
        made = _cut(message, space, ref)
    else:
        made = _cut(message, 0, ref)
    return made


def _cut(message: Message, space: int, ref: str | None) -> Message:
    parts = [short for part in message.parts if (short := _short_part(part, space, ref)) is not None]
    if parts:
        return with_parts(message, parts)
    return replace(message, content=shorten_text(message.content, space, ref), parts=(), body=None, tokens=-1)


def _short_part(part: Part, space: int, ref: str | None) -> Part | None:
    match part:
        case Text() | ToolResult():
            return replace(part, text=shorten_text(part.text, space, ref))
        case ToolCall():
            return replace(part, input=_short_input(part, space, ref))
        case Reasoning(signature=None):
            return None
        case _:
            return part


def shorten_text(text: str, space: int, ref: str | None = None) -> str:
    """A text of at most `space` tokens plus one line that says what is omitted between beginning and end.

    Unchanged when that would not make it shorter.
    """
    if 2 * len(text) <= space or estimate_tokens(text) <= space:
        return text
    head = cut_to_tokens(text, int(space * _HEAD_SHARE))
    line = head.rfind("\n") + 1
    head = head[:line] if line > len(head) * (1 - _LINE_SLACK) else head
    rest = space - estimate_tokens(head)
    tail = cut_to_tokens(text[: -4 * rest - 1 : -1], rest)[::-1] if rest > 0 else ""  # the longest end that fits
    line = tail.find("\n") + 1
    tail = tail[line:] if 0 < line < len(tail) * _LINE_SLACK else tail
    short = shortened_text(head, tail, len(text), ref)
    return short if len(short) < len(text) else text


def _short_input(call: ToolCall, space: int, ref: str | None) -> Json:
    """Arguments with long texts cut; where that is not enough, their JSON, cut, in one argument."""
    value, whole, short = call.input, _json(call.input), None
    if estimate_tokens(whole) <= space:
        return value
    if isinstance(given := call.arguments, dict):
        short = _with_texts(given, lambda text: shorten_text(text, space, ref))
    if short is None or estimate_tokens(_json(short)) > max(2 * space, space + 80):
        short = {SHORTENED_ARGUMENT: shorten_text(whole, space, ref)}
    if len(_json(short)) >= len(whole):
        return value
    return _json(short) if isinstance(value, str) else short
