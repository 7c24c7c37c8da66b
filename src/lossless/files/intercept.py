"""Detects payloads in a message: by form (file blocks, embedded files, base64 images), then by size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadMessage
from lossless.files import document, media_types, recipe
from lossless.files.document import Decode, MessageDraft, Payload, PayloadSpot, TextCut, first_text
from lossless.model.js_json import compact_json, stringify_js
from lossless.model.messages import File, Json, Message, Opaque, Text, ToolResult
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.files.recipe import JsonPath, ReadFile, RecipeHole

_OPEN = re.compile(r"<file\b", re.IGNORECASE)
_TAG = re.compile(r"<file\b((?:[^>\"']|\"[^\"]*\"|'[^']*')*)>", re.IGNORECASE)
#: Longer tags are text, so that many unclosed tags stay cheap.
_MAX_TAG = 500
_CLOSE = re.compile(r"</file\s{0,8}>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([A-Za-z_:][\w:.-]*)\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))")


def file_blocks(text: str) -> Iterator[tuple[re.Match[str], re.Match[str], str, str | None, str | None]]:
    """The file blocks of a text, in order: its tags, its content, its name and type; an unclosed tag is text."""
    at = 0
    while (opened := _OPEN.search(text, at)) is not None:
        tag = _TAG.match(text, opened.start(), opened.start() + _MAX_TAG)
        if tag is None:
            at = opened.end()
            continue
        closed = _CLOSE.search(text, tag.end())
        if closed is None:
            break
        known = {name.lower(): a or b or c for name, a, b, c in _ATTRIBUTE.findall(tag[1])}
        yield tag, closed, text[tag.end() : closed.start()], known.get("name"), known.get("mime") or known.get("type")
        at = closed.end()


#: Base64 prefixes of JPEG, PNG, GIF, WebP and SVG.
BASE64_MAGIC = ("/9j/", "iVBOR", "R0lGOD", "UklGR", "PHN2Zy")
#: Shorter runs of base64 in a text stay, unless a header announces an image.
MIN_INLINE_CHARS = 397
_MIN_ANNOUNCED_CHARS = 16
_IMAGE_BLOCKS = frozenset(("image", "image_url", "input_image"))
_DATA_URL = re.compile(r"data:([\w.+-]{1,64}/[\w.+-]{1,64})?(?:;[\w.+-]{1,64}=[\w.+-]{0,64}){0,4};base64,")
_RUN = re.compile(
    r"(?<![A-Za-z0-9+/=_-])(?:data:image/[\w.+-]{1,40};base64,)?"
    r"((?:" + "|".join(re.escape(magic) for magic in BASE64_MAGIC) + r")[A-Za-z0-9+/]*={0,2})"
)
_LINE = re.compile(r"(\r?\n)([A-Za-z0-9+/]+={0,2})(?![^\s\"'<>)\]])")
_MIN_LINE = 32
_HEADER = re.compile(r"\[media attached(?: \d{1,4}/\d{1,4})?: ([^\]|\n]{1,1000})")
_HEADER_TYPE = re.compile(r"\s\(([\w.+-]{1,64}/[\w.+-]{1,64})\)\s*$")
_IMAGE_NAMES = frozenset((".png", ".jpg", ".jpeg", ".gif", ".webp", ".svg", ".bmp", ".tiff", ".avif", ".heic", ""))
_MIME_KEYS = ("mimeType", "media_type", "mime_type", "mime")
_NAME_KEYS = ("filename", "file_name", "fileName", "name", "title")


@dataclass(frozen=True, slots=True)
class EmbeddedFile:
    """The content of a file block: the path of its text, and what the text encodes."""

    hole: JsonPath
    #: The text before the base64, such as `data:image/png;base64,`.
    prefix: str
    text: str
    #: None when the text is the file itself.
    data: bytes | None
    is_image: bool
    mime: str | None
    name: str | None


def embedded_file(block: dict[str, Any]) -> EmbeddedFile | None:
    """The file in a block, when it is complete and in a readable form."""
    for hole, box in _boxes(block):
        for key in ("data", "file_data", "url", "image_url"):
            text = box.get(key)
            if not isinstance(text, str) or not text:
                continue
            url = _DATA_URL.match(text)
            if url is None and key in ("url", "image_url"):
                continue
            return _carried(block, box, (*hole, key), text, url)
    return None


def _carried(
    block: dict[str, Any], box: dict[str, Any], hole: JsonPath, text: str, url: re.Match[str] | None
) -> EmbeddedFile | None:
    found = [box, block, *(inner for _, inner in _boxes(block))]
    name = first_text(found, _NAME_KEYS)
    declared = (url[1] if url else None) or first_text(found, _MIME_KEYS)
    if box.get("type") == "text":
        return EmbeddedFile(hole, "", text, None, False, declared or "text/plain", name)
    prefix = url[0] if url else ""
    data = recipe.decode_base64(text[len(prefix) :])
    if not data:
        return None
    mime = (
        declared if media_types.plain_type(declared).startswith("image/") else media_types.image_type(data) or declared
    )
    is_image = media_types.plain_type(mime).startswith("image/")
    if not is_image and block.get("type") in _IMAGE_BLOCKS:
        return None
    return EmbeddedFile(hole, prefix, text[len(prefix) :], data, is_image, mime, name)


def _boxes(block: dict[str, Any]) -> Iterator[tuple[JsonPath, dict[str, Any]]]:
    """The objects in which formats put file data: the block itself, then nested ones."""
    yield (), block
    for key in ("source", "image_url", "file", "input_audio"):
        if isinstance(box := block.get(key), dict):
            yield (key,), box
    if isinstance(raw := block.get("raw"), dict):
        for path, box in _boxes(raw):
            yield ("raw", *path), box


def may_hold_image(text: str) -> bool:
    """Whether a text may contain a base64 image; cheap, because prose has no run of that length without spaces."""
    if "[media attached" not in text:
        start = 0
        while (end := start + MIN_INLINE_CHARS) <= len(text):
            start = text.rfind(" ", start, end) + 1
            if not start:
                break
        else:
            return False
    return any(magic in text for magic in BASE64_MAGIC)


def inline_images(text: str) -> list[tuple[int, int, int, bytes, str]]:
    """The images that a text contains as base64, in order: where each and its base64 begin, the end, bytes, type."""
    if not may_hold_image(text):
        return []
    header = _HEADER.search(text)
    found: list[tuple[int, int, int, bytes, str]] = []
    for run in _RUN.finditer(text):
        minimum = _MIN_ANNOUNCED_CHARS if header and header.end() <= run.start() else MIN_INLINE_CHARS
        start, end = run.start(1), _end_of_lines(text, run.start(1), run.end(1))
        if end - start < minimum or (found and start < found[-1][2]):
            continue
        data = recipe.decode_base64(text[start:end])
        if data and (mime := media_types.image_type(data)):
            found.append((run.start(), start, end, data, mime))
    return found


def _end_of_lines(text: str, start: int, end: int) -> int:
    """The end of base64 that is wrapped into lines of one length; `end` when it is not."""
    width = end - start
    if width < _MIN_LINE or text[end - 1] == "=":
        return end
    count = width
    while (line := _LINE.match(text, end)) is not None:
        size = len(line[2])
        if size > width or (size < width and (count + size) % 4):
            break
        end, count = line.end(), count + size
        if size < width or line[2].endswith("="):
            break
    return end


def attached_names(texts: Iterable[str]) -> list[str]:
    """The names of images that `[media attached: …]` headers announce, in order."""
    names: list[str] = []
    for text in texts:
        for header in _HEADER.finditer(text) if "[media attached" in text else ():
            place = header[1].strip()
            declared = _HEADER_TYPE.search(place)
            place = (place[: declared.start()] if declared else place).strip().strip("\"'")
            name = place.replace("\\", "/").rsplit("/", 1)[-1]
            is_image = (
                declared[1].startswith("image/") if declared else media_types.named_extension(name) in _IMAGE_NAMES
            )
            if is_image and name:
                names.append(name)
    return names


def extract_native_files(draft: MessageDraft) -> None:
    """Moves out every image block, and other files of at least the threshold."""
    found = list(document.find_spots(draft.document, draft.message.role))
    names = iter(attached_names(spot.value for spot in found if not spot.is_file))
    for spot in found:
        file = embedded_file(spot.value) if spot.is_file else None
        if file is None or not (file.is_image or estimate_tokens(file.text) >= draft.threshold):
            continue
        if file.is_image:
            name = next(names, None) or file.name or _image_name(draft, spot, file.mime)
            payload = draft.keep(file.data or b"", name, file.mime or "", "native_image")
            label = document.image_label(draft.message.role, in_result=spot.in_result, inline=False)
            reference = _image_text(payload, label)
        else:
            mime = file.mime or "application/octet-stream"
            name = file.name or f"{_sender(draft, spot)}-file.{media_types.storage_extension(None, mime)}"
            if file.data is None:
                payload = draft.keep_text(file.text, name, mime, "large_file_block")
            else:
                payload = draft.keep(file.data, name, mime, "large_file_block")
            reference = _file_text(payload, payload.name, payload.mime)
        spelled = (
            (recipe.file_slice(payload.file_id),) if file.data is None else draft.base64_pieces(file.text, payload)
        )
        frame = recipe.with_value(spot.value, file.hole, "")
        step = recipe.recipe_step(spot.path, ((file.hole, (*filter(None, [file.prefix]), *spelled)),), frame)
        draft.put(spot.path, document.text_block(reference, draft.format, draft.message.role), step)


def extract_pasted_images(draft: MessageDraft) -> None:
    """Moves out images that a text contains as base64."""
    found = [spot for spot in document.find_spots(draft.document, draft.message.role) if not spot.is_file]
    names = iter(attached_names(spot.value for spot in found))
    for spot in found:
        label = document.image_label(draft.message.role, in_result=spot.in_result, inline=True)
        cuts: list[TextCut] = []
        for begin, start, end, data, mime in inline_images(spot.value):
            payload = draft.keep(data, next(names, None) or _image_name(draft, spot, mime), mime, "native_image")
            prefix, spelled = spot.value[begin:start], draft.base64_pieces(spot.value[start:end], payload)
            cuts.append((begin, end, _image_text(payload, label), (*filter(None, [prefix]), *spelled)))
        draft.put_cuts(spot.path, spot.value, cuts)


def extract_file_blocks(draft: MessageDraft) -> None:
    """Moves out a user's `<file>` blocks of at least the threshold."""
    if draft.message.role != "user":
        return
    for spot in list(document.find_spots(draft.document, "user")):
        if spot.is_file or spot.in_result or draft.tokens_left(spot.path, spot.value) < draft.threshold:
            continue
        cuts: list[TextCut] = []
        for tag, closed, text, name, mime in file_blocks(spot.value):
            if estimate_tokens(text) < draft.threshold:
                continue
            payload = draft.keep_text(text, name or "unnamed", mime or "text/plain", "large_file_block")
            pieces = tag[0], recipe.file_slice(payload.file_id), closed[0]
            cuts.append((tag.start(), closed.end(), _file_text(payload, name, mime), pieces))
        draft.put_cuts(spot.path, spot.value, cuts)


