"""The recall cue: what a prompt names, the context does not show, and the archive has.

The search itself is the caller's. The cue stands directly before the newest user message: behind the
stable prefix, which so stays cached, and before the words that it belongs to.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from lossless.assembly.parts import newest_user
from lossless.assembly.render import escape
from lossless.formats.synthetic import CUE_CLOSE, CUE_OPEN
from lossless.model.index_text import unspaced_runs
from lossless.model.messages import Message

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

MAX_TERMS = 4
MAX_SNIPPETS = 4
MAX_SNIPPET_CHARS = 1200
#: How much of a prompt is looked at; a pasted log is not a question.
_PROMPT_CHARS = 20_000

_QUOTED = re.compile(
    r'"([^"\n]{3,80})"|“([^”\n]{3,80})”|„([^“”\n]{3,80})[“”]|«([^»\n]{3,80})»'
    r"|「([^」\n]{2,80})」|『([^』\n]{2,80})』|《([^》\n]{2,80})》|`([^`\n]{3,80})`"
)
#: In order of how telling they are. Lengths are bounded, so that no prompt is slow to read.
_NAMES = (
    re.compile(r"\b[A-Z][A-Z0-9]{0,40}(?:_[A-Z0-9]{1,40}){1,20}\b"),  # SCREAMING_SNAKE
    re.compile(r"(?<![\w/.~@+-])(?:~|\.{1,2})?/?[\w.@+-]{1,80}(?:/[\w.@+-]{1,80}){1,20}"),  # a/path/of.files
    re.compile(r"\b[A-Za-z]{2,12}-\d{2,12}\b"),  # ERR-4597
    re.compile(r"\b[^\W_]{1,40}(?:_[^\W_]{1,40}){1,20}\b"),  # snake_case
    re.compile(r"\b[A-Za-z][a-z0-9]{0,40}(?:[A-Z][a-z0-9]{1,40}){1,20}\b"),  # camelCase
    re.compile(r"(?<![\w-])[\w-]{1,80}\.(?:[a-z]{1,4}|toml|yaml|json|lock|proto|swift|kotlin)\b"),  # file.py
)
#: Chinese and Japanese words that join others: what stands between them is a name or a topic.
_JOINTS = re.compile("[的了是在和与我你他她它们吗呢吧也都就这那]|什么|怎么|为何|如何|[\u3041-\u309f]+")
_UNSPACED_CHARS = range(3, 13)

_SECRET_NAME = re.compile(
    r"(?:^|[^a-z])(?:key|keys|apikey|token|tokens|secret|secrets|password|passwd|passphrase|auth|credential"
    r"|credentials|bearer|private|pwd)(?:[^a-z]|$)",
    re.IGNORECASE,
)
_SECRET_VALUE = re.compile(
    r"\b(?:AKIA|ASIA)[0-9A-Z]{12,}|\bgh[pousr]_\w{16,}|\bgithub_pat_\w{16,}|\bglpat-[\w-]{16,}"
    r"|\bsk-[\w-]{12,}|\bxox[abprs]-[\w-]{8,}|\bAIza[\w-]{20,}|\bya29\.[\w-]{10,}"
    r"|\beyJ[\w-]{8,}\.[\w-]{8,}\.|-----BEGIN [A-Z ]*PRIVATE KEY"
    r"|(?:password|passwd|passphrase|secret|api[_-]?key|(?:access|auth|bearer)[_-]?token)['\"]?\s*[:=]\s*\S{4,}"
    r"|\b(?:bearer|basic)\s+[\w.~+/-]{16,}|://[^\s/:@]+:[^\s/@]+@",
    re.IGNORECASE,
)
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SENTENCE_END = re.compile(r"(?<=[.!?…])\s+|(?<=[。！？｡؟۔।])|\n+")


def looks_secret(text: str) -> bool:
    """Whether a text holds, or a name names, what should not be carried around.

    >>> [looks_secret(t) for t in ("DB_PASSWORD", "apiToken", "MAX_RETRIES", "sk-abcdefghijklmnop")]
    [True, True, False, True]
    """
    if _SECRET_VALUE.search(text):
        return True
    is_name = len(text) <= 80 and " " not in text
    return is_name and bool(_SECRET_NAME.search(_HUMP.sub("_", text)))


def cue_terms(prompt: str, shown: str = "", limit: int = MAX_TERMS) -> tuple[str, ...]:
    """What the prompt names and `shown` does not contain: identifiers, paths, quotations, unspaced words.

    >>> cue_terms('Why does MAX_RETRIES in src/queue.py say "never again"?', "src/queue.py")
    ('MAX_RETRIES', 'never again')
    """
    folded = shown.casefold()
    found: dict[str, None] = {}
    for term in _named(prompt[:_PROMPT_CHARS]):
        term = term.strip().rstrip(".,:;!?")
        is_part = any(term in other for other in found)
        if len(term) > 1 and not is_part and term.casefold() not in folded and not looks_secret(term):
            found[term] = None
        if len(found) == limit:
            break
    return tuple(found)


def _named(prompt: str) -> Iterator[str]:
    yield from _NAMES[0].findall(prompt)
    for groups in _QUOTED.findall(prompt):
        yield next(filter(None, groups))
    for pattern in _NAMES[1:]:
        yield from pattern.findall(prompt)
    words = [word for run in unspaced_runs(prompt) for word in _JOINTS.split(run)]
    yield from sorted((word for word in words if len(word) in _UNSPACED_CHARS), key=len, reverse=True)


def cue_snippet(text: str, term: str, max_chars: int = MAX_SNIPPET_CHARS) -> str | None:
    """The sentence of `text` that holds the term, cut to `max_chars`; None without it or if secret."""
    match = re.search(re.escape(term), text, re.IGNORECASE)
    if match is None:
        return None
    at = match.start()
    window_start = max(0, at - max_chars)
    window = text[window_start : at + len(term) + max_chars]
    start, end, place = 0, len(window), at - window_start
    for border in _SENTENCE_END.finditer(window):
        if border.end() <= place:
            start = border.end()
        elif border.start() >= place + len(term):
            end = border.start()
            break
    if end - start > max_chars:
        start = max(start, place - (max_chars - len(term)) // 2)
        end = min(end, start + max_chars)
    sentence = window[start:end].strip()
    return None if not sentence or looks_secret(sentence) else sentence


def cue_message(snippets: Iterable[tuple[str, str]], shown: str = "") -> Message | None:
    """The cue for (where it was said, sentence) pairs that are not shown yet; None when none is left."""
    lines: dict[str, str] = {}
    for where, sentence in snippets:
        if sentence not in shown and sentence not in lines and len(lines) < MAX_SNIPPETS:
            lines[sentence] = f"- [{where}] {escape(' '.join(sentence.split()))}"
    if not lines:
        return None
    body = "\n".join(lines.values())
    return Message(
        role="user",
        content=f"{CUE_OPEN}{body}{CUE_CLOSE}",
    )


def place_cue(messages: Sequence[Message], cue: Message) -> tuple[Message, ...]:
    """The messages with the cue directly before the newest user message; at the end when there is none.

    As they are when that message also carries tool results: nothing may stand between those and their calls.
    """
    at = newest_user(tuple(messages))
    at = len(messages) if at is None else at
    if at < len(messages) and messages[at].tool_results:
        return tuple(messages)
    return (*messages[:at], cue, *messages[at:])
