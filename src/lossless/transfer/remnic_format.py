"""Maps archives to Remnic databases: message positions, the summary tree, parts, and tables for an exact way back."""

from __future__ import annotations

import base64
import json
import re
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lossless.model.js_json import compact_json
from lossless.model.times import parse_time
from lossless.store.bundles import Bundle, MessageId, MessageKey, RowValues, fit_row
from lossless.transfer.files import PayloadCopier, dump_row
from lossless.transfer.merge_plan import messages_below, sources_first

if TYPE_CHECKING:
    from lossless.files.vault import Vault
    from lossless.store.bundles.other_programs import RemnicSession


@dataclass(slots=True)
class RemnicReport:
    """The result of an export to a Remnic database: the counters of Remnic's own importer, and warnings."""

    conversations_scanned: int = 0
    sessions_touched: list[str] = field(default_factory=list)
    messages_inserted: int = 0
    messages_skipped: int = 0
    message_parts_inserted: int = 0
    message_parts_skipped: int = 0
    summaries_inserted: int = 0
    summaries_skipped: int = 0
    summaries_multi_parent_collapsed: int = 0
    summaries_skipped_no_messages: int = 0
    summaries_skipped_multi_session: int = 0
    compaction_events_inserted: int = 0
    dry_run: bool = False
    warnings: list[str] = field(default_factory=list)


SessionBy: TypeAlias = Literal["session_id", "session_key", "conversation"]
#: What the model of a summary from Remnic is called, with the level of its escalation.
REMNIC_MODEL = "remnic:escalation-"
#: The entry id of a message from a Remnic database: its turn there, and its number.
_CAME_AT = re.compile(r"remnic:(\d+)\.\d+")


def entry_id(turn: int, number: int) -> str:
    """The entry id of a stored message of a Remnic session."""
    return f"remnic:{turn}.{number}"


def remnic_session(conversation: RowValues, by: SessionBy) -> str:
    """The Remnic session of a conversation."""
    number = str(conversation["conversation_id"])
    run = str(conversation["session_id"] or "").strip() or number
    if by == "session_key":
        return str(conversation["session_key"] or "").strip() or run
    return number if by == "conversation" else run


#: The position of a message in Remnic: session and turn, and its id there when it already exists.
RemnicPosition: TypeAlias = tuple[str, int, int | None]


def remnic_positions(
    conversations: Sequence[tuple[RowValues, Sequence[MessageKey]]],
    session_by: SessionBy,
    stored_session: Callable[[str], RemnicSession],
    *,
    compat: bool = False,
) -> dict[tuple[MessageId, MessageId], RemnicPosition]:
    """A turn for each message, by conversation and id: in order of time, without changing existing ones."""
    sessions: defaultdict[str, list[tuple[object, object, int, MessageId, MessageKey]]] = defaultdict(list)
    for conversation, keys in conversations:
        id_ = conversation["conversation_id"]
        times: list[str | float] = [key.created_at for key in keys] if compat else []
        latest = float("-inf")
        for key in () if compat else keys:  # times that never decrease: within a conversation its own order holds
            with suppress(ValueError, OverflowError):
                latest = max(latest, parse_time(key.created_at).timestamp())
            times.append(latest)
        rows = sessions[remnic_session(conversation, session_by)]
        rows += [(at, _order(id_), key.seq, id_, key) for at, key in zip(times, keys, strict=True)]
    found: dict[tuple[MessageId, MessageId], RemnicPosition] = {}
    for session, rows in sessions.items():
        newest, there, _ = stored_session(session)
        turn = newest
        for _, _, seq, id_, key in sorted(rows, key=lambda row: row[:3]):
            known = there.get(f"{id_}|{seq}")
            if known is not None:
                found[id_, key.id] = session, known[1], known[0]
                continue
            match = _CAME_AT.fullmatch(key.entry_id or "")
            turn = max(turn + 1, int(match[1]) if match and newest < 0 else 0)
            found[id_, key.id] = session, turn, None
    return found


def _order(id_: MessageId) -> tuple[int, int, str]:
    return (0, id_, "") if isinstance(id_, int) else (1, 0, id_)