def _image_text(payload: Payload, label: str) -> str:
    return document.image_reference(payload.file_id, label, payload.name, payload.mime, len(payload.data))


def _file_text(payload: Payload, name: str | None, mime: str | None) -> str:
    return document.file_reference(payload.file_id, name, mime, len(payload.data), payload.summary)


def _image_name(draft: MessageDraft, spot: PayloadSpot, mime: str | None) -> str:
    return f"{_sender(draft, spot)}-image.{media_types.IMAGE_EXTENSIONS.get(media_types.plain_type(mime), 'img')}"


def _sender(draft: MessageDraft, spot: PayloadSpot) -> str:
    return "tool" if spot.in_result else draft.message.role


#: Results of our own tools stay: a reference would make the agent fetch the same text again.
_OWN_TOOLS = "lcm_"


#: Adds a text as a payload, and returns it with the reference to it; `True` for JSON.
_Keep: TypeAlias = "Callable[[str, bool], tuple[Payload, str]]"


def _keep(draft: MessageDraft, tool: str | None, text: str, is_json: bool) -> tuple[Payload, str]:
    """For the result of a tool, whose name may be unknown (an empty one); without a tool for anything else."""
    ending, mime = (".json", "application/json") if is_json else (".txt", "text/plain")
    role = draft.message.role
    if tool is None:
        payload = draft.keep_text(text, f"raw-{role}-payload{ending}", mime, "large_raw_message")
        return payload, document.raw_reference(payload.file_id, role, len(payload.data), payload.summary)
    name = media_types.reference_name(tool, "tool-output").replace("/", "_") + ending
    payload = draft.keep_text(text, name, mime, "large_tool_result")
    return payload, document.tool_reference(payload.file_id, tool, len(payload.data), payload.summary)


