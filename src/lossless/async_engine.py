"""`AsyncEngine`: the methods of `Engine`, awaitable. Each call runs in a worker thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial, update_wrapper
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from lossless.engine import Engine, open_engine
from lossless.errors import BadInput

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from lossless.llm.completion import Prompt
    from lossless.settings import Settings

P = ParamSpec("P")
R = TypeVar("R")


def _awaited(
    verb: Callable[Concatenate[Engine, P], R],
) -> Callable[Concatenate[AsyncEngine, P], Coroutine[Any, Any, R]]:
    """The method as a coroutine with the same parameters, result and errors."""

    async def call(self: AsyncEngine, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return await asyncio.to_thread(verb, self.engine, *args, **kwargs)

    update_wrapper(call, verb)
    return call


class AsyncEngine:
    """An engine for programs with an event loop. A cancelled call still completes in its thread."""

    def __init__(self, open_it: Callable[[], Engine]) -> None:
        self._open, self._engine = open_it, None

    _engine: Engine | None

    @property
    def engine(self) -> Engine:
        """The underlying engine; its calls block."""
        if self._engine is None:
            raise BadInput("this engine is not open: use `async with lossless.open_async(…) as engine`")
        return self._engine

    append = _awaited(Engine.append)
    sync = _awaited(Engine.sync)
    bootstrap = _awaited(Engine.bootstrap)
    after_turn = _awaited(Engine.after_turn)
    assemble = _awaited(Engine.assemble)
    compact = _awaited(Engine.compact)
    maintain = _awaited(Engine.maintain)
    new = _awaited(Engine.new)
    reset = _awaited(Engine.reset)
    undo = _awaited(Engine.undo)
    backup = _awaited(Engine.backup)
    rotate = _awaited(Engine.rotate)
    pin = _awaited(Engine.pin)
    unpin = _awaited(Engine.unpin)
    grep = _awaited(Engine.grep)
    recall = _awaited(Engine.recall)
    recent = _awaited(Engine.recent)
    describe = _awaited(Engine.describe)
    expand = _awaited(Engine.expand)
    answer = _awaited(Engine.answer)
    sql = _awaited(Engine.sql)
    status = _awaited(Engine.status)
    receipts = _awaited(Engine.receipts)
    verify = _awaited(Engine.verify)
    settle = _awaited(Engine.settle)
    close = _awaited(Engine.close)

    async def run(self, work: Callable[[Engine], R]) -> R:
        """Any other operation of an engine: `await engine.run(lambda it: it.surgery.dissolve("sum_…"))`."""
        return await asyncio.to_thread(work, self.engine)

    async def __aenter__(self) -> AsyncEngine:
        self._engine = await asyncio.to_thread(self._open)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def open_async(
    path: str | Path | None = None,
    settings: Settings | None = None,
    complete: Callable[[Prompt], object] | None = None,
    *,
    background: bool = True,
) -> AsyncEngine:
    """Like `open`, for `async with`. `complete` may be a coroutine function; it runs on this event loop."""
    if complete is not None and iscoroutinefunction(complete):
        loop, asked = asyncio.get_running_loop(), complete

        def complete(prompt: Prompt) -> object:
            return asyncio.run_coroutine_threadsafe(asked(prompt), loop).result()

    return AsyncEngine(partial(open_engine, path, settings, complete, background=background))