@dataclass(frozen=True, slots=True)
class RemnicNode:
    """A summary in Remnic's form: its session, and the turns that it covers."""

    summary: RowValues
    session: str
    start: int
    end: int
    depth: int = 0
    parent: str | None = None
    is_there: bool = False

    @property
    def id(self) -> str:
        return str(self.summary["summary_id"])


#: The summaries to export, and existing ones without a parent with their new parent.
RemnicNodes: TypeAlias = "tuple[list[RemnicNode], list[tuple[str, str]]]"


def faithful_nodes(
    summaries: Mapping[str, RowValues],
    at: Mapping[MessageId, RemnicPosition],
    there: Mapping[str, tuple[str, str | None]],
    sessions: Collection[str],
    report: RemnicReport,
) -> RemnicNodes:
    """The exact graph: a summary is under the one made of it; the report names what is left out."""
    spans: dict[str, RemnicNode] = {}
    for id_ in sources_first(summaries):
        one = summaries[id_]
        parts = [spans[source] for source in one["sources"] if source in spans]
        if not parts or one["kind"] == "leaf":
            if (leaf := _leaf(report, one, at)) is not None:
                spans[id_] = leaf
            continue
        if len({part.session for part in parts}) > 1:
            report.summaries_skipped_multi_session += 1
            report.warnings.append(f"summary {id_!r} covers several sessions: left out")
            continue
        start, end = min(part.start for part in parts), max(part.end for part in parts)
        spans[id_] = RemnicNode(one, parts[0].session, start, end, 1 + max(part.depth for part in parts))
    above = _above(report, summaries, spans, sessions)
    nodes = [
        replace(span, parent=above.get(id_), is_there=id_ in there)
        for id_, span in sorted(spans.items(), key=lambda item: (-item[1].depth, item[0]))
        if not sessions or span.session in sessions
    ]
    alone = [node for node in nodes if node.is_there and there[node.id][1] is None]
    return nodes, [(node.id, node.parent) for node in alone if node.parent is not None]


def _leaf(report: RemnicReport, one: RowValues, at: Mapping[MessageId, RemnicPosition]) -> RemnicNode | None:
    """A leaf with its turns; None, and counted, when it has none or they span several sessions."""
    if not one["messages"]:
        report.summaries_skipped_no_messages += 1
        report.warnings.append(f"summary {one['summary_id']!r} has no messages: left out")
        return None
    found = [at.get(id_) for id_ in one["messages"]]
    sessions = {place[0] for place in found if place is not None}
    if None in found or len(sessions) != 1:
        report.summaries_skipped_multi_session += 1
        why = "has messages that are missing or of several sessions"
        report.warnings.append(f"summary {one['summary_id']!r} {why}: left out")
        return None
    turns = [turn for _, turn, _ in filter(None, found)]
    return RemnicNode(one, sessions.pop(), min(turns), max(turns))


def _above(
    report: RemnicReport, summaries: Mapping[str, RowValues], spans: Mapping[str, RemnicNode], sessions: Collection[str]
) -> dict[str, str]:
    """The single parent of each summary: of several, the shallowest, then the first by id."""
    users: defaultdict[str, list[str]] = defaultdict(list)
    for id_, span in spans.items():
        if span.depth:
            for source in summaries[id_]["sources"]:
                if source in spans and (not sessions or span.session in sessions):
                    users[source].append(id_)
    report.summaries_multi_parent_collapsed = sum(len(above) > 1 for above in users.values())
    for source, above in users.items():
        if len(above) > 1:
            report.warnings.append(f"summary {source!r} is used in {len(above)} others: the tree keeps one")
    return {source: min(above, key=lambda id_: (spans[id_].depth, id_)) for source, above in users.items()}


