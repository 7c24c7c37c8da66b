"""What Remnic's tables have no room for, kept in tables beside them, so that the way back is exact."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from lossless.transfer.payloads import Payloads
from lossless.transfer.plain import dump

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lossless.files.vault import Vault
    from lossless.store.bundles import Bundle, Values

#: In a part's metadata: the role that a message has in Remnic and cannot have here.
_ROLE = "remnicRole"
#: Columns that Remnic's own tables hold.
_THERE = frozenset(("content", "parts", "part"))


def role_mark(role: str) -> Values:
    """The part that remembers a role of Remnic's; it says nothing else."""
    metadata = {"originalRole": role, "topLevelReasoningOnly": True, _ROLE: role}
    return {"part_type": "text", "ordinal": 0, "metadata": json.dumps(metadata, separators=(",", ":"))}


def is_mark(part: Values) -> bool:
    """Whether a part is only such a memory."""
    return f'"{_ROLE}":' in (part.get("metadata") or "")


def role_there(message: Values) -> str:
    """The role of a message in Remnic."""
    for part in message["parts"]:
        if is_mark(part):
            return str(json.loads(part["metadata"])[_ROLE])
    return str(message["role"])


def rows(bundle: Bundle, vault: Vault | None) -> Iterator[tuple[str, str, str]]:
    """Kind, id and JSON of the rows of a conversation; texts that Remnic has are left out."""
    yield "conversation", "0", dump(bundle.conversation)
    for page in bundle.pages():
        for message in page:
            row = {name: value for name, value in message.items() if name not in _THERE}
            ids = [part.get("part_id") for part in message["parts"]]
            sessions = [part.get("session_id") for part in message["parts"]]
            yield "message", str(message["seq"]), dump(row | {"part_ids": ids, "part_sessions": sessions})
    for one in bundle.summaries:
        row = {name: value for name, value in one.items() if name not in ("content", "messages", "sources")}
        yield "summary", one["summary_id"], dump(row)
    for n, item in enumerate(bundle.context):
        yield "context_items", str(n), dump(item)
    source = Payloads(None, () if vault is None else vault.roots)
    for table, values in bundle.tables.items():
        for n, row in enumerate(values):
            if table == "large_files":
                data = source.read(row)
                row = row | ({} if data is None else {"data": base64.b64encode(data).decode()})
            yield table, str(n), dump(row)
