"""A message as a JSON document: where payloads can be, the texts that replace them, and the draft of a replacement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, cast

from lossless.files.explore import summarise
from lossless.files.media_types import reference_name
from lossless.files.recipe import JsonPath, RecipePiece, RecipeStep, base64_form, file_slice, recipe_step, with_value
from lossless.model.identity import file_id
from lossless.model.messages import File, Message, Part, Role, StoredToolOutput, Text, ToolResult
from lossless.model.tokens import estimate_tokens, one_line

#: Reads a foreign body of a named format: `lossless.formats.decode`.
Decode: TypeAlias = "Callable[[dict[str, Any], str], Message]"

TEXT_TYPES = frozenset(("text", "input_text", "output_text"))
_RESULT_TYPES = frozenset(
    ("tool_result", "toolResult", "tool_use_result", "function_call_output", "custom_tool_call_output")
)
_UNTOUCHED = frozenset(
    ("thinking", "redacted_thinking", "reasoning", "tool_use", "toolUse", "tool-use", "toolCall", "tool_call")
) | {"functionCall", "function_call", "custom_tool_call"}
_FILE_TYPES = frozenset(("image", "image_url", "input_image", "file", "input_file", "document", "input_audio"))
#: Keys that may hold a tool's result, best first.
_OUTPUT_KEYS = ("content", "output", "result", "text", "toolOutput")
_CALL_ID_KEYS = ("toolCallId", "tool_call_id", "toolUseId", "tool_use_id", "call_id")
_NAME_KEYS = ("toolName", "tool_name", "name")
_MAX_DEPTH = 12


@dataclass(frozen=True, slots=True)
class PayloadSpot:
    """A text, or a file block, in a document."""

    path: JsonPath
    value: Any
    is_file: bool
    in_result: bool


#: A whole tool result: its path, its value (a text, a list of blocks, or any other), its call id and its tool.
ToolAnswer: TypeAlias = "tuple[JsonPath, Any, str | None, str | None]"


def document_of(message: Message) -> dict[str, Any]:
    if message.body is not None:
        return cast("dict[str, Any]", message.body)
    if not message.parts:
        return {"role": message.role, "content": message.content}
    content = None if message.content == _words(message.parts) else message.content
    return {"role": message.role, "content": content, "parts": [_part_json(part) for part in message.parts]}


def message_from(message: Message, document: dict[str, Any], decode: Decode) -> Message:
    """The message of a rewritten document; role, time and event key stay."""
    if message.body is not None:
        read = decode(document, message.format)
        return replace(message, content=read.content, parts=read.parts, body=document, tokens=read.tokens)
    if not message.parts:
        return replace(message, content=document["content"], tokens=-1)
    parts = tuple(_part(part, value) for part, value in zip(message.parts, document["parts"], strict=True))
    content = document["content"]
    return replace(message, parts=parts, content=_words(parts) if content is None else content, tokens=-1)


def find_spots(document: dict[str, Any], role: str) -> Iterator[PayloadSpot]:
    """Every text and file in messages and tool results, in order."""
    in_result = role == "tool" or document.get("type") in _RESULT_TYPES
    yield from _spots(document.get("parts"), ("parts",), in_result, 0)
    key = "content" if "content" in document else "output"
    yield from _spots(document.get(key), (key,), in_result, 0)


def _spots(value: Any, path: JsonPath, in_result: bool, depth: int) -> Iterator[PayloadSpot]:
    if isinstance(value, str):
        yield PayloadSpot(path, value, False, in_result)
    elif depth > _MAX_DEPTH:
        return
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _spots(item, (*path, number), in_result, depth + 1)
    elif isinstance(value, dict) and (kind := value.get("type")) not in _UNTOUCHED:
        if kind in TEXT_TYPES:
            if isinstance(value.get("text"), str):
                yield PayloadSpot((*path, "text"), value["text"], False, in_result)
        elif kind in _FILE_TYPES:
            yield PayloadSpot(path, value, True, in_result)
        else:
            names = _OUTPUT_KEYS if kind in _RESULT_TYPES else ("output", "content", "result") if in_result else ()
            keys = [key for key in names if key in value]
            for key in keys[:1] if kind in _RESULT_TYPES else keys:
                yield from _spots(value[key], (*path, key), True, depth + 1)


def tool_answers(document: dict[str, Any], message: Message) -> Iterator[ToolAnswer]:
    """The tool results in a document, each as a whole."""
    if document.get("type") in _RESULT_TYPES or (message.role == "tool" and "parts" not in document):
        inner = list(_answer_blocks(document.get("content"), ("content",)))
        yield from inner
        if not inner and (key := _output_key(document)) is not None:
            tool = first_text([document], _NAME_KEYS) or next((result.name for result in message.tool_results), None)
            yield (key,), document[key], first_text([document], _CALL_ID_KEYS), tool
    else:
        place = "parts" if "parts" in document else "content"
        yield from _answer_blocks(document.get(place), (place,))


def _answer_blocks(blocks: Any, path: JsonPath) -> Iterator[ToolAnswer]:
    for number, block in enumerate(blocks if isinstance(blocks, list) else ()):
        if isinstance(block, dict) and block.get("type") in _RESULT_TYPES and (key := _output_key(block)) is not None:
            tool = first_text([block], ("name", "toolName", "tool_name"))
            yield (*path, number, key), block[key], first_text([block], _CALL_ID_KEYS), tool


def is_text_only(document: dict[str, Any]) -> bool:
    """Whether a document has no tool calls, results or thinking."""
    if "tool_calls" in document or "function_call" in document or "reasoning_content" in document:
        return False
    if document.get("type") in _RESULT_TYPES | _UNTOUCHED or "parts" in document:
        return False
    blocks = document.get("content")
    kinds = {block.get("type") for block in blocks if isinstance(block, dict)} if isinstance(blocks, list) else set()
    return not any(isinstance(kind, str) and kind in _RESULT_TYPES | _UNTOUCHED for kind in kinds)


def text_block(text: str, format: str, role: str) -> dict[str, Any]:
    """A block with `text`, for a list of blocks of this format."""
    if format != "openai-responses":
        return {"type": "text", "text": text}
    return {"type": "output_text" if role == "assistant" else "input_text", "text": text}


def _output_key(block: dict[str, Any]) -> str | None:
    return next((key for key in _OUTPUT_KEYS if key in block), None)


def first_text(boxes: Iterable[dict[str, Any]], keys: Iterable[str]) -> str | None:
    return next((box[key] for box in boxes for key in keys if isinstance(box.get(key), str) and box[key]), None)


def _part_json(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case ToolResult(call_id, name, text, is_error):
            found = {"tool_use_id": call_id, "name": name, "is_error": is_error}
            return {"type": "tool_result", "content": text, **found}
        case File(raw, mime, name):
            kind = raw.get("type")
            return {"type": kind if kind in _FILE_TYPES else "file", "raw": raw, "mime": mime, "name": name}
        case _:
            return {"type": "reasoning"}  # thinking, calls and unknown blocks are unchanged


def _part(part: Part, value: dict[str, Any]) -> Part:
    """The part for `value`; `part` itself when it is equal."""
    new: Part = part
    match value["type"]:
        case "text":
            new = Text(value["text"])
        case "tool_result":
            new = ToolResult(value["tool_use_id"], value["name"], value["content"], value["is_error"])
        case kind if kind in _FILE_TYPES:
            new = File(value["raw"], value["mime"], value["name"])
    return part if new == part else new


def _words(parts: tuple[Part, ...]) -> str:
    return "\n".join(part.text for part in parts if isinstance(part, Text | ToolResult))


Reason: TypeAlias = Literal["native_image", "large_file_block", "large_tool_result", "large_raw_message"]
#: The metadata key that lossless-claw sets for each reason.
REASON_KEYS: dict[Reason, str] = {
    "native_image": "imageExternalized", "large_file_block": "fileBlocksExternalized",
    "large_tool_result": "toolOutputExternalized", "large_raw_message": "rawPayloadExternalized",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Payload:
    """Bytes moved out of a message, with the fields of their row."""

    file_id: str
    data: bytes
    name: str
    mime: str
    reason: Reason
    summary: str
    #: None for binary data.
    line_count: int | None
    #: Its metadata key; None when it only serves to rebuild the original.
    note: str | None


#: A piece of a text that is replaced by a reference: its start and end, the reference, and how to restore it.
TextCut: TypeAlias = "tuple[int, int, str, tuple[RecipePiece, ...]]"


class MessageDraft:
    """One message during interception. Each change is a step that can be undone."""

    def __init__(self, message: Message, document: dict[str, Any], conversation_id: int, threshold_tokens: int) -> None:
        self.message = message
        self.document = document
        self.conversation_id = conversation_id
        self.threshold = threshold_tokens
        self.steps: list[RecipeStep] = []
        self.payloads: dict[str, Payload] = {}
        self._done: set[JsonPath] = set()
        self._reference_tokens: dict[JsonPath, int] = {}

    @property
    def format(self) -> str:
        """The format in which new blocks are written."""
        return "plain" if self.message.body is None else self.message.format

    def keep(self, data: bytes, name: str, mime: str, reason: Reason, *, text: str | None = None) -> Payload:
        """Add a payload with these bytes; `text` is their text, if they are text."""
        id_ = file_id(self.conversation_id, data)
        if id_ not in self.payloads:
            lines, note = None if text is None else text.count("\n") + 1, REASON_KEYS[reason]
            self.payloads[id_] = Payload(id_, data, name, mime, reason, summarise(data, name, mime), lines, note)
        return self.payloads[id_]

    def keep_text(self, text: str, name: str, mime: str, reason: Reason) -> Payload:
        return self.keep(text.encode("utf-8", "surrogatepass"), name, mime, reason, text=text)

    def base64_pieces(self, text: str, payload: Payload) -> tuple[RecipePiece, ...]:
        """How to reproduce exactly this base64 from a payload; where no form does, the text is stored, too."""
        inner = text.strip()
        lead = text[: len(text) - len(text.lstrip())]
        form = base64_form(inner, payload.data)
        if form is not None:
            trail = text[len(lead) + len(inner) :]
            return tuple(piece for piece in (lead, file_slice(payload.file_id, form), trail) if piece != "")
        data = text.encode("utf-8", "surrogatepass")
        id_ = file_id(self.conversation_id, data)
        summary = f"Base64 of {payload.file_id}, as it stood in the message."
        spelled = Payload(id_, data, f"{payload.name}.b64", "text/plain", payload.reason, summary, 1, None)
        self.payloads.setdefault(id_, spelled)
        return (file_slice(id_),)

    def put(self, path: JsonPath, value: Any, step: RecipeStep, *, is_whole: bool = True) -> None:
        """Set the `value` at a path; `is_whole` when only references remain there."""
        self.document = with_value(self.document, path, value)
        self.steps.append(step)
        if is_whole:
            self._done.add(path)

    def put_reference(self, path: JsonPath, reference: str, payload: Payload) -> None:
        """Replace a whole text by a reference."""
        self.put(path, reference, recipe_step(path, (((), (file_slice(payload.file_id),)),)))

    def put_cuts(self, path: JsonPath, text: str, cuts: Sequence[TextCut]) -> None:
        """Replace pieces of a text by references, if there are any; the rest stays."""
        if not cuts:
            return
        shown: list[str] = []
        pieces: list[RecipePiece] = []
        at = length = tokens = 0
        for start, end, reference, original in cuts:
            if start > at:
                pieces.append([length, length + start - at])
            shown += (text[at:start], reference)
            length += start - at + len(reference)
            tokens += estimate_tokens(reference)
            pieces += original
            at = end
        if at < len(text):
            pieces.append([length, length + len(text) - at])
            shown.append(text[at:])
        self._reference_tokens[path] = self._reference_tokens.get(path, 0) + tokens
        self.put(path, "".join(shown), recipe_step(path, (((), pieces),)), is_whole=False)

    def is_done(self, path: JsonPath) -> bool:
        """Whether only a reference remains at a path: in the block there, or in the block that holds the text."""
        return not self._done.isdisjoint((path, (*path, "text"), path[:-1] if path[-1] == "text" else path))

    def tokens_left(self, path: JsonPath, text: str) -> int:
        """The tokens of a text at a path without its references."""
        return 0 if self.is_done(path) else estimate_tokens(text) - self._reference_tokens.get(path, 0)


# --- references ------------------------------------------------------------------------------------------------

_OPEN = 'Call lcm_describe(id="<file_id above>", expandFile=true) to fetch the full {what} content from disk.'


def file_reference(file_id: str, name: str | None, mime: str | None, size: int, summary: str) -> str:
    """Replaces a file that a user sent."""
    named, kind = reference_name(name, "unnamed"), reference_name(mime, "unknown")
    head = f"[LCM File: {file_id} | {named} | {kind} | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}"


def tool_reference(file_id: str, tool: str | None, size: int, summary: str) -> str:
    """Replaces the output of a tool."""
    head = f"[LCM Tool Output: {file_id} | tool={reference_name(tool, 'unknown')} | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}\n\n{_OPEN.format(what='output')}"


def raw_reference(file_id: str, role: Role, size: int, summary: str) -> str:
    head = f"[LCM Raw Payload: {file_id} | role={role} | reason=large_raw_message | {size:,} bytes]"
    return f"{head}\n\nExploration Summary:\n{summary}\n\n{_OPEN.format(what='payload')}"


def image_reference(file_id: str, label: str, name: str, mime: str, size: int) -> str:
    """Replaces an image.

    >>> image_reference("file_0123456789abcdef", "User image", "a.png", "image/png", 1234)
    '[User image: a.png (image/png, 1,234 bytes) | LCM file: file_0123456789abcdef]'
    """
    named, kind = reference_name(name, "image"), reference_name(mime, "image")
    return f"[{label}: {named} ({kind}, {size:,} bytes) | LCM file: {file_id}]"


def image_label(role: Role, *, in_result: bool, inline: bool) -> str:
    """The label of an image: by its sender; one inside a user's own text is just an image."""
    return "Image" if inline and role == "user" and not in_result else f"{'Tool' if in_result else role.title()} image"


