"""Exports conversations as readable files: JSON lines, Markdown, or self-contained HTML pages without scripts."""

from __future__ import annotations

import hashlib
import html
import json
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING, Literal, TypeAlias

from lossless import formats
from lossless.errors import ArchiveCorrupt
from lossless.maintenance.engine_parts import with_payloads
from lossless.model.messages import File, Json, Opaque, Reasoning, ToolCall
from lossless.model.paths import create_private_file, expand_path
from lossless.store.bundles import BundleWriter, RowValues
from lossless.transfer.files import check_written, writing_folder
from lossless.transfer.lossless_claw import TransferOptions, reading_sessions

if TYPE_CHECKING:
    from pathlib import Path

    from lossless.files.vault import Vault
    from lossless.model.context import Summary
    from lossless.store.archive import Archive

    WriteText = Callable[[str], None]

_PAGE = 500


@dataclass(frozen=True, slots=True)
class ReadableMessage:
    """A readable message: its text, thinking, calls, files, and why it is hidden."""

    id: int
    seq: int
    role: str
    at: str
    text: str
    thoughts: tuple[str, ...] = ()
    calls: tuple[tuple[str, str], ...] = ()
    attached: tuple[str, ...] = ()
    hidden: str | None = None


def readable_messages(
    archive: Archive, conversation_id: int, hidden: dict[int | str, str]
) -> Iterator[ReadableMessage]:
    """The messages of a conversation, oldest first."""
    for stored in archive.messages.each(conversation_id, _PAGE):
        parts = stored.message.parts
        inputs = [(part.name, part.input) for part in parts if isinstance(part, ToolCall)]
        dump = partial(json.dumps, ensure_ascii=False, indent=1)
        calls = tuple((name, given if isinstance(given, str) else dump(given)) for name, given in inputs)
        thoughts = tuple(part.text for part in parts if isinstance(part, Reasoning) and part.text)
        attached = tuple(
            " ".join(filter(None, ("file", part.name, part.mime)))
            if isinstance(part, File)
            else f"block of type {part.type}"
            for part in parts
            if isinstance(part, File | Opaque)
        )
        role, at, text = stored.message.role, f"{stored.created_at:%Y-%m-%d %H:%M:%S} UTC", stored.message.content
        yield ReadableMessage(stored.id, stored.seq, role, at, text, thoughts, calls, attached, hidden.get(stored.id))


def _lines(write: WriteText, archive: Archive, vault: Vault | None, conversation_id: int) -> int:
    """Write each original message with its id and time, as `lcm append` reads it; returns how many."""
    count = 0
    for stored in archive.messages.each(conversation_id, _PAGE):
        message = with_payloads(archive, vault, stored.message, archive.context.recipes([stored.id]).get(stored.id))
        if message.body is None and message.parts:
            body: dict[str, Json] = dict(formats.encode([message], "openclaw")[0])
        else:
            body = message.original
        line: dict[str, Json] = {"message": body, "timestamp": f"{stored.created_at:%Y-%m-%dT%H:%M:%SZ}"}
        if stored.entry_id is not None:
            line["id"] = stored.entry_id
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        write((text if text.isprintable() else json.dumps(line, separators=(",", ":"))) + "\n")
        count += 1
    return count


