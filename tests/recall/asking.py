"""Asking questions through the tool, and what must hold after every one of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from lossless.recall.scope import Caller
from lossless.testing import say

from .archives import MAIN, toolbox

if TYPE_CHECKING:
    from lossless.recall.tools import Toolbox
    from lossless.store.archive import Archive

ASKED = {"prompt": "How long is a seat held?", "query": "seat hold minutes", "timeoutMs": 200_000}


def final(answer: str = "11 minutes.", cited: tuple[str, ...] = ("msg#12",), **more: Any) -> Any:
    return say(json.dumps({"answer": answer, "citedIds": list(cited)} | more))


def tool(name: str, **args: Any) -> Any:
    return say(json.dumps({"tool": name, "args": args}))


def box_with(archive: Archive, *models: Any, **more: Any) -> Toolbox:
    named = tuple((model.name, model) for model in models)
    return toolbox(archive, models=named, **more)


def ask(box: Toolbox, caller: Caller | None = None, **args: Any) -> dict[str, Any]:
    result = box.call("lcm_expand_query", ASKED | args, caller or Caller(MAIN))
    assert json.loads(result.text) == json.loads(json.dumps(result.details))
    assert result.is_error == ("error" in result.details)
    return result.details


def no_grant_is_left(archive: Archive) -> None:
    """Every grant was revoked and taken away from its holder, and no question is marked as running."""
    rows = archive.database.rows("SELECT revoked_at, holder FROM expansion_grants WHERE issuer = 'agent:main:main'")
    assert all(revoked and holder is None for revoked, holder in rows)
    assert not archive.database.rows("SELECT name FROM leases WHERE name LIKE 'expand_query:origin%'")