DEFAULT_STUB_BYTES = 8000
_REFERENCES = ("[LCM Tool Output: file_", "[LCM File: file_", "[LCM Raw Payload: file_")
_OWN_TOOLS = "lcm_"
_INPUT_CHARS = 400


@dataclass(frozen=True, slots=True)
class StubPlan:
    """What a back-fill would change."""

    outputs: tuple[StoredToolOutput, ...]
    #: Large results that stay: existing references, or results of our own tools.
    left: int = 0

    @property
    def bytes(self) -> int:
        return sum(output.byte_size for output in self.outputs)


def plan_stubs(candidates: Iterable[StoredToolOutput], limit: int | None = None) -> StubPlan:
    """Which of the large results get a file."""
    found = list(candidates)
    wanted = [one for one in found if not one.head.startswith(_REFERENCES) and _OWN_TOOLS not in (one.tool or "")]
    return StubPlan(tuple(wanted[:limit]), len(found) - len(wanted))


def stub_payload(output: StoredToolOutput, content: str, tool_input: str | None) -> Payload:
    """The file for a result; its summary begins with the tool's input."""
    data = content.encode("utf-8", "surrogatepass")
    name = reference_name(output.tool, "tool-output").replace("/", "_") + ".txt"
    summary = summarise(data, name, "text/plain")
    if tool_input:
        summary = f"Tool input: {one_line(tool_input, _INPUT_CHARS)}\n{summary}"
    id_, lines = file_id(output.conversation_id, data), content.count("\n") + 1
    return Payload(id_, data, name, "text/plain", "large_tool_result", summary, lines, REASON_KEYS["large_tool_result"])