def extract_tool_answers(draft: MessageDraft, tool_of: Callable[[str], str | None] | None) -> None:
    """Moves out tool results of at least the threshold; ids, names and error marks stay."""
    for path, value, call_id, tool in list(document.tool_answers(draft.document, draft.message)):
        if _remaining_tokens(draft, path, value) < draft.threshold:
            continue
        if tool is None and tool_of is not None and call_id is not None:
            tool = tool_of(call_id)
        if tool is not None and _OWN_TOOLS in tool:
            continue
        _shrink(draft, partial(_keep, draft, tool or ""), path, value)
        if draft.message.role == "tool" and len(path) > 2 and draft.format in ("openclaw", "plain"):
            # in these formats a block whose result is a reference would not count as text otherwise
            inside = path[:-1]
            block = recipe.value_at(draft.document, inside)
            step = recipe.recipe_step(inside, (), block)
            draft.put(inside, block | {"toolOutputExternalized": True}, step, is_whole=False)


def extract_oversized_rest(draft: MessageDraft) -> None:
    """Moves out any other oversized text. System instructions stay, whatever their size."""
    if draft.message.role in ("tool", "system"):
        return
    keep = partial(_keep, draft, None)
    if document.is_text_only(draft.document):
        key = "content" if "content" in draft.document else "output"
        value = draft.document.get(key)
        if value is not None and _remaining_tokens(draft, (key,), value) >= draft.threshold:
            _shrink(draft, keep, (key,), value)
        return
    for spot in list(document.find_spots(draft.document, draft.message.role)):
        if spot.is_file or spot.in_result or draft.tokens_left(spot.path, spot.value) < draft.threshold:
            continue
        payload, reference = keep(spot.value, False)
        draft.put_reference(spot.path, reference, payload)


