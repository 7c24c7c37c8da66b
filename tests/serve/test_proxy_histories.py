"""What one conversation said is never sent in another, nor what a client has taken back."""

from __future__ import annotations

import json
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import settings as search
from hypothesis import strategies as st

import lossless
from lossless.hosts.adapter import WindowSync
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.turn import TurnRecorder
from lossless.serve.proxy_sessions import SessionFinder
from tests.compaction.loop_kit import settings

if TYPE_CHECKING:
    from lossless.providers.api import ProviderAPI
    from lossless.serve.proxy_sessions import IdentifyBy

Raw = dict[str, Any]
#: Each message that nobody else says has a word of its own.
OWN = re.compile(r"own\d+")
#: What many conversations begin with, and what many replies are.
COMMON = ("hi", "Welcome! How can I help you today?", "ok", "Done.", "<environment_context> cwd=/w")
FILLING = " and so on along the quay" * 24
SMALL, LARGE = 1_200, 100_000


def user(text: str) -> Raw:
    return {"role": "user", "content": text}


def reply(text: str) -> Raw:
    return {"role": "assistant", "content": text}


class Line:
    """A proxy without its wires."""

    def __init__(
        self,
        engine: lossless.Engine,
        window: int = LARGE,
        by: IdentifyBy = "prefix",
        dialect: ProviderAPI | None = None,
    ):
        self.engine, self.window, self.dialect = engine, window, dialect or ChatCompletions()
        self.sessions = SessionFinder(engine, by)

    def ask(self, messages: list[Raw], answer: str, header: str | None = None, **more: Any) -> tuple[Raw, str]:
        """What the provider gets, and the name of the session."""
        body = {"model": "m", "messages": messages, **more}
        session = self.sessions.of(self.dialect.window(body), "key", header)
        turn = TurnRecorder(self.engine, session, self.dialect, "openai", self.window).turn(body)
        sent = turn.body
        if isinstance(self.dialect, MessagesApi):
            turn.take({"role": "assistant", "content": [{"type": "text", "text": answer}]})
        else:
            turn.take({"choices": [{"index": 0, "message": reply(answer)}]})
        self.sessions.release(session)
        return sent, session.name


def open_engine(folder: str | Path) -> lossless.Engine:
    return lossless.open(Path(folder) / "lcm.db", settings(), background=False)


# --- the promise ----------------------------------------------------------------------------------

#: What a client does: with which of its chats, what, where in the chat, and which common words it uses, if any.
STEPS = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(("say", "say", "say", "say", "again", "back", "edit", "change", "delete", "fork", "anew")),
        st.integers(0, 30),
        st.one_of(st.none(), st.sampled_from(COMMON)),
        st.one_of(st.none(), st.sampled_from(COMMON)),
    ),
    min_size=1,
    max_size=14,
)


class Client:
    """Keeps chats as clients do: what it sends is all that counts."""

    def __init__(self) -> None:
        self.chats: list[list[Raw]] = [[], [], []]
        self.count = 0

    def text(self, common: str | None) -> str:
        self.count += 1
        return common or f"own{self.count}{FILLING}"

    def step(self, n: int, what: str, at: int, common: str | None) -> list[Raw]:
        """Change a chat, and the request that follows; it ends with the user's words."""
        chat = self.chats[n]
        users = [k for k, message in enumerate(chat) if message["role"] == "user"]
        where = users[at % len(users)] if users else 0
        if what == "fork":
            other = self.chats[(n + 1) % len(self.chats)]
            chat = other[: at % (len(other) + 1)]
        elif what == "anew" or not users:
            chat = [reply(COMMON[1])] if at % 2 else []
        elif what == "again":
            chat = chat[: users[-1]]
        elif what == "back":
            chat = chat[: where + 1]
        elif what == "edit":
            chat = [*chat[:where], user(self.text(None))]
        elif what == "change":
            changed = at % len(chat)
            chat = [*chat[:changed], chat[changed] | {"content": self.text(None)}, *chat[changed + 1 :]]
        elif what == "delete" and where:
            chat = [*chat[:where], *chat[where + 2 :]]
        if not chat or chat[-1]["role"] != "user":
            chat = [*chat, user(self.text(common))]
        self.chats[n] = chat
        return chat