def file_name(conversation_id: int, name: str, ending: str) -> str:
    """A file name that is valid on every system, for any session name."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:60].strip("-")
    return f"{conversation_id:04d}{f'-{plain}' if plain else ''}.{ending}"


PageFormat: TypeAlias = Literal["jsonl", "markdown", "html"]
_ENDINGS: dict[PageFormat, str] = {"jsonl": "jsonl", "markdown": "md", "html": "html"}

_STYLE = files(__package__).joinpath("pages.css").read_text(encoding="utf-8").replace("\n", "")
_LAYOUTS: dict[str, dict[str, str]] = tomllib.loads(files(__package__).joinpath("pages.toml").read_text("utf-8"))
#: Control characters, made visible.
_VISIBLE = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}


@dataclass(slots=True)
class PagesReport:
    """What was written: one file per conversation, and for HTML an index."""

    folder: str
    files: list[str] = field(default_factory=list)
    conversations: int = 0
    messages: int = 0
    summaries: int = 0
    warnings: list[str] = field(default_factory=list)


@contextmanager
def _writing_page(path: Path) -> Iterator[WriteText]:
    """A function that writes text to a new file; when the block succeeds the file was read back and compared."""
    digest = hashlib.sha256()
    if not path.exists():
        create_private_file(path)
    with path.open("wb") as file:

        def write(text: str) -> None:
            data = text.encode("utf-8", "replace")  # what UTF-8 cannot encode becomes a question mark
            digest.update(data)
            file.write(data)

        yield write
    check_written(path, digest.hexdigest())


def export_pages(
    archive: Archive, vault: Vault | None, target: str | Path, kind: PageFormat, options: TransferOptions
) -> PagesReport:
    """One file for each conversation in a folder, read back: JSON lines for `lcm append`, Markdown, or HTML."""
    report = PagesReport(str(expand_path(target).absolute()))
    hidden = BundleWriter(archive).hidden
    with (
        reading_sessions(archive, options.sessions, report.warnings) as (source, wanted),
        writing_folder(target, overwrite=options.overwrite) as folder,
    ):
        for conversation in wanted:
            number = conversation["conversation_id"]
            name = file_name(number, str(conversation["session_key"] or conversation["session_id"]), _ENDINGS[kind])
            summaries = archive.summaries.many([one["summary_id"] for one in source.summaries(number)])
            # the widest first, then in the order of what they cover
            found = sorted(summaries, key=lambda one: (-one.depth, str(one.earliest_at), one.id))
            with _writing_page(folder / name) as page:
                if kind == "jsonl":
                    count = _lines(page, archive, vault, number)
                else:
                    messages = readable_messages(archive, number, hidden(number))
                    count = _write_page(page, kind, conversation, found, messages)
            if count != len(source.keys(number)):
                there = len(source.keys(number))
                raise ArchiveCorrupt(f"conversation {number} has {there} messages; {count} were read")
            report.files.append(name)
            report.conversations += 1
            report.messages += count
            report.summaries += len(found)
            if options.progress:
                options.progress(count)
        if kind == "html":
            with _writing_page(folder / "index.html") as page:
                _write_index(page, wanted, report.files)
    return report


def _render(kind: PageFormat, part: str, /, **values: object) -> str:
    return _LAYOUTS[kind][part].format_map(values)


def _write_page(
    write: WriteText, kind: PageFormat, about: RowValues, found: Sequence[Summary], messages: Iterator[ReadableMessage]
) -> int:
    put, (line, quote, _) = partial(_render, kind), _ESCAPES[kind]
    write(put("head", title=line(_title(about)), style=_STYLE))
    for name, value in _facts(about):
        write(put("fact", name=line(name), value=line(value)))
    write(put("facts_end"))
    if found:
        write(put("summaries"))
    for one in found:
        span = f", {one.earliest_at:%Y-%m-%d} to {one.latest_at:%Y-%m-%d}" if one.earliest_at and one.latest_at else ""
        place = {"kind": one.kind, "depth": one.depth, "tokens": one.tokens, "span": span}
        write(put("summary", id=line(one.id), text=quote(one.content), **place))
    write(put("messages"))
    count = 0
    for message in messages:
        write(render_message(kind, message))
        count += 1
    write(put("end"))
    return count


def render_message(kind: PageFormat, message: ReadableMessage) -> str:
    """A message as text of a page, in which it can do nothing."""
    put, (line, quote, fence) = partial(_render, kind), _ESCAPES[kind]
    mark, hidden = (f" · hidden: {line(message.hidden)}", " hidden") if message.hidden else ("", "")
    about = {"id": message.id, "seq": message.seq, "at": message.at, "mark": mark, "hidden": hidden}
    parts = [put("message", role=line(message.role), **about)]
    parts += [put("thought", text=quote(text)) for text in message.thoughts]
    if message.text:
        is_output = message.role == "tool"
        parts.append(put("output", text=fence(message.text)) if is_output else put("said", text=quote(message.text)))
    parts += [put("call", name=line(name), given=fence(given)) for name, given in message.calls]
    parts += [put("attached", what=line(attached)) for attached in message.attached]
    return "".join(parts) + put("message_end")


def _write_index(write: WriteText, conversations: Sequence[RowValues], names: Sequence[str]) -> None:
    write(_render("html", "head", title="Conversations", style=_STYLE))
    for conversation, name in zip(conversations, names, strict=True):
        title, made = _safe(_title(conversation)), _safe(conversation["created_at"])
        write(_render("html", "entry", file=_safe(name), title=title, made=made))
    write(_render("html", "entries_end"))


def _quoted(text: str) -> str:
    """A quoted text that cannot leave its quote."""
    return "\n".join(f"> {line}".rstrip() for line in text.translate(_VISIBLE).splitlines())


def _fenced(text: str) -> str:
    """A text in a fence that is longer than any inside it."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.translate(_VISIBLE)}\n{fence}"


def _line(text: object) -> str:
    plain = " ".join(str(text).translate(_VISIBLE).split())
    return re.sub(r"([\\`*\[\]<>#|]|(?<![^\W_])_|_(?![^\W_]))", r"\\\1", plain)  # no _ inside of a word


def _safe(text: object) -> str:
    return html.escape(str(text).translate(_VISIBLE), quote=True)


#: How a kind of page escapes a line, a text, and the words of a program.
_ESCAPES = {"markdown": (_line, _quoted, _fenced), "html": (_safe, _safe, _safe)}


def _title(conversation: RowValues) -> str:
    named = conversation["title"] or conversation["session_key"] or conversation["session_id"]
    return str(named or f"Conversation {conversation['conversation_id']}")


def _facts(conversation: RowValues) -> list[tuple[str, str]]:
    names = (("Conversation", "conversation_id"), ("Session key", "session_key"), ("Session id", "session_id"),
             ("Made", "created_at"), ("Archived", "archived_at"), ("Cause", "archive_cause"))  # fmt: skip
    return [(name, str(conversation[column])) for name, column in names if conversation[column] is not None]