def _shrink(draft: MessageDraft, keep: _Keep, path: JsonPath, value: Any) -> None:
    """Moves a value into files: a text as a whole; of a list first each large text, then the rest."""
    if isinstance(value, str):
        payload, reference = keep(value, False)
        draft.put_reference(path, reference, payload)
        return
    if not isinstance(value, list):
        payload, reference = keep(compact_json(value), True)
        draft.put(
            path, reference, recipe.recipe_step(path, (((), (recipe.file_slice(payload.file_id, recipe.JSON_FORM),)),))
        )
        return
    for number, item in enumerate(value):
        text, inner = _text_in(item)
        place = (*path, number, *inner)
        if text is not None and draft.tokens_left(place, text) >= draft.threshold:
            payload, reference = keep(text, False)
            draft.put_reference(place, reference, payload)
    if _remaining_tokens(draft, path, recipe.value_at(draft.document, path)) >= draft.threshold:
        _collapse(draft, keep, path)


def _collapse(draft: MessageDraft, keep: _Keep, path: JsonPath) -> None:
    """Moves all blocks of a list that are not references into one file, replaced by one reference."""
    items: list[Any] = recipe.value_at(draft.document, path)
    rest = [number for number in range(len(items)) if not draft.is_done((*path, number))]
    shown = [item for number, item in enumerate(items) if draft.is_done((*path, number))]
    texts = [_text_in(items[number]) for number in rest]
    frame = list(items)
    holes: list[RecipeHole] = []
    if all(text is not None for text, _ in texts):
        payload, reference = keep("\n".join(text or "" for text, _ in texts), False)
        at = 0
        for number, (text, inner) in zip(rest, texts, strict=True):
            end = at + len(text or "")
            frame[number] = items[number] | {"text": ""} if inner else ""
            holes.append(((number, *inner), (recipe.file_slice(payload.file_id, recipe.TEXT_FORM, at, end),)))
            at = end + 1
    else:
        payload, reference = keep(compact_json([items[number] for number in rest]), True)
        for place, number in enumerate(rest):
            frame[number] = None
            holes.append(((number,), (recipe.file_slice(payload.file_id, recipe.JSON_FORM, place),)))
    shown.append(document.text_block(reference, draft.format, draft.message.role))
    draft.put(path, shown, recipe.recipe_step(path, holes, frame))


def _remaining_tokens(draft: MessageDraft, path: JsonPath, value: Any) -> int:
    if isinstance(value, str):
        return draft.tokens_left(path, value)
    if not isinstance(value, list):
        return 0 if draft.is_done(path) else estimate_tokens(stringify_js(value))
    total = 0
    for number, item in enumerate(value):
        text, inner = _text_in(item)
        place = (*path, number)
        if text is not None:
            total += draft.tokens_left((*place, *inner), text)
        elif not draft.is_done(place):
            total += estimate_tokens(stringify_js(item))
    return total