def check(sent: list[Raw], asked: list[Raw]) -> None:
    said = set(OWN.findall(json.dumps(asked)))
    assert set(OWN.findall(json.dumps(sent))) <= said
    assert sent[-1]["content"] == asked[-1]["content"]


@pytest.mark.parametrize("window", [SMALL, LARGE])
@pytest.mark.parametrize("named", [False, True])
@search(max_examples=3)
@given(steps=STEPS)
def test_no_word_of_another_history_is_ever_sent(window: int, named: bool, steps: list[Any]) -> None:
    client, names = Client(), [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder, open_engine(folder) as engine:
        line = Line(engine, window)
        for n, what, at, words, answer in steps:
            asked = client.step(n, what, at, words)
            answered = client.text(answer)
            names[n] += what in ("anew", "fork")
            sent, _ = line.ask(list(asked), answered, f"chat {n} {names[n]}" if named else None)
            check(sent["messages"], asked)
            assert window == SMALL or sent["messages"] == asked
            client.chats[n] = [*asked, reply(answered)]
        assert engine.verify().ok


@search(max_examples=3)
@given(steps=STEPS)
def test_a_framework_is_shown_its_own_history_alone(steps: list[Any]) -> None:
    client, names = Client(), [0, 0, 0]
    with tempfile.TemporaryDirectory() as folder, open_engine(folder) as engine:
        windows = WindowSync(engine, "test", SMALL)
        for n, what, at, words, answer in steps:
            asked = client.step(n, what, at, words)
            names[n] += what in ("anew", "fork")
            session = lossless.Session(key=f"chat {n} {names[n]}")
            shown = windows.fit(session, [windows.carrying(message, message) for message in asked])
            sent = asked if shown is None else [{"role": one.role, "content": one.content} for one in shown]
            if any(message["role"] == "assistant" for message in asked):  # else it goes on with what the session knows
                check(sent, asked)
            client.chats[n] = [*asked, reply(client.text(answer))]
            windows.turn(session, [windows.carrying(message, message) for message in client.chats[n]])
        assert engine.verify().ok


# --- whose a request is ---------------------------------------------------------------------------


def test_chats_that_begin_alike_stay_apart(engine: lossless.Engine) -> None:
    line, hello = Line(engine, 3_000), [user("hi"), reply("Hello!")]
    line.ask(hello[:1], "Hello!")
    one = [*hello]
    for n in range(40):
        one.append(user(f"my SECRET-{n}{FILLING}"))
        line.ask(one, f"ok {n}")
        one.append(reply(f"ok {n}"))
    _, first = line.ask(hello[:1], "Hello!")
    two = [*hello, user("Translate 'good morning'.")]
    sent, second = line.ask(two, "Bonjour")
    assert sent["messages"] == two
    assert first == second
    two += [reply("Bonjour"), user("And into German?")]
    assert line.ask(two, "Guten Morgen")[0]["messages"] == two
    assert len({line.ask([*two, reply("Guten Morgen"), user("!")], "!")[1], second}) == 1
    sent, third = line.ask([*one, user("go on")], "ok")
    assert "SECRET-39" in json.dumps(sent)
    assert third != second
    assert "SECRET" not in str(engine.grep("SECRET", session=lossless.Session(key=second)).hits)


def test_a_chat_is_known_again_after_a_restart_and_in_another_spelling(engine: lossless.Engine) -> None:
    said = [user("hi"), reply("Hello!"), user("one"), reply("two")]
    Line(engine).ask(said[:1], "Hello!")
    _, name = Line(engine).ask(said[:3], "two")
    spelled = [one | {"content": [{"type": "text", "text": one["content"]}]} for one in said]
    assert Line(engine).ask([*spelled, user("three")], "<think>so</think>four")[1] == name
    said += [user("three"), reply("four")]  # a client that takes the thinking out
    assert Line(engine).ask([*said, user("five")], "six")[1] == name
    assert Line(engine).ask([{"role": "system", "content": "Be brief."}, *said, user("five")], "six")[1] == name


def test_marks_that_move_do_not_part_a_chat(engine: lossless.Engine) -> None:
    line = Line(engine, dialect=MessagesApi())
    said: list[Raw] = []
    names = set()
    for n in range(6):
        said.append(user(f"question {n}"))
        marked = [{"type": "text", "text": said[-1]["content"], "cache_control": {"type": "ephemeral"}}]
        names.add(line.ask([*said[:-1], user("") | {"content": marked}], f"answer {n}", max_tokens=9)[1])
        said.append(reply(f"answer {n}"))
    assert len(names) == 1


def test_one_message_that_a_client_rewrites_does_not_part_a_long_chat(engine: lossless.Engine) -> None:
    line = Line(engine)
    said: list[Raw] = []
    for n in range(6):
        said.append(user(f"question {n}"))
        _, name = line.ask(said, f"answer {n}")
        said.append(reply(f"answer {n}"))
    pruned = [*said[:2], user("[cleared]"), *said[3:], user("go on")]
    sent, after = line.ask(pruned, "well")
    assert (sent["messages"], after) == (pruned, name)


def test_more_chats_than_anybody_counts_never_share_one(engine: lossless.Engine) -> None:
    line = Line(engine)
    assert len({line.ask([user("hi")], "Hello!")[1] for _ in range(80)}) == 80


# --- taking back ----------------------------------------------------------------------------------


def test_an_answer_that_is_asked_for_again_is_not_shown(engine: lossless.Engine) -> None:
    line = Line(engine)
    said: list[Raw] = []
    for n in range(4):
        said.append(user(f"question {n}"))
        _, name = line.ask(said, f"answer {n}")
        said.append(reply(f"answer {n}"))
    for asked in (said[:3], said[:3], said[:-1]):
        sent, again = line.ask(asked, f"another {len(asked)}")
        assert sent == {"model": "m", "messages": asked}
    assert again == name  # it is back where it was before
    sent, again = line.ask([*said[:3], reply("another 3"), user("and now?")], "so")
    assert "answer 1" not in json.dumps(sent)
    assert again == name
    texts = {str(row[0]) for row in engine.archive.database.rows("SELECT content FROM messages", ())}
    assert {"answer 1", "answer 3", "another 3", "another 7"} <= texts  # nothing is lost


def test_a_prefill_is_tried_again(engine: lossless.Engine) -> None:
    line, asked = Line(engine), [user("6 * 7?"), reply("The answer is")]
    for answer in ("42", "43"):
        sent, _ = line.ask(asked, answer)
        assert sent["messages"] == asked


def test_a_summary_that_tells_of_what_was_taken_back_is_opened(engine: lossless.Engine) -> None:
    line = Line(engine, 3_000)
    said: list[Raw] = []
    for n in range(60):
        said.append(user(f"own{n}{FILLING}"))
        sent, name = line.ask(said, f"answer {n}")
        said.append(reply(f"answer {n}"))
    assert "<summary" in json.dumps(sent)
    asked = said[:41]
    sent, again = line.ask(asked, "once more")
    assert again == name
    assert sent["messages"] != asked
    check(sent["messages"], asked)
    sent, again = line.ask([*said, user("go on")], "so")  # the first line of history once more
    check(sent["messages"], [*said, user("go on")])
    assert engine.verify().ok


# --- what is asked beside -------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["header", "key"])
def test_what_is_asked_beside_a_conversation_stays_beside_it(engine: lossless.Engine, by: str) -> None:
    line, header = Line(engine, by="key"), "main" if by == "header" else None
    title = [{"role": "system", "content": "You make titles."}, user("Title for: main 0 …")]
    said: list[Raw] = []
    names = set()
    for n in range(4):
        said.append(user(f"main {n}"))
        sent, name = line.ask(said, f"answer {n}", header)
        names.add(name)
        assert sent["messages"] == said
        said.append(reply(f"answer {n}"))
        for beside in (title, [user(f"Suggest what to ask next: {json.dumps(said)}")]):
            sent, name = line.ask(beside, "A title", header)
            assert sent == {"model": "m", "messages": beside}
            assert name not in names
    assert len(names) == 1
    moved = [*said[4:], user("the client has dropped its oldest messages")]
    sent, name = line.ask(moved, "well", header)
    assert {name} == names
    assert sent["messages"][1]["content"] == "main 0"
