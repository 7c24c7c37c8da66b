"""What prompts tell about a tokenizer where a host sends an unknown frame around them: how two of them differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossless.engine import Engine

#: A prompt must have grown by so many tokens to tell anything.
_LEAST = 500


@dataclass(slots=True)
class Growth:
    """Two prompts of one session with the same frame: what was added, by our estimate and by the provider's count."""

    model: str | None = None
    estimated: int = 0
    reported: int = 0

    def seen(self, estimated: int, reported: int) -> tuple[int, int] | None:
        """What has been added since the last prompt that told something; None when that is too little, or less."""
        added, counted = estimated - self.estimated, reported - self.reported
        is_first = not self.reported
        if 0 <= added < _LEAST and not is_first:
            return None
        self.estimated, self.reported = estimated, reported
        return None if is_first or added < _LEAST or counted <= 0 else (added, counted)

    def learn(self, engine: Engine, estimated: int, reported: int | None) -> None:
        """Let the archive know what a prompt tells about its model's tokenizer."""
        if self.model and reported and (grown := self.seen(estimated, reported)):
            engine.host.learn(self.model, *grown)