def compatible_nodes(
    summaries: Mapping[str, RowValues],
    at: Mapping[MessageId, RemnicPosition],
    there: Mapping[str, tuple[str, str | None]],
    sessions: Collection[str],
    report: RemnicReport,
) -> RemnicNodes:
    """The graph as Remnic's own importer makes it: summaries over messages, "parent" as in the column."""
    nodes = list[RemnicNode]()
    spans: dict[str, RemnicNode] = {}
    for id_, one in sorted(summaries.items(), key=lambda item: (item[1]["depth"] or 0, item[0])):
        span = _leaf(report, one, at)
        if span is not None and (not sessions or span.session in sessions):
            spans[id_] = span
    for id_, span in spans.items():
        given = summaries[id_]["sources"]
        valid = [
            source for source in given
            if (spans[source].session if source in spans else there.get(source, ("",))[0]) == span.session
        ]  # fmt: skip
        if len(valid) < len(given):
            report.warnings.append(f"summary {id_!r}: dropped {len(given) - len(valid)} parent link(s)")
        if len(valid) > 1:
            report.summaries_multi_parent_collapsed += 1
            report.warnings.append(f"summary {id_!r} has {len(valid)} parents: kept {valid[0]!r}")
        depth, parent = summaries[id_]["depth"] or 0, valid[0] if valid else None
        nodes.append(replace(span, depth=depth, parent=parent, is_there=id_ in there))
    order = {node.id: node for node in nodes}
    edges = {id_: {"sources": [node.parent] if node.parent else []} for id_, node in order.items()}
    return [order[id_] for id_ in sources_first(edges)], []


def build_graph(
    nodes: Sequence[RowValues], owner: Mapping[int, int], turns: Mapping[int, Sequence[tuple[int, int]]]
) -> tuple[dict[int, list[RowValues]], list[str]]:
    """Assign each node its conversation, its messages (`members`) and its sources (`below`).

    Returns the nodes of each conversation, and the ids of those without a single conversation.

    A leaf belongs to the conversation whose messages its range begins and ends with. Links between shallow and deep
    nodes are accepted in either direction.
    """
    owned: dict[int, list[RowValues]] = {}
    mixed: list[str] = []
    sources = _sources(nodes)
    edges = {node["id"]: {"sources": sources[node["id"]]} for node in nodes}
    by_id = {node["id"]: node for node in nodes}
    belongs: dict[str, int] = {}
    for id_ in sources_first(edges):
        node = by_id[id_]
        made_of = [source for source in sources[id_] if source in belongs]
        owners = {belongs[source] for source in made_of}
        members: list[int] = []
        if not made_of:
            members = _members(node, owner, turns)
            owners = {owner[number] for number in members if number in owner}
        if len(owners) != 1:
            mixed.append(id_)
            continue
        (belongs[id_],) = owners
        owned.setdefault(belongs[id_], []).append(node | {"members": members, "below": made_of})
    return owned, mixed


def _sources(nodes: Sequence[RowValues]) -> dict[str, list[str]]:
    """The sources of each node: as recorded, else by the links of the tree in the order of their turns."""
    depths = {node["id"]: node["depth"] for node in nodes}
    linked: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    starts = {node["id"]: node["start"] for node in nodes}
    for node in nodes:
        other = node["parent_id"]
        if other in depths and depths[other] != node["depth"]:
            above, source = (other, node["id"]) if depths[other] > node["depth"] else (node["id"], other)
            linked[above].append((starts[source], source))
    in_tree = {id_: [source for _, source in sorted(found)] for id_, found in linked.items()}
    recorded = ((node["id"], node["sources"] or in_tree.get(node["id"], ())) for node in nodes)
    return {id_: [source for source in found if source in depths] for id_, found in recorded}


def _members(node: RowValues, owner: Mapping[int, int], turns: Mapping[int, Sequence[tuple[int, int]]]) -> list[int]:
    """The messages of a leaf: as recorded, else those of its range in the conversation at both its ends."""
    if node["messages"]:
        return [number for number in node["messages"] if number in owner]
    best: list[int] = []
    at_both_ends = False
    for rows in turns.values():
        ordered = sorted(rows)
        first = bisect_left(ordered, (node["start"],))
        last = bisect_right(ordered, (node["end"], float("inf")))
        inside = [number for _, number in ordered[first:last]]
        ends = bool(inside) and ordered[first][0] == node["start"] and ordered[last - 1][0] == node["end"]
        if (ends, len(inside)) > (at_both_ends, len(best)):
            best, at_both_ends = inside, ends
    return best


