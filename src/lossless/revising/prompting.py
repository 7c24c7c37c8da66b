"""The prompt that a model would get for a summary, without asking it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lossless.compaction.prompts import condensed_target, leaf_target, render
from lossless.compaction.source_text import Line, Section, condensed_text, leaf_text
from lossless.model.tokens import estimate_tokens

if TYPE_CHECKING:
    from lossless.compaction.escalate import Source
    from lossless.compaction.prompts import SummaryPrompt
    from lossless.compaction.summariser import Summariser


def prompt_of(summariser: Summariser, source: Source) -> SummaryPrompt:
    """The first prompt for a summary of a source, in the summariser's words."""
    wording, sizes = summariser.wording, summariser.sizes
    if source.depth == 0:
        text = leaf_text([part for part in source.parts if isinstance(part, Line)], wording.timezone)
        target = leaf_target(estimate_tokens(text), sizes.leaf_target_tokens)
    else:
        text = condensed_text([part for part in source.parts if isinstance(part, Section)], wording.timezone)
        target = condensed_target(sizes.condensed_target_tokens)
    return render(
        text,
        target,
        depth=source.depth,
        previous_context=source.previous_context,
        instructions=wording.instructions,
        folder=wording.folder,
    )
