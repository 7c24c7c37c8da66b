"""LangGraph: a checkpointer that keeps the messages of every thread in an archive, in addition to your own.

saver = LosslessSaver(InMemorySaver(), engine, budget=128_000)
graph = builder.compile(checkpointer=saver)  # and in a node: model.invoke(saver.fit(state["messages"]))
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING, Any

from lossless.hosts.adapter import WindowSync, extra, required_session
from lossless.providers.token_limits import overhead_tokens

with extra("langchain"):
    from langchain_core.messages import SystemMessage
    from langgraph.checkpoint.base import BaseCheckpointSaver

    from lossless.hosts import langchain
    from lossless.hosts.langchain import THREAD_HINT, current_session, from_langchain

if TYPE_CHECKING:
    from lossless.engine import Engine
    from lossless.model.conversations import Session


class LosslessSaver(BaseCheckpointSaver):
    """Passes every checkpoint on to another saver; messages in it are kept under their `thread_id`.

    A subgraph with messages of its own has a session of its own, `thread_id|namespace`.
    """

    def __init__(
        self, saver: BaseCheckpointSaver, engine: Engine, *, budget: int | None = None, channel: str = "messages"
    ) -> None:
        super().__init__(serde=saver.serde)
        self._saver, self._channel = saver, channel
        self._windows = WindowSync(engine, "langchain", budget)
        #: The recall tools, for a node that calls tools.
        self.tools = langchain.recall_tools(self._windows)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Save a checkpoint, and keep its messages when they have changed."""
        done = self._saver.put(config, checkpoint, metadata, new_versions)
        self._keep(config, checkpoint, new_versions)
        return done

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        done = await self._saver.aput(config, checkpoint, metadata, new_versions)
        await asyncio.to_thread(self._keep, config, checkpoint, new_versions)
        return done

    def fit(self, messages: Sequence[Any], tools: Sequence[Any] = ()) -> list[Any]:
        """Inside a node: what a model shall see of a thread's messages; system prompts stay where they are.

        Name the `tools` that the model is bound to: their definitions take room, too.
        """
        return self._fitted(current_session(), messages, tools)

    async def afit(self, messages: Sequence[Any], tools: Sequence[Any] = ()) -> list[Any]:
        return await asyncio.to_thread(self._fitted, current_session(), messages, tools)

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> LosslessSaver:
        """The same with a saver that may read more types."""
        saver, windows = self._saver.with_allowlist(extra_allowlist), self._windows
        return type(self)(saver, windows.engine, budget=windows.budget, channel=self._channel)

    @property
    def config_specs(self) -> Any:
        return self._saver.config_specs

    def _keep(self, config: Any, checkpoint: Any, new_versions: Any) -> None:
        messages = checkpoint["channel_values"].get(self._channel)
        if self._channel in new_versions and isinstance(messages, list) and messages:
            self._windows.turn(_session(config), from_langchain(self._windows, messages))

    def _fitted(self, session: Session, messages: Sequence[Any], tools: Sequence[Any]) -> list[Any]:
        overhead = overhead_tokens(tools=langchain.sent_tools(tools))
        fitting = self._windows.fit(session, from_langchain(self._windows, messages), overhead)
        if fitting is None:
            return list(messages)
        head = [message for message in messages if isinstance(message, SystemMessage)]
        return [*head, *langchain.to_langchain(self._windows, fitting)]


def _session(config: Any) -> Session:
    known = config.get("configurable") or {}
    below = known.get("checkpoint_ns")
    thread = required_session(known.get("thread_id"), THREAD_HINT)
    return thread if not below else required_session(f"{thread.key}|{below}", THREAD_HINT)


def _passed_on(name: str) -> Callable[..., Any]:
    def call(self: LosslessSaver, *args: Any, **options: Any) -> Any:
        return getattr(self._saver, name)(*args, **options)

    return call


for _name, _value in vars(BaseCheckpointSaver).items():
    if callable(_value) and not _name.startswith("_") and _name not in vars(LosslessSaver):
        setattr(LosslessSaver, _name, _passed_on(_name))
