"""Short texts that stand for long ones and say how to open them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.assembly.parts import answers, with_parts
from lossless.files.references import tool_reference
from lossless.model.messages import Message, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Ids of summaries that a stub for a run of messages names before it only counts them.
MAX_NAMED = 6
#: What the line about what is left out takes at most, as it is sent.
NOTICE_TOKENS = 160


def message_ref(message_id: int) -> str:
    """How a message is named to the model, as `lcm_grep` prints it.

    >>> message_ref(812)
    'msg#812'
    """
    return f"msg#{message_id}"


def turn_output_stub(message_id: int, tool: str | None, byte_size: int, *, recall: bool = True) -> str:
    """Stands for an older tool output of the turn that is still going on; with `recall` it says how to read it."""
    ref = message_ref(message_id)
    how = f' Call lcm_describe(id="{ref}") to read it in full.' if recall else ""
    return (
        f"[LCM Tool Output: {ref} | tool={tool or 'unknown'} | {byte_size:,} bytes]\nLeft out of this long turn.{how}"
    )


def stub_results(message: Message, message_id: int, *, recall: bool = True) -> Message:
    """The message with each of its results stubbed; ids, names and error marks stay, so it still pairs."""
    results = answers(message)
    parts = tuple(
        replace(
            part,
            text=turn_output_stub(message_id, part.name, len(part.text.encode("utf-8", "replace")), recall=recall),
        )
        if isinstance(part, ToolResult) and part in results
        else part
        for part in message.parts
        if message.role != "tool" or isinstance(part, ToolResult)
    )
    return with_parts(message, parts)


def stub_file(message: Message, file_id: str, byte_size: int, summary: str) -> Message:
    """The message with its one result replaced by the reference to the file that holds it."""
    parts = tuple(
        replace(part, text=tool_reference(file_id, part.name, byte_size, summary))
        for part in message.parts
        if isinstance(part, ToolResult)
    )
    return with_parts(message, parts)


def left_out_line(count: int, next_id: int | None, summary_ids: Sequence[str], *, recall: bool = True) -> Message:
    """Says how many messages, before which, and which summaries are left out with nothing standing for them.

    It changes only when what is left out does.
    """
    before = "" if next_id is None else f" before {message_ref(next_id)}"
    what = [_count(count, "message") + before] if count else []
    what += [_named(summary_ids)] if summary_ids else []
    how = " lcm_grep searches them, lcm_describe opens them by id." if recall else ""
    return Message(role="user", content=f"[LCM left out here to make room: {'; '.join(what)}.{how}]")


def _named(summary_ids: Sequence[str]) -> str:
    more = f" and {len(summary_ids) - MAX_NAMED} more" if len(summary_ids) > MAX_NAMED else ""
    return ", ".join(summary_ids[:MAX_NAMED]) + more


def run_stub(message_ids: Sequence[int], summary_ids: Sequence[str] = (), *, recall: bool = True) -> Message:
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
