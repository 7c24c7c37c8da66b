"""What a made-up host's people, models and tools say: few texts that repeat, or texts that are all different."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from random import Random

Body: TypeAlias = dict[str, Any]

#: Few, so that most messages repeat; some of them have broken something somewhere.
REPEATED = ("ok", "yes", "go on", "", " ", "ok\n", "😀", "\u202eabc\u202c", "a\x00b", "\ud800 half", "<summary>")
_HOSTILE = (
    "NEAR(a b)", "'; DROP TABLE messages; --", "مرحبا", "你好，世界", "👩‍💻", "e\u0301", "\u2028", "\ufeff", "a\x00b",
    "\udfff", "<summary id=", "[LCM File: x]", "{body extra}:", "\r\n", "-" * 300,
)  # fmt: skip
#: 2026-01-01 in milliseconds.
FIRST = 1_767_225_600_000


@dataclass(frozen=True, slots=True)
class HostMessage:
    """One event of a log: who said what, after which other one. `body` is it as the host keeps it."""

    number: int
    parent: int | None
    body: Body
    #: A chat host delivers it in a frame of metadata that is another one each time.
    is_framed: bool = False


def turn(dice: Random, first: int, *, distinct: bool, plain: bool = False) -> list[tuple[Body, bool]]:
    """What follows: words of a user or an assistant, or a call with its results; each with whether it is framed.

    `plain` leaves out what looks like something else that was said: calls, frames, a line feed more.
    """
    kind = dice.choice(("user", "user", "framed", "assistant", "calls"))
    if plain:
        kind = "assistant" if kind == "assistant" else "user"
    if kind == "calls":
        return [(body, False) for body in _calls(dice, first, distinct=distinct)]
    words = _words(dice, first, distinct=distinct)
    words = words.removesuffix("\n") if plain else words
    if kind == "assistant":
        body = {"role": "assistant", "content": [_text(words)], "stopReason": "stop", "timestamp": _at(first)}
        return [(body, False)]
    content: Any = words if dice.random() < 0.6 or not words.strip() else [_text(words)]
    framed = kind == "framed" and bool(words.strip())
    return [({"role": "user", "content": words if framed else content, "timestamp": _at(first)}, framed)]


def _calls(dice: Random, first: int, *, distinct: bool) -> list[Body]:
    reused = not distinct and dice.random() < 0.5
    ids = [f"call_{0 if reused else first}_{n}" for n in range(dice.randint(1, 2))]
    asks = [{"type": "toolCall", "id": id_, "name": "exec", "arguments": {"n": 1}} for id_ in ids]
    spoken = [_text(_words(dice, first, distinct=distinct))] if distinct or dice.random() < 0.5 else []
    asked = {"role": "assistant", "content": [*spoken, *asks], "stopReason": "toolUse", "timestamp": _at(first)}
    at_once = dice.random() < 0.5
    results = [
        {
            "role": "toolResult",
            "toolCallId": id_,
            "toolName": "exec",
            "content": [_text(_words(dice, first + n, distinct=distinct) if distinct or not reused else f"out {id_}")],
            "isError": False,
            "timestamp": _at(first + 1 if at_once else first + n),
        }
        for n, id_ in enumerate(ids, 1)
    ]
    return [asked, *results]


def _words(dice: Random, number: int, *, distinct: bool) -> str:
    if not distinct:
        return dice.choice(REPEATED) if dice.random() < 0.9 else "the long words of a harbour at night " * 12
    more = " ".join(f"{dice.getrandbits(32):x}" for _ in range(dice.choice((2, 2, 40))))
    return f"{number} {more} {dice.choice(_HOSTILE)}"


def _text(words: str) -> Body:
    return {"type": "text", "text": words}


def _at(number: int) -> int:
    """No two events are said in the same millisecond, though in the same second, but for the answers to calls."""
    return FIRST + number * 301


def words_of(body: Body) -> str:
    """The text of a body."""
    content = body["content"]
    return content if isinstance(content, str) else "".join(block.get("text", "") for block in content)


def saying(body: Body, words: str) -> Body:
    """The body with other words, and all else as it was."""
    content = body["content"]
    if isinstance(content, str):
        return body | {"content": words}
    others = [block for block in content if block["type"] != "text"]
    return body | {"content": [_text(words), *others]}


def framed(body: Body, delivery: int) -> Body:
    """The body in the frame of one delivery; only what differs from delivery to delivery is another one."""
    info = json.dumps({"message_id": f"m{delivery}", "timestamp": f"t{delivery}", "sender": "bo"})
    return saying(body, f"Conversation info (untrusted metadata):\n```json\n{info}\n```\n\n{words_of(body)}")


def untimed(body: Body) -> Body:
    """The body as a runtime hands it over before the time is noted."""
    return {name: value for name, value in body.items() if name != "timestamp"}
