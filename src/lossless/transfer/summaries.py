"""Summaries of a conversation, sources first, with the depths, spans and counts that follow from them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from lossless.model.times import parse_time, state_time

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lossless.store.bundles import Bundle, Key, MessageId, Values


@dataclass(frozen=True, slots=True)
class Ordered:
    """Summaries that stand on something, sources first; and the ids of those that stand on nothing."""

    summaries: list[Values]
    dropped: list[str]


def ordered(bundle: Bundle) -> Ordered:
    """The summaries of a conversation, each made of messages or summaries of the same conversation."""
    messages = {key.id: key for key in bundle.keys}
    given = {one["summary_id"]: one for one in bundle.summaries}
    done: dict[str, Values] = {}
    for id_ in sources_first(given):
        one = given[id_]
        made_of = [source for source in dict.fromkeys(one["sources"]) if source in done]
        said = [message for message in dict.fromkeys(one["messages"]) if message in messages]
        if one["kind"] == "leaf" or not made_of:
            made_of = [] if said else made_of
        if made_of:
            done[id_] = one | _condensed([done[source] for source in made_of], one) | {"messages": []}
        elif said:
            done[id_] = one | _leaf([messages[message] for message in said], one) | {"messages": said}
        else:
            continue
        done[id_]["sources"] = made_of
    return Ordered(list(done.values()), [id_ for id_ in given if id_ not in done])


def sources_first(given: Mapping[str, Values]) -> list[str]:
    """The ids so that each comes after its sources; those in a circle are left out."""
    waiting = {id_: {source for source in one["sources"] if source in given} for id_, one in given.items()}
    used_in: dict[str, list[str]] = {}
    for id_, sources in waiting.items():
        for source in sources:
            used_in.setdefault(source, []).append(id_)
    ready = [id_ for id_, sources in waiting.items() if not sources]
    for id_ in ready:
        for above in used_in.get(id_, ()):
            waiting[above].discard(id_)
            if not waiting[above]:
                ready.append(above)
    return ready


def _leaf(messages: Sequence[Key], one: Values) -> Values:
    return {
        "kind": "leaf", "depth": 0, "descendant_count": 0, "descendant_token_count": 0,
        "source_message_token_count": sum(key.tokens for key in messages),
        **_span(one, [key.created_at for key in messages], [key.created_at for key in messages]),
    }  # fmt: skip


def _condensed(sources: Sequence[Values], one: Values) -> Values:
    return {
        "kind": "condensed",
        "depth": max(source["depth"] for source in sources) + 1,
        "descendant_count": sum(source["descendant_count"] + 1 for source in sources),
        "descendant_token_count": sum(source["token_count"] + source["descendant_token_count"] for source in sources),
        "source_message_token_count": sum(source["source_message_token_count"] for source in sources),
        **_span(one, [source["earliest_at"] for source in sources], [source["latest_at"] for source in sources]),
    }


def _span(one: Values, begins: Sequence[Any], ends: Sequence[Any]) -> Values:
    """The span that the summary has, else that of its sources."""
    return {
        "earliest_at": one["earliest_at"] or _time(min(filter(None, begins), default=None)),
        "latest_at": one["latest_at"] or _time(max(filter(None, ends), default=None)),
    }


def _time(text: str | None) -> str | None:
    try:
        return None if text is None else state_time(parse_time(text))
    except ValueError:
        return None


def below(summaries: Sequence[Values]) -> dict[str, list[MessageId]]:
    """All messages below each summary, in the order of its sources; summaries come sources first."""
    found: dict[str, list[MessageId]] = {}
    for one in summaries:
        mine = list(one["messages"])
        for source in one["sources"]:
            mine += found.get(source, [])
        found[one["summary_id"]] = mine
    return found