def derive_context(
    keys: Sequence[MessageKey], summaries: Sequence[RowValues], hidden: set[Any], kept: Sequence[RowValues] | None
) -> list[RowValues]:
    """A context in which each message occurs once: the stored one with later messages, else a new one."""
    order = {key.id: n for n, key in enumerate(keys)}
    given = {one["summary_id"]: one for one in summaries}
    covered = messages_below([given[id_] for id_ in sources_first(given)])
    if kept is not None:
        items: list[MessageId | str] = [item["summary_id"] or item["message_id"] for item in kept]
        shown = {id_ for item in items for id_ in covered.get(str(item), [item])}
        behind = {key.id for key in keys if str(key.entry_id or "").startswith("remnic:")}
        later = [key.id for key in keys if key.id not in shown and key.id not in hidden and key.id in behind]
        return [*kept, *_items(later, given, start=max((item["ordinal"] for item in kept), default=-1) + 1)]
    used = {source for one in summaries for source in one["sources"]}
    places: list[tuple[int, MessageId | str]] = []
    seen: set[MessageId] = set()
    tops = [id_ for id_ in covered if id_ not in used and id_ not in hidden and covered[id_]]
    for id_ in sorted(tops, key=lambda id_: (min(order[m] for m in covered[id_]), -given[id_]["depth"], id_)):
        if seen.isdisjoint(covered[id_]):
            places.append((min(order[message] for message in covered[id_]), id_))
            seen.update(covered[id_])
    places += [(order[key.id], key.id) for key in keys if key.id not in seen and key.id not in hidden]
    return _items([id_ for _, id_ in sorted(places, key=lambda place: place[0])], given)


def _items(ids: Sequence[MessageId | str], summaries: Collection[str], start: int = 0) -> list[RowValues]:
    blank: RowValues = {"message_id": None, "summary_id": None, "created_at": None}
    kinds = ("summary" if id_ in summaries else "message" for id_ in ids)
    items = enumerate(zip(ids, kinds, strict=True), start)
    return [blank | {"ordinal": n, "item_type": kind, f"{kind}_id": id_} for n, (id_, kind) in items]


#: In a part's metadata: a message's role in Remnic that does not exist here.
_ROLE = "remnicRole"
#: Columns that Remnic's own tables hold.
_THERE = frozenset(("content", "parts", "part"))


def role_marker(role: str) -> RowValues:
    """A part that only records a role of Remnic's."""
    metadata = {"originalRole": role, "topLevelReasoningOnly": True, _ROLE: role}
    return {"part_type": "text", "ordinal": 0, "metadata": json.dumps(metadata, separators=(",", ":"))}


def is_role_marker(part: RowValues) -> bool:
    """Whether a part only records a role of Remnic's."""
    return f'"{_ROLE}":' in (part.get("metadata") or "")


def remnic_role(message: RowValues) -> str:
    """The role of a message in Remnic."""
    for part in message["parts"]:
        if is_role_marker(part):
            return str(json.loads(part["metadata"])[_ROLE])
    return str(message["role"])


def extra_table_rows(bundle: Bundle, vault: Vault | None) -> Iterator[tuple[str, str, str]]:
    """Kind, id and JSON of the rows of a conversation, without texts that Remnic has."""
    yield "conversation", "0", dump_row(bundle.conversation)
    for page in bundle.pages():
        for message in page:
            row = {name: value for name, value in message.items() if name not in _THERE}
            ids = [part.get("part_id") for part in message["parts"]]
            sessions = [part.get("session_id") for part in message["parts"]]
            yield "message", str(message["seq"]), dump_row(row | {"part_ids": ids, "part_sessions": sessions})
    for one in bundle.summaries:
        row = {name: value for name, value in one.items() if name not in ("content", "messages", "sources")}
        yield "summary", one["summary_id"], dump_row(row)
    for n, item in enumerate(bundle.context):
        yield "context_items", str(n), dump_row(item)
    source = PayloadCopier(None, () if vault is None else vault.roots)
    for table, values in bundle.tables.items():
        for n, row in enumerate(values):
            if table == "large_files":
                data = source.read(row)
                row = row | ({} if data is None else {"data": base64.b64encode(data).decode()})
            yield table, str(n), dump_row(row)


