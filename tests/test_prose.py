"""The docs and the help texts are plain modern English: phrases that were banned do not come back."""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING

import click
import pytest

from tests.test_docs import FENCE, PAGES, ROOT, name_of, read

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

#: What is not written here, as a pattern for whole words, and what to write instead.
BANNED = {
    r"all else": "everything else",
    r"anew|afresh": "again, or a verb with re-",
    r"as else": "as usual",
    r"as it came": "unchanged",
    r"behind (?:our|your|its) back": "who changed it",
    r"beside": "next to, in addition to, in a separate …",
    r"blotted out": "masked",
    r"but for": "except",
    r"comes? along": "is copied, is imported",
    r"comes? upon": "find",
    r"for ever": "forever",
    r"for good": "permanently",
    r"for want of": "without",
    r"goes? on where": "continue where",
    r"in vain": "wasted",
    r"into shape": "format",
    r"(?<!there )(?:is|are) no (?:archive|damage|error|evidence|JSON|messages?|overflow|text)": "is not",
    r"leafs? through": "browse",
    r"left alone": "not changed",
    r"lies?": "is",
    r"mend(?:s|ed|ing)?": "fix",
    r"newer word": "newer than … on the same matter",
    r"nobody|somebody|whoever": "the person or program that is meant",
    r"ow(?:e|es|ed|ing)": "pending",
    r"of ours": "of lossless",
    r"one a line": "one per line",
    r"pay(?:s|ing)? (?:off|what|(?:\w+ ){0,2}(?:debts?|sweeps?))": "run pending compactions",
    r"put(?:s|ting)? off": "defer",
    r"reckon(?:s|ed|ing)?": "count, compute",
    r"shall": "should, must",
    r"so many (?:by|calls|files|lines|messages|seconds|tokens)": "this many",
    r"(?:speaks?|spoken) of": "mention",
    r"st(?:and|ands|ood) (?:before|behind|for|in|there|where)": "be, replace, mean",
    r"stays? as (?:it is|it was|they are)": "does not change",
    r"stands? together": "are shown together",
    r"takes? (?:its|their) place": "replace",
    r"takes? note": "record, accept",
    r"(?:is|are|was|were|been|unless) told(?! apart)": "who says what to whom",
    r"unasked": "by accident",
    r"what (?:is|was|has been) said": "messages, text",
}
#: What programs read: it stays as it was published.
FROZEN = frozenset(("Mend the line", "Mend the line and append from it on", "lcm --db anew.db "))
SOURCE = ROOT / "src" / "lossless"
CODE = re.compile(r"`+[^`]+`+")
PATTERNS = {re.compile(rf"\b(?:{phrase})\b", re.IGNORECASE): advice for phrase, advice in BANNED.items()}


def banned(text: str) -> list[str]:
    """The banned phrases of a text, each with its surroundings; code is not looked at."""
    flat = " ".join(CODE.sub("`…`", FENCE.sub("", text)).split())
    return [
        f"{flat[max(0, hit.start() - 40) : hit.end() + 40]!r}: {hit[0]!r} → {advice}"
        for pattern, advice in PATTERNS.items()
        for hit in pattern.finditer(flat)
    ]


def help_texts(command: click.Command, path: str = "lcm") -> Iterator[tuple[str, str]]:
    """Every text that `--help` can show, with the command it belongs to."""
    texts = [command.help, command.short_help, command.epilog]
    texts += [param.help for param in command.params if isinstance(param, click.Option)]
    yield from ((path, text) for text in texts if text)
    if isinstance(command, click.Group):
        with click.Context(command, info_name=path) as context:
            for name in command.list_commands(context):
                below = command.get_command(context, name)
                assert below is not None
                yield from help_texts(below, f"{path} {name}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_pages_are_plain_english(page: Path) -> None:
    assert banned(read(page)) == []


def test_help_texts_are_plain_english() -> None:
    from lossless.cli.main import cli

    texts = list(help_texts(cli))
    assert len(texts) > 100
    assert [(path, hit) for path, text in texts for hit in banned(text)] == []


def messages(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The texts with more than one word in a module, each with its line; docstrings are left out."""
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            pieces = (str(part.value) if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield node.lineno, "".join(pieces)
        elif isinstance(node, ast.Constant) and " " in str(node.value) and id(node) not in docs | parts:
            yield node.lineno, str(node.value)


def test_messages_are_plain_english() -> None:
    files = [file for folder in ("cli", "settings", "transfer", "tui") for file in (SOURCE / folder).rglob("*.py")]
    texts = {f"{file.stem}:{line}": text for file in files for line, text in messages(ast.parse(read(file)))}
    assert len(texts) > 1000
    assert {place: hit for place, text in texts.items() if text not in FROZEN for hit in banned(text)} == {}


def test_banned_phrases_are_found() -> None:
    (hit,) = banned("Run `lcm worker` to pay\nthe sweeps.")
    assert "pay the sweeps" in hit
    assert "run pending compactions" in hit
    assert len(banned("Nobody mends what stands there beside it for good.")) == 5
    assert banned("`nobody` and\n```sh\nlcm rewrite --afresh\n```\nare told apart, for goodness' sake.") == []
