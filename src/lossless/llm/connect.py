"""From a candidate to a callable: its address, its key, its client."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from lossless.errors import BadSetting, ModelDenied
from lossless.llm.command import command_model
from lossless.llm.credentials import Sources, custom_provider, resolve
from lossless.llm.providers import APIS, Endpoint, ProviderModel

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lossless.llm.base import Complete
    from lossless.llm.candidates import Candidate
    from lossless.llm.prices import Price
    from lossless.llm.providers import Api

#: The provider whose model is a command line: `command/claude -p`.
COMMAND = "command"


@dataclass(frozen=True, slots=True)
class Connector:
    """Makes the callable of a configured candidate. A candidate that nobody configured is denied."""

    sources: Sources = field(default_factory=Sources)
    #: Addresses by provider, before the providers' own.
    base_urls: Mapping[str, str] = field(default_factory=dict)
    timeout_seconds: float = 60.0
    prices: Mapping[str, Price] = field(default_factory=dict)
    clock: Callable[[], float] = time.time

    def __call__(self, candidate: Candidate, /) -> Complete:
        if not candidate.is_configured:
            raise ModelDenied(f"{candidate.name} is the host's model: only the host may ask it")
        if candidate.provider == COMMAND:
            return command_model(candidate.model, self.timeout_seconds)
        return ProviderModel(self.endpoint(candidate), self.timeout_seconds, self.prices.get(candidate.name))

    def endpoint(self, candidate: Candidate) -> Endpoint:
        """Where and how a candidate is reached; raises `ModelAuth` when its login has run out."""
        custom = custom_provider(candidate.provider, self.sources)
        return Endpoint(
            candidate.provider,
            candidate.model,
            self.base_urls.get(candidate.provider) or custom.base_url,
            _api(custom.api),
            resolve(candidate.provider, self.sources, int(self.clock() * 1000)),
        )


def _api(name: str | None) -> Api | None:
    for api in APIS:
        if api == name:
            return api
    if name is None:
        return None
    raise BadSetting("api", name, "models file", ", ".join(APIS))