#: Remnic's kinds of parts that have other names in lossless-claw.
_TYPES = {"tool_call": "tool", "tool_result": "tool", "file_read": "file", "file_write": "file"}
_PART_TYPES = frozenset(
    ("text", "reasoning", "tool", "patch", "file", "subtask", "compaction", "step_start", "step_finish", "snapshot",
     "agent", "retry")
)  # fmt: skip
_ROLES = {"toolResult": "tool", "developer": "system", "function": "tool"}
ROLES = frozenset(("system", "user", "assistant", "tool"))
#: Columns with a part's position rather than its content.
_PLACE = frozenset(("part_id", "session_id", "ordinal"))


def known_role(given: object) -> str:
    """One of the four roles that both archives know; any other becomes `user`."""
    name = str(given)
    return name if name in ROLES else _ROLES.get(name, "user")


def part_to_remnic(part: RowValues) -> RowValues:
    """A part of lossless-claw in Remnic's form; its payload has every non-empty column."""
    if "part_type" not in part:
        payload, kind = _object(part.get("payload")), part.get("kind", "tool_call")
        file, at = part.get("file_path"), part.get("created_at")
    else:
        payload = {name: value for name, value in part.items() if name not in _PLACE and value is not None}
        file, at = part.get("file_name") or part.get("file_url"), None
        # a tool is a call or a result; all other kinds but files keep their names
        is_result = part.get("tool_output") is not None or part.get("tool_error") is not None
        names = {"file": "file_read", "tool": "tool_result" if is_result else "tool_call"}
        kind = names.get(part["part_type"], part["part_type"])
    return {
        "ordinal": part["ordinal"], "kind": kind, "payload": compact_json(payload),
        "tool_name": part.get("tool_name"), "file_path": file, "created_at": at,
    }  # fmt: skip


def part_to_columns(part: RowValues, role: str) -> RowValues:
    """A part of Remnic in lossless-claw's form: its original columns, or the closest ones for its kind."""
    if "part_type" in part:
        return part
    payload = _object(part.get("payload"))
    place = {name: part[name] for name in (*_PLACE, "message_id") if part.get(name) is not None}
    if payload.get("part_type") in _PART_TYPES:
        payload.pop("message_id", None)
        return place | fit_row(payload)
    kind = str(part.get("kind") or "tool_call")
    part_type = _TYPES.get(kind, kind if kind in _PART_TYPES else "agent")
    columns = {"part_type": part_type, "tool_name": part.get("tool_name"), "file_name": part.get("file_path")}
    if part_type in ("text", "reasoning"):
        columns["text_content"] = _text(payload, "text", "content", "value") or ""
    if kind == "tool_call":
        columns |= {"tool_call_id": _text(payload, "id", "call_id"), "tool_input": _some(payload, "input", "arguments")}
    if kind == "tool_result":
        columns |= {"tool_call_id": _text(payload, "call_id", "id"), "tool_output": _some(payload, "output", "content")}
    raw_type = {"tool_call": "toolCall", "tool_result": "toolResult"}.get(kind, kind)
    metadata = {"originalRole": "toolResult" if role == "tool" else role, "rawType": raw_type}
    columns["metadata"] = compact_json(metadata | {"raw": {"type": raw_type} | payload})
    return place | {name: value for name, value in columns.items() if value is not None}


def _object(payload: object) -> dict[str, Any]:
    """A payload as an object; anything else becomes the value of one."""
    if isinstance(payload, str):
        with suppress(ValueError):
            payload = json.loads(payload)
    return payload if isinstance(payload, dict) else {} if payload is None else {"value": payload}


def _text(payload: dict[str, Any], *names: str) -> str | None:
    return next((payload[name] for name in names if isinstance(payload.get(name), str)), None)


def _some(payload: dict[str, Any], *names: str) -> str | None:
    return next((compact_json(payload[name]) for name in names if payload.get(name) is not None), None)
