"""Who writes summaries: the host's model, a configured one, or nobody (then they are extracted)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lossless.compaction.escalate import Answer, Sizes, Wording
from lossless.compaction.gate import ArchiveGate
from lossless.llm import guard
from lossless.llm.base import Prompt
from lossless.llm.candidates import Candidate, Choices, candidate_order, configured
from lossless.llm.chain import Chain
from lossless.llm.connect import Connector
from lossless.llm.credentials import Sources
from lossless.llm.host import HostModel
from lossless.llm.prices import read_prices
from lossless.paths import expanded
from lossless.settings.paths import Places

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime
    from pathlib import Path

    from lossless.compaction.prompts import SummaryPrompt
    from lossless.llm.base import Complete, Completion
    from lossless.llm.chain import Gate
    from lossless.settings import Settings
    from lossless.store.archive import Archive

#: Room for a model to think before it writes.
_THINKING_TOKENS = 2048
_FILE = "file"
_DESCRIBE = "You describe stored files for people and agents who have not read them."
#: Room for the 300 words that are asked for.
_WORDS = 600
_HOST = Candidate("host", "model", "settings")


@dataclass(frozen=True, slots=True)
class Summariser:
    """How summaries are written here. Without a model `ask` is None and they are extracted."""

    settings: Settings
    complete: Callable[[Prompt], object] | None = None
    prompt_folder: Path | None = None
    #: Makes a candidate's callable; another one in tests.
    connect: Callable[[Candidate], Complete] | None = None

    @property
    def sizes(self) -> Sizes:
        return Sizes(
            self.settings.leaf_target_tokens,
            self.settings.condensed_target_tokens,
            self.settings.summary_max_overage_factor,
            self.settings.fallback_max_tokens,
        )

    def instructed(self, instructions: str | None) -> Summariser:
        """One that is told this besides what the settings say; itself when there is nothing to add."""
        if not instructions or not instructions.strip():
            return self
        both = "\n\n".join(filter(None, (self.settings.custom_instructions.strip(), instructions.strip())))
        return replace(self, settings=replace(self.settings, custom_instructions=both))

    @property
    def wording(self) -> Wording:
        settings = self.settings
        folder = self.prompt_folder or (expanded(settings.prompt_dir) if settings.prompt_dir else None)
        return Wording(settings.custom_instructions, folder, settings.timezone or "UTC")

    def candidates(self) -> Sequence[Candidate]:
        """The models that would be asked, in order; the host's own goes alone, and its denial is final."""
        if self.complete is not None:
            return (_HOST,)
        fallbacks = tuple((route.provider, route.model) for route in self.settings.fallback_providers)
        choices = Choices(
            summary_model=self.settings.summary_model,
            summary_provider=self.settings.summary_provider,
            fallbacks=fallbacks,
        )
        return configured(candidate_order(choices))

    @property
    def has_model(self) -> bool:
        return bool(self.candidates())

    def gate(self, archive: Archive, conversation_id: int, clock: Callable[[], datetime]) -> ArchiveGate:
        """Breaker and spend limit of a conversation's summaries."""
        limits = self.settings
        return ArchiveGate(
            archive,
            guard.compaction_scope(str(conversation_id)),
            conversation_id,
            clock,
            guard.SpendLimits(
                timedelta(milliseconds=limits.summary_call_window_ms),
                limits.summary_max_calls_per_window,
                timedelta(milliseconds=limits.summary_spend_backoff_ms),
            ),
            guard.BreakerLimits(
                limits.circuit_breaker_threshold, timedelta(milliseconds=limits.circuit_breaker_cooldown_ms)
            ),
        )

    def chain(self, gate: Gate) -> Chain:
        """The models as one callable behind a gate."""
        seconds = self.settings.summary_timeout_ms / 1000
        return Chain(self.candidates(), self._connect, seconds, gate)

    def readers(self, gate: Gate) -> list[tuple[str, Chain]]:
        """Models that answer questions, by name: the one that was named for it, then the one that summarises."""
        named = Choices(summary_model=self.settings.expansion_model, summary_provider=self.settings.expansion_provider)
        seconds = self.settings.delegation_timeout_ms / 1000
        orders = [configured(candidate_order(named)) if self.complete is None else (), self.candidates()]
        return [(order[0].name, Chain(order, self._connect, seconds, gate)) for order in orders if order]

    def ask(self, gate: ArchiveGate) -> Callable[[SummaryPrompt], Answer]:
        """One summary prompt to the chain."""
        chain, thinking = self.chain(gate), self.settings.enable_summary_thinking

        def ask(prompt: SummaryPrompt, /) -> Answer:
            completion: Completion = chain(
                Prompt(
                    prompt.system,
                    prompt.user,
                    prompt.target_tokens + (_THINKING_TOKENS if thinking else 0),
                    prompt.temperature,
                    reasoning="low" if thinking else None,
                    target_tokens=prompt.target_tokens,
                )
            )
            return Answer(completion.text, completion.model, completion.incomplete)

        return ask

    @property
    def describers(self) -> Sequence[Candidate]:
        """The model that describes stored files: only when both settings name one. A host's own goes in its place."""
        model, provider = self.settings.large_file_summary_model, self.settings.large_file_summary_provider
        if not model.strip() or not provider.strip():
            return ()
        named = Choices(summary_model=model, summary_provider=provider)
        return (_HOST,) if self.complete is not None else configured(candidate_order(named))

    def describe_with(self, gate: ArchiveGate) -> Callable[[str], str]:
        """Asks the describing model about a file, behind breaker and spend limit of files."""
        own = replace(gate, scope=_FILE, purpose=_FILE, conversation_id=None, tickets=[])
        chain = Chain(self.describers, self._connect, self.settings.summary_timeout_ms / 1000, own)

        def describe(question: str, /) -> str:
            return chain(Prompt(_DESCRIBE, question, 2 * _WORDS, 0.2, _FILE, target_tokens=_WORDS)).text

        return describe

    def _connect(self, candidate: Candidate) -> Complete:
        if candidate is _HOST and self.complete is not None:
            return HostModel(self.complete, timeout_seconds=self.settings.summary_timeout_ms / 1000)
        if self.connect is not None:
            return self.connect(candidate)
        return self.connector()(candidate)

    def connector(self) -> Connector:
        """What knows the addresses and keys of configured candidates; `summaryBaseUrl` is the first one's alone."""
        url = self.settings.summary_base_url
        urls = {first.provider: url for first in self.candidates()[:1] if url and first.source == "settings"}
        sources = Sources(state_dir=Places.of().state_dir)
        prices = read_prices(self.settings.model_prices)
        return Connector(sources, urls, self.settings.summary_timeout_ms / 1000, prices)
