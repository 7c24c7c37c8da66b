"""All hosts that can be driven, by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench.hosts.claude_code import ClaudeCode, ClaudeCodeProxy
from bench.hosts.codex import Codex, CodexProxy
from bench.hosts.frameworks import GoogleADK, Hermes, LangChain, OpenAIAgents, PydanticAI
from bench.hosts.openclaw import OpenClaw, OpenClawAllTools, OpenClawOld
from bench.hosts.sdk import AnthropicSDK, OpenAISDK

if TYPE_CHECKING:
    from bench.hosts.host import Host

_ALL: tuple[type[Host], ...] = (
    OpenClaw,
    OpenClawAllTools,
    OpenClawOld,
    ClaudeCode,
    ClaudeCodeProxy,
    Codex,
    CodexProxy,
    OpenAISDK,
    AnthropicSDK,
    OpenAIAgents,
    PydanticAI,
    LangChain,
    GoogleADK,
    Hermes,
)
HOSTS: dict[str, type[Host]] = {kind.name: kind for kind in _ALL}
#: What `--quick` runs: the proxy with two real clients. `make test-hosts` has had the plugin in a gateway before.
QUICK = ("openai-sdk", "anthropic-sdk")