def _text_in(item: Any) -> tuple[str | None, JsonPath]:
    """The text of an item of a list of blocks, and its path in the item; None when it has no text."""
    if isinstance(item, str):
        return item, ()
    if isinstance(item, dict) and item.get("type") in document.TEXT_TYPES and isinstance(item.get("text"), str):
        return item["text"], ("text",)
    return None, ()


__all__ = ["Intercepted", "Payload", "intercept", "restore_message"]
_RECIPE_KEY = "restore"
_MIN_INLINE_TOKENS = MIN_INLINE_CHARS // 4 + 1


@dataclass(frozen=True, slots=True)
class Intercepted:
    """A message without its payloads, the payloads, and metadata about them.

    `notes` are the reference's keys for the metadata of parts, by ordinal; part 0 also has the recipe for the original.
    """

    message: Message
    payloads: tuple[Payload, ...]
    notes: Mapping[int, Mapping[str, Json]] = field(default_factory=dict)


def intercept(
    message: Message,
    *,
    threshold_tokens: int,
    conversation_id: int,
    decode: Decode,
    tool_of: Callable[[str], str | None] | None = None,
) -> Intercepted | None:
    """The message with references for its payloads; None when it has none, which is the usual case and cheap.

    `decode` reads a rewritten body (`lossless.formats.decode`); `tool_of` returns the tool for a call's id when the
    result does not name it, and is called for oversized results only.
    """
    if not may_hold_payload(message, threshold_tokens):
        return None
    draft = MessageDraft(message, document.document_of(message), conversation_id, threshold_tokens)
    extract_native_files(draft)
    extract_pasted_images(draft)
    extract_file_blocks(draft)
    extract_tool_answers(draft, tool_of)
    extract_oversized_rest(draft)
    if not draft.steps:
        return None
    try:
        shown = document.message_from(message, draft.document, decode)
    except BadMessage:  # a body that its own format cannot read is kept unchanged
        return None
    by_part: dict[int, list[Payload]] = {}
    for payload in draft.payloads.values():
        if payload.note is not None:
            texts = (part.text if isinstance(part, Text | ToolResult) else "" for part in shown.parts)
            at = next((n for n, text in enumerate(texts) if payload.file_id in text), 0)
            by_part.setdefault(at, []).append(payload)
    notes = {at: _keys(payloads) for at, payloads in by_part.items()}
    notes.setdefault(0, {})[_RECIPE_KEY] = draft.steps
    return Intercepted(shown, tuple(draft.payloads.values()), notes)


def may_hold_payload(message: Message, threshold_tokens: int) -> bool:
    """A cheap check whether detection is needed."""
    if message.tokens >= threshold_tokens:
        return True
    if message.parts and _parts_may(message, threshold_tokens):
        return True
    if message.tokens < _MIN_INLINE_TOKENS:
        return False
    if may_hold_image(message.content):
        return True
    raw = None if message.body is None else message.body.get("content")
    return isinstance(raw, str) and raw is not message.content and may_hold_image(raw)


def _parts_may(message: Message, threshold_tokens: int) -> bool:
    """Whether a part is a file, may contain one, or is large though the message's count is not."""
    for part in message.parts:
        kind = type(part)
        if kind is File or kind is Opaque:
            return True
        if kind is ToolResult and message.format == "anthropic":
            return any(spot.is_file for spot in document.find_spots(document.document_of(message), message.role))
        if message.body is None and isinstance(part, Text | ToolResult) and 2 * len(part.text) >= threshold_tokens:
            return True
    return False


def restore_message(message: Message, stored_recipe: Json, read: ReadFile, decode: Decode) -> Message:
    """The message before interception, with files that `read` returns; its `original` is what the host sent."""
    original = recipe.restore_document(document.document_of(message), recipe.check_recipe(stored_recipe), read)
    return document.message_from(message, original, decode)


def _keys(payloads: list[Payload]) -> dict[str, Json]:
    """The keys that lossless-claw writes: one id with its size, several as a list; file blocks always as a list."""
    first = payloads[0]
    keys: dict[str, Json] = {"externalizedFileIds": [payload.file_id for payload in payloads]}
    if len(payloads) == 1 and first.reason != "large_file_block":
        keys = {"externalizedFileId": first.file_id, "originalByteSize": len(first.data)}
    keys |= {str(payload.note): True for payload in payloads}
    return keys | {"externalizationReason": payloads[-1].reason}
