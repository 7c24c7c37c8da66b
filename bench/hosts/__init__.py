"""The real programs, driven by scripted models and measured at the model's side. `python -m bench.hosts`"""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.hosts.sdk import AnthropicSDK, OpenAISDK

if TYPE_CHECKING:
    from bench.hosts.host import Host

_ALL: tuple[type[Host], ...] = (OpenAISDK, AnthropicSDK)
HOSTS: dict[str, type[Host]] = {kind.name: kind for kind in _ALL}
QUICK = ("openai-sdk", "anthropic-sdk")
