"""The one seam to language models: a prompt goes in, a completion comes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from decimal import Decimal

#: How much a model is asked to think before it answers; None leaves it to the model.
Effort: TypeAlias = Literal["low", "medium", "high"]


@dataclass(frozen=True, slots=True)
class Prompt:
    """One question to a model. `purpose` says what it is for (`summary`, `file`, `answer`, …)."""

    system: str
    user: str
    #: The most tokens that the answer may take, thinking included.
    max_tokens: int
    #: Sent only where the model takes it.
    temperature: float | None = None
    purpose: str = "summary"
    reasoning: Effort | None = None
    #: The size that the answer should have, when there is one: a second try leaves at least this much room.
    target_tokens: int = 0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a call consumed, as its provider reported it; a cost of None is unknown, never zero."""

    #: All tokens of the prompt, those read from and written to a cache included.
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read: int = 0
    cache_write: int = 0
    #: In US dollars.
    cost: Decimal | None = None


#: A call that reported nothing.
NO_USAGE = Usage()


@dataclass(frozen=True, slots=True)
class Completion:
    """A model's answer without its thinking; an empty text is an answer that says nothing."""

    text: str
    #: `provider/model`, or the name that a host or a command goes by.
    model: str
    usage: Usage = NO_USAGE
    #: Why generation ended, as the provider spells it.
    stop_reason: str | None = None
    #: The answer was cut off before its end.
    incomplete: bool = False
    #: Types of the blocks that came back, for a diagnosis when there is no text among them.
    blocks: tuple[str, ...] = ()


class Complete(Protocol):
    """Sends one prompt to a language model and returns its answer.

    Slow, and it may fail: raises `ModelError`, or the class below it that says why. Called from a worker
    thread when a time limit is to be kept. Never touches the archive.
    """

    def __call__(self, prompt: Prompt, /) -> Completion: ...
