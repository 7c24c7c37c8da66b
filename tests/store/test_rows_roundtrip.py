"""What is stored comes back as it came, and every text lies in one place only."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import lossless
from bench.agent_conversation import agent_conversation
from lossless import errors, formats
from lossless.model.messages import File, Message, ModelIdentity, Opaque, Reasoning, Text, ToolCall, ToolResult
from lossless.store.rows import decompress_residual, pack_message
from lossless.testing import sample_conversation
from lossless.testing.strategies import MESSAGES, hostile_text, json_values
from tests.faults import SESSION, open_engine, problems
from tests.tool_streams import tool_streams

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lossless.model.messages import StoredMessage

Body = dict[str, Any]
NUMBERS = count()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lossless.Engine]:
    """One archive for all cases of a property; it is verified at the end."""
    with open_engine(tmp_path_factory.mktemp("roundtrip") / "lcm.db") as engine:
        yield engine
        assert problems(engine) == []


def store(engine: lossless.Engine, messages: Iterable[Body | Message]) -> list[StoredMessage]:
    """Append to a fresh session and read back."""
    session = lossless.Session(key=f"case {next(NUMBERS)}")
    report = engine.append(session, messages)
    return engine.archive.messages.many(report.message_ids)


def same_json(ours: object, theirs: object) -> bool:
    """Equal as JSON text: key order, kinds of numbers and lone surrogates included."""
    return json.dumps(ours) == json.dumps(theirs)


@pytest.mark.parametrize("format", MESSAGES)
@given(data=st.data())
def test_every_format_comes_back_as_it_came(shared: lossless.Engine, format: str, data: st.DataObject) -> None:
    body = data.draw(MESSAGES[format]())
    (stored,), decoded = store(shared, [body]), formats.decode(body)
    assert same_json(stored.message.original, body)
    assert (stored.message.tokens, stored.message.role) == (decoded.tokens, decoded.role)
    assert same_parts(stored.message, decoded)


def same_parts(stored: Message, decoded: Message) -> bool:
    """Parts survive, but for a single text that says what the content says."""
    if not stored.parts and len(decoded.parts) == 1:
        return decoded.parts[0] == Text(decoded.content)
    return stored.parts == decoded.parts


@given(text=hostile_text(), field=st.text(max_size=8), value=json_values())
def test_hostile_text_comes_back(shared: lossless.Engine, text: str, field: str, value: object) -> None:
    """Lone surrogates, NUL, blanks, markup: in plain messages, blocks, results, calls and unknown fields."""
    bodies: list[Body] = [
        {"role": "user", "content": text},
        {"role": "user", "content": [{"type": "text", "text": text}, {"type": "odd", "value": text}]},
        {"role": "tool", "tool_call_id": "exec:1", "content": text},
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {"x": text, "y": [text]}}],
        },
        {"role": "assistant", "content": text, "reasoning_content": text, f"x{field}": value, "$": {"$": text}},
    ]
    for body, stored in zip(bodies, store(shared, bodies), strict=True):
        assert same_json(stored.message.original, body)


@given(stream=tool_streams())
def test_broken_tool_streams_come_back(shared: lossless.Engine, stream: Any) -> None:
    stored = store(shared, stream[1])
    assert [message.message.original for message in stored] == list(stream[1])


def test_long_conversations_come_back(shared: lossless.Engine) -> None:
    for messages in (list(agent_conversation(400, unicode=True)), list(sample_conversation(300))):
        assert [stored.message.original for stored in store(shared, messages)] == messages


@pytest.mark.parametrize(
    "message",
    [
        Message("user", "hello"),
        Message("user", "hello", (Text("hello"), Text("there"))),
        Message("assistant", "", (Reasoning("hm", "sig"), ToolCall("c1", "read", {"a": [1, 2.5, None]}))),
        Message("assistant", "", (ToolCall(None, "read", '{"n": 1}'),)),
        Message("tool", "out", (ToolResult("c1", "read", "out", is_error=True),)),
        Message("tool", "joined", (ToolResult("c1", "read", "one"), ToolResult("c2", None, "two"))),
        Message(
            "user", "see", (File({"type": "image", "data": "QUJD"}, "image/png", "a.png"), Opaque([1, "x"], "odd"))
        ),
        Message("assistant", "hi", identity=ModelIdentity("anthropic", "messages", "claude", "claude-1")),
        Message("assistant", "hi", (Text("hi"), Text("you")), identity=ModelIdentity("a", "b", "c")),
        Message("user", "counted", tokens=4711),
    ],
    ids=lambda message: " ".join(type(part).__name__ for part in message.parts) or message.content,
)
def test_messages_made_by_hand_come_back(shared: lossless.Engine, message: Message) -> None:
    (stored,) = store(shared, [message])
    again = stored.message
    assert (again.role, again.content, again.tokens) == (message.role, message.content, message.tokens)
    assert (again.identity, again.body) == (message.identity, None)
    assert same_parts(again, message)


# --- what is refused ------------------------------------------------------------------------------


def test_names_that_python_takes_for_equal_are_not_mixed_up() -> None:
    names: list[Any] = [1, True, 1.0, "1", ["1"]]
    made = [pack_message(Message("assistant", "hi", identity=ModelIdentity("p", "a", name))) for name in names]
    kept = [json.loads(parts[0].metadata)["modelId"] for _, parts, _ in made]
    assert list(map(repr, kept)) == list(map(repr, names))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ({"role": "tool", "tool_call_id": "\ud800", "content": "x"}, "lone surrogate"),
        ({"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "\udfff", "input": {}}]}, "lone"),
        ({"content": "x"}, "role"),
        ({"role": 7, "content": "x"}, "role"),
        ({"role": "user", "content": float("nan")}, "JSON"),
        ("just text", "expected an object"),
        (Message("wizard", "x"), "not a role"),  # type: ignore[arg-type]
        (Message("assistant", "x", (ToolCall("c", "n", float("inf")),)), "JSON"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_its_place(engine: lossless.Engine, body: Any, why: str) -> None:
    """Nothing of the batch is stored, so the host knows exactly where it stands."""
    for call in (engine.append, engine.sync):
        with pytest.raises(errors.BadMessage, match=why) as caught:
            call(SESSION, [{"role": "user", "content": "fine"}, body])
        assert caught.value.index == 1
    assert engine.archive.listings.counts().messages == 0


def test_names_that_are_no_text_are_refused(engine: lossless.Engine) -> None:
    fine = {"role": "user", "content": "x"}
    with pytest.raises(errors.BadInput, match="the key contains a lone"):
        engine.append(SESSION, [fine], key="\ud800")
    with pytest.raises(errors.BadInput, match="session key"):
        engine.sync(lossless.Session(key="\ud800"), [fine])
    with pytest.raises(errors.BadMessage, match="entry_id"):
        engine.append(SESSION, [lossless.Incoming(fine, entry_id="\ud800")])
    assert engine.archive.listings.counts().conversations == 0


def test_ten_megabytes_are_no_trouble(engine: lossless.Engine) -> None:
    bodies: list[Body] = [
        {"role": "user", "content": "word " * 2_000_000},
        {"role": "tool", "tool_call_id": "exec:1", "content": "x" * 10_000_000},
    ]
    assert [stored.message.original for stored in store(engine, bodies)] == bodies
    assert problems(engine) == []


# --- where it lies --------------------------------------------------------------------------------


def test_plain_text_takes_no_part_row(engine: lossless.Engine) -> None:
    """Rows by kind: none for words alone, one with call id and name for a result, structure only for the rest."""
    identity = {"api": "messages", "provider": "anthropic", "model": "claude"}
    call = {"type": "toolCall", "id": "exec:1", "name": "read", "arguments": {"path": "a"}}
    bodies: list[Body] = [
        {"role": "user", "content": "one string"},
        {"role": "assistant", "content": "an answer"},
        {"role": "assistant", "content": [{"type": "text", "text": "signed"}], **identity},
        {"role": "assistant", "content": [{"type": "text", "text": "I look"}, call], **identity},
        {
            "role": "toolResult",
            "toolCallId": "exec:1",
            "toolName": "read",
            "content": [{"type": "text", "text": "got"}],
        },
    ]
    ids = [stored.id for stored in store(engine, bodies)]
    rows = engine.archive.database.rows(
        "SELECT message_id, part_type, text_content, tool_call_id, tool_name, tool_input, metadata ->> '$.modelId',"
        " metadata ->> '$.topLevelReasoningOnly' FROM message_parts ORDER BY message_id, ordinal"
    )
    assert rows == [
        (ids[2], "text", None, None, None, None, "claude", 1),
        (ids[3], "text", "I look", None, None, None, "claude", None),
        (ids[3], "tool", None, "exec:1", "read", '{"path":"a"}', None, None),
        (ids[4], "text", None, "exec:1", "read", None, None, 1),
    ]


MARK = "Qx7Zt2Lm9Rb4Vn8Kc1Wd6Hs3Jf5Gp0Ya2Ue7Io4T"


@pytest.mark.parametrize(
    "body",
    [
        {"role": "user", "content": MARK},
        {"role": "user", "content": [{"type": "text", "text": MARK}], "timestamp": 1_767_603_600_000},
        {"role": "tool", "tool_call_id": "call_0123456789ab", "content": MARK},
        {"role": "toolResult", "toolCallId": "t", "toolName": "n", "content": [{"type": "text", "text": MARK}]},
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": MARK}]}],
        },
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", "input": {"query": MARK}}]},
        {"role": "assistant", "content": [{"type": "toolCall", "id": "t", "name": "n", "arguments": {"query": MARK}}]},
        {"type": "function_call", "call_id": "c", "name": "n", "arguments": json.dumps({"query": MARK})},
        {"type": "function_call_output", "call_id": "c", "output": MARK},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c", "type": "function", "function": {"name": "n", "arguments": json.dumps({"query": MARK})}}
            ],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "so"}, {"type": "thinking", "thinking": MARK}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": MARK}]},
        {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": MARK}}]},
        {"role": "user", "content": "short", "note": MARK},
    ],
    ids=lambda body: str(body.get("type") or body["role"]),
)
def test_a_block_is_stored_once(engine: lossless.Engine, body: Body) -> None:
    """A unique text stands in one column of one row, the rest of the original, inflated, included."""
    (stored,) = store(engine, [body])
    assert stored.message.original == body
    places = [place for place, value in everything(engine) for _ in range(value.count(MARK))]
    assert len(places) == 1, places


def everything(engine: lossless.Engine) -> Iterator[tuple[str, str]]:
    """Each text in each column of each table that is no search index."""
    tables = engine.archive.database.rows("SELECT name FROM sqlite_master WHERE type = 'table'")
    for (table,) in tables:
        if "_index" in table:
            continue
        for row in engine.archive.database.rows(f'SELECT * FROM "{table}"'):
            for value in row:
                if isinstance(value, str):
                    yield table, value
                elif isinstance(value, bytes) and table == "message_extras" and value[:1] == b"1":
                    yield table, decompress_residual(value)
