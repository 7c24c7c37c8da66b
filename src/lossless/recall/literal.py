"""Letters as they are: what is no word, or only a piece of one, is looked for in the texts themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.model.words import WORD
from lossless.store.skeleton import storable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lossless.store.search import Search
    from lossless.store.texts import AnyText

#: Up to so many messages with a word in it are read to see whether they hold the letters around it, too.
_MOST = 2000


class Literal:
    """Finds a text in others: as it is, else whatever its case."""

    def __init__(self, text: str) -> None:
        self.text = storable(text)
        self._lower = self.text.lower()

    @property
    def needed(self) -> tuple[str, ...]:
        """What a text must hold to be found."""
        return (self._lower,) if self._lower.isascii() else ()

    @property
    def ignores_case(self) -> bool:
        return True

    def sieve(self) -> None:
        """It is looked for quickly enough in each text."""

    def find(self, text: str, seconds: float = 0.0) -> tuple[int, int] | None:  # noqa: ARG002
        """Where it stands first, or None. The time is never short."""
        at = text.find(self.text)
        if at < 0:
            at = text.lower().find(self._lower)
        return None if at < 0 else (min(at, len(text)), min(at + len(self.text), len(text)))

    def is_in(self, text: AnyText) -> bool:
        """Whether a message or a summary holds it."""
        return self.find(text.content) is not None or self.find(text.called) is not None


def inner_words(text: str) -> list[str]:
    """The words of a text that cannot be pieces of longer ones: something else stands on both sides of them.

    >>> inner_words("ploy the new ser")
    ['the', 'new']
    """
    return [
        word.group()
        for word in WORD.finditer(text)
        if word.start() > 0 and word.end() < len(text) and word.group().isascii()
    ]


def likely_messages(search: Search, words: Sequence[str]) -> list[int] | None:
    """The messages that can hold a text with these words in it; None when that says too little."""
    counted = sorted((search.count(f'body: "{word}"', _MOST), word) for word in dict.fromkeys(words))
    if not counted or counted[0][0] > _MOST:
        return None
    return search.having(f'body: "{counted[0][1]}"')


def phrase_of(text: str) -> str | None:
    """The whole words inside of a text, with what stands between them; None when there are not two of them.

    >>> phrase_of("ploy the new ser"), phrase_of("two words")
    ('the new', None)
    """
    words = [word for word in WORD.finditer(text) if word.start() > 0 and word.end() < len(text)]
    return text[words[0].start() : words[-1].end()] if len(words) > 1 else None


def messages_with_phrase(search: Search, phrase: str) -> list[int]:
    """Messages that hold these words in a row, if there are not too many; those that break within may be missing."""
    quoted = phrase.replace("\0", " ").replace('"', '""')
    match = f'body: "{quoted}"'
    return search.having(match) if search.count(match, _MOST) <= _MOST else []


def is_strange(search: Search, text: str) -> bool:
    """Whether a text begins or ends with letters that are no word anywhere, so that it must be a piece of something."""
    words = list(WORD.finditer(text))
    ends = [word.group() for word in (words[:1] + words[-1:]) if word.start() == 0 or word.end() == len(text)]
    return any(search.count(f'body: "{word}"', 0) == 0 for word in ends)
