"""One chat is one conversation with one row for each message, whatever its client does to what it shows."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from lossless.model.conversations import Session
from lossless.providers.chat_completions import ChatCompletions
from lossless.providers.messages_api import MessagesApi
from lossless.providers.turn import TurnRecorder
from lossless.testing import VirtualClock
from tests.serve.test_proxy_histories import Line, reply, user

if TYPE_CHECKING:
    from collections.abc import Callable

    import lossless

Raw = dict[str, Any]
TURNS = 24
DIALECTS = [ChatCompletions, MessagesApi]


def words(n: int) -> str:
    return f"Question {n}: what does part {n * 7} of the plan say about item {n * 13}?"


def answer(n: int) -> str:
    return f"Part {n * 7} says that item {n * 13} is due on day {n * 3}."


def rows(engine: lossless.Engine) -> dict[str, list[str]]:
    """The texts of each conversation, but for system prompts."""
    found: dict[str, list[str]] = {}
    query = """SELECT c.session_key, m.content FROM messages m JOIN conversations c USING (conversation_id)
                WHERE m.role <> 'system' ORDER BY m.message_id"""
    for key, text in engine.archive.database.rows(query, ()):
        found.setdefault(str(key), []).append(str(text))
    return found


# --- clients that change what they show -----------------------------------------------------------


def in_brackets(said: list[Raw], n: int) -> list[Raw]:
    return [*said[:-1], user(f"[10:{n:02}:17] {said[-1]['content']}")]


def with_documents(said: list[Raw], n: int) -> list[Raw]:
    found = "\n".join(f"<document id={k}>Paragraph {k} of volume {n}.</document>" for k in range(n, n + 3))
    return [*said[:-1], user(f"<documents>\n{found}\n</documents>\n\n{said[-1]['content']}")]


def with_context(said: list[Raw], n: int) -> list[Raw]:
    shown = f"<context>\nopen file: src/part{n}.py\ncursor: {n * 3}\n</context>\n{said[-1]['content']}"
    return [*said[:-1], user(shown)]


def with_reminder(said: list[Raw], n: int) -> list[Raw]:
    told = {"type": "text", "text": f"<system-reminder>There are {n} tasks left.</system-reminder>"}
    return [*said[:-1], user("") | {"content": [{"type": "text", "text": said[-1]["content"]}, told]}]


def with_trailing_system(said: list[Raw], n: int) -> list[Raw]:
    return [*said, {"role": "system", "content": f"It is 10:{n:02}. Answer in one sentence."}]


def with_first_edited(said: list[Raw], n: int) -> list[Raw]:
    return [user(f"{said[0]['content']} (as of revision {n})"), *said[1:]]


def with_other_system(said: list[Raw], n: int) -> list[Raw]:
    return [{"role": "system", "content": f"Mode {n % 3}. Today is day {n} of the project."}, *said]


def with_moving_marks(said: list[Raw], n: int) -> list[Raw]:
    marked = {"type": "text", "text": f"({n} messages so far)\n{said[-1]['content']}", "cache_control": {"type": "e"}}
    return [*said[:-1], user("") | {"content": [marked]}]


def all_at_once(said: list[Raw], n: int) -> list[Raw]:
    return with_other_system(in_brackets(with_first_edited(said, n), n), n)


KINDS = [
    in_brackets, with_documents, with_context, with_reminder, with_trailing_system, with_first_edited,
    with_other_system, with_moving_marks, all_at_once,
]  # fmt: skip


@pytest.mark.parametrize(
    ("shown", "dialect"), [*((shown, ChatCompletions) for shown in KINDS), (all_at_once, MessagesApi)]
)
def test_a_chat_is_one_conversation_with_one_row_a_message(
    engine: lossless.Engine, dialect: type[ChatCompletions | MessagesApi], shown: Callable[[list[Raw], int], list[Raw]]
) -> None:
    said: list[Raw] = []
    for n in range(TURNS):
        line = Line(engine, dialect=dialect())  # as after a restart: nothing is known but what the archive has
        said.append(user(words(n)))
        sent, _ = line.ask(shown(said, n), answer(n), max_tokens=100)
        assert words(n) in json.dumps(sent["messages"][-2:])
        said.append(reply(answer(n)))
    (texts,) = rows(engine).values()
    assert len(texts) == 2 * TURNS
    for n in range(TURNS):
        assert sum(words(n) in text for text in texts) == 1
        assert texts.count(answer(n)) == 1
    assert engine.verify().ok


def test_a_chat_of_very_short_replies_that_moves_on_is_one_conversation(engine: lossless.Engine) -> None:
    said: list[Raw] = []
    for n in range(6):
        said.append(user(words(n)))
        Line(engine).ask(in_brackets(said[-5:], n), "Done.")
        said.append(reply("Done."))
    (texts,) = rows(engine).values()
    assert len(texts) == 12


def test_a_client_that_writes_old_messages_in_lower_case_has_one_conversation(engine: lossless.Engine) -> None:
    said: list[Raw] = []
    for n in range(6):
        said.append(user(words(n)))
        shown = [one | {"content": one["content"].lower()} for one in said[:-1]]
        Line(engine).ask([*shown, said[-1]], answer(n))
        said.append(reply(answer(n)))
    (texts,) = rows(engine).values()
    assert len(texts) == 12


def test_a_client_that_strips_punctuation_has_one_conversation(engine: lossless.Engine) -> None:
    said: list[Raw] = []
    for n in range(6):
        said.append(user(words(n)))
        shown = [one | {"content": re.sub(r"[^\w\s]", "", one["content"])} for one in said]
        Line(engine).ask(shown if n % 2 else said, answer(n))
        said.append(reply(answer(n)))
    (texts,) = rows(engine).values()
    assert len(texts) == 12


def test_a_reply_and_its_continuation_may_come_back_as_one(engine: lossless.Engine) -> None:
    said: list[Raw] = []
    for n in range(4):
        said.append(user(words(n)))
        Line(engine).ask(said, answer(n))
        Line(engine).ask([*said, reply(answer(n))], f" Then {answer(n + 100)}")
        said.append(reply(f"{answer(n)} Then {answer(n + 100)}"))
    (texts,) = rows(engine).values()
    assert len(texts) == 12
    assert engine.verify().ok


def test_a_client_that_names_calls_anew_has_one_conversation(engine: lossless.Engine) -> None:
    said: list[Raw] = []
    for n in range(8):
        said.append(user(words(n)))
        for step in ("call", "answer"):
            line, ids = Line(engine), iter(range(99))
            shown = json.loads(json.dumps(said))
            for one in shown:
                if one.get("tool_calls"):
                    one["tool_calls"][0]["id"] = id_ = f"call_{n:06}{step[0]}{next(ids):09}"
                elif one["role"] == "tool":
                    one["tool_call_id"] = id_
            session = line.sessions.of(shown, "key")
            turn = TurnRecorder(engine, session, line.dialect, window=line.window).turn(
                {"model": "m", "messages": shown}
            )
            function = {"name": "look_up", "arguments": json.dumps({"part": n, "of": "the plan"})}
            call = {"id": f"call_{n:012}", "type": "function", "function": function}
            answered = reply(answer(n)) if step == "answer" else reply("") | {"tool_calls": [call]}
            turn.take({"choices": [{"index": 0, "message": answered}]})
            line.sessions.release(session)
            said.append(answered)
            if step == "call":
                said.append({"role": "tool", "tool_call_id": call["id"], "content": f"part {n} is {n * 17}"})
    (texts,) = rows(engine).values()
    assert len(texts) == 32


def test_two_chats_with_a_decorating_client_stay_two(engine: lossless.Engine) -> None:
    chats: list[list[Raw]] = [[], []]
    names: list[set[str]] = [set(), set()]
    for n in range(12):
        for k, said in enumerate(chats):
            text = "hi" if n == 0 else f"chat {k}: {words(n)}"
            said.append(user(text))
            told = "Hello! How can I help?" if n == 0 else f"chat {k}: {answer(n)}"
            sent, name = Line(engine).ask(in_brackets(said, n * 2 + k), told)
            assert f"chat {1 - k}" not in json.dumps(sent)
            names[k].add(name)
            said.append(reply(told))
    assert len(rows(engine)) == 2
    assert not names[0] & names[1] or names[0] | names[1] == set(rows(engine))  # alike after "hi", they may be swapped
    for texts in rows(engine).values():
        assert len(texts) == 24
        assert len({text.split(":")[0] for text in texts if text.startswith("chat")}) == 1


# --- what is asked beside a chat ------------------------------------------------------------------


def test_what_is_asked_beside_a_chat_is_not_in_its_context(engine: lossless.Engine) -> None:
    line, said = Line(engine), [user(words(0))]
    titled = {"role": "system", "content": "You write a title of five words for a conversation."}
    _, name = line.ask(said, answer(0))
    said.append(reply(answer(0)))
    for n in range(1, 6):
        line.ask([titled, user(f"Title for: {json.dumps(said)}")], "Plans and their parts")
        line.ask([titled, *said, user("Give this conversation a title.")], "Parts of a plan")
        said.append(user(words(n)))
        sent, again = line.ask(said, answer(n))
        assert (sent["messages"], again) == (said, name)
        said.append(reply(answer(n)))
    made = engine.assemble(Session(key=name), budget=100_000, allow_trailing_assistant=True)
    assert [message["content"] for message in made.messages] == [message["content"] for message in said]


def test_a_message_that_is_written_anew_stays_in_its_chat(engine: lossless.Engine) -> None:
    line, said = Line(engine), []
    for n in range(4):
        said.append(user(words(n)))
        _, name = line.ask(said, answer(n))
        said.append(reply(answer(n)))
    anew = [*said[:-2], user("Something else: who wrote the appendix?")]
    sent, again = line.ask(anew, "The committee did.")
    assert (sent["messages"], again) == (anew, name)
    (texts,) = rows(engine).values()
    assert len(texts) == 10


def test_chats_that_begin_with_the_same_examples_stay_apart(engine: lossless.Engine) -> None:
    examples = [
        user("Translate: one"),
        reply("The translation is: uno"),
        user("Translate: two"),
        reply("It is: dos, I think"),
    ]
    names = set()
    for n in range(6):
        asked = [*examples, user(words(n))]
        sent, name = Line(engine).ask(asked, answer(n))
        assert sent["messages"] == asked
        names.add(name)
        names.add(Line(engine).ask([*asked, reply(answer(n)), user("Why?")], f"Because of {n}.")[1])
    assert len(names) == 6


# --- clients that ask again, and those that show little -------------------------------------------


def chat(engine: lossless.Engine, turns: int, first: str = words(0), mark: str = "") -> tuple[list[Raw], str]:
    said, name = [user(first)], ""
    for n in range(turns):
        said += [user(f"{mark}{words(n)}")] if n else []
        name = Line(engine).ask(said, f"{mark}{answer(n)}")[1]
        said.append(reply(f"{mark}{answer(n)}"))
    return said, name


@pytest.mark.parametrize("asked", [1, 3, 5])
def test_another_answer_and_an_earlier_question_in_other_words_stay_in_their_chat(
    engine: lossless.Engine, asked: int
) -> None:
    said, name = chat(engine, (asked + 1) // 2)
    for n in range(3):
        sent, again = Line(engine).ask(said[:asked], f"Another answer {n} to question {asked}.")
        assert (sent["messages"], again) == (said[:asked], name)
    for n in range(4):  # a long branch, which is left for an edit of its second question
        said = [*said[: asked - 1 + 2 * n], user(words(20 + n if asked > 1 or n else 0)), reply(answer(20 + n))]
        assert Line(engine).ask(said[:-1], answer(20 + n))[1] == name
    edited = [*said[:2], user("Something else: who wrote the appendix?")]
    sent, again = Line(engine).ask(edited, "The committee did.")
    assert (sent["messages"], again) == (edited, name)


def test_the_same_first_words_begin_another_chat_unless_they_ask_for_another_answer(engine: lossless.Engine) -> None:
    _, first = chat(engine, 2)
    said, second = chat(engine, 1)  # the first one has gone on
    title = [{"role": "system", "content": "You write titles."}, user(words(0))]
    names = {first, second, Line(engine).ask(title, "Parts of a plan")[1]}
    assert len(names) == 3
    assert Line(engine).ask(said[:1], "Once more.")[1] == second
    assert Line(engine).ask([user(f"[10:17] {words(0)}")], "And again.")[1] == second
    assert isinstance(engine.clock, VirtualClock)
    engine.clock.advance(hours=1)
    assert Line(engine).ask(said[:1], "An hour later.")[1] not in names


def test_the_end_of_a_chat_is_that_chat_and_not_one_that_began_alike(engine: lossless.Engine) -> None:
    hello = "Hello! How can I help you today?"
    said, name = chat(engine, 5, "hi")
    for text in ("thanks", "Done.", "ok", "yes"):
        said.append(user(text) if said[-1]["role"] == "assistant" else reply(text))
        if said[-1]["role"] == "assistant":
            assert Line(engine).ask(said[:-1][-3:], text)[1] == name
    assert Line(engine).ask([*said[-2:], user(words(8))], answer(8))[1] == name  # "ok", "yes", and a question
    said += [user(words(8)), reply(answer(8))]
    other = Line(engine).ask([user("hi")], hello)[1]
    assert Line(engine).ask([*said[:-2], user(words(9))], answer(9))[1] == name != other


# --- clients that build their prompts anew --------------------------------------------------------


class Aider:
    """A coding assistant that builds each request anew: examples, a map, what was said, files, the newest message."""

    prompt: ClassVar[Raw] = {
        "role": "system",
        "content": "Act as an expert developer. Reply with search and replace blocks.",
    }
    examples = (
        user("Change get_factorial() to use math.factorial"),
        reply("To make this change we need to modify `mathweb/flask/app.py`: import math, and call it."),
        user("I switched to a new code base. Please don't consider the above files."),
        reply("Ok."),
    )

    def __init__(self, *, reminds_in_message: bool) -> None:
        self.done: list[Raw] = []
        self.reminds_in_message = reminds_in_message

    def request(self, n: int, text: str) -> list[Raw]:
        map_ = user(
            "Here are summaries of some files:\n" + "\n".join(f"src/part{k}.py: def f{k}()" for k in range(n + 5))
        )
        files = user(
            "I have *added these files to the chat*:\napp.py\n" + "\n".join(f"line {k}" for k in range(20 + n))
        )
        reminder = "# *SEARCH/REPLACE block* Rules: every block must use this format."
        newest = (
            [user(f"{text}\n\n{reminder}")]
            if self.reminds_in_message
            else [user(text), self.prompt | {"content": reminder}]
        )
        return [
            self.prompt, *self.examples, map_, reply("Ok, I won't try and edit those files without asking first."),
            *self.done, files, reply("Ok, any changes I propose will be to those files."), *newest,
        ]  # fmt: skip

    def said(self, n: int, text: str, answered: str) -> None:
        self.done += [user(text), reply(answered)]
        if n % 3 == 1:
            self.done += [user(f"I committed the changes with git hash {n:07x} & commit msg: part {n}"), reply("Ok.")]


@pytest.mark.parametrize("reminds_in_message", [False, True])
def test_a_client_that_builds_its_prompts_anew_has_one_conversation(
    engine: lossless.Engine, reminds_in_message: bool
) -> None:
    names = []
    for chat in range(2):
        client, own = Aider(reminds_in_message=reminds_in_message), set()
        for n in range(12):
            text, told = f"Chat {chat}. {words(n)}", f"Chat {chat}. {answer(n)}"
            sent, name = Line(engine).ask(client.request(n, text), told)
            assert text in json.dumps(sent["messages"][-2:])
            own.add(name)
            client.said(n, text, told)
            if n % 3 == 1:
                diff = f"# diffs: +part {n} of chat {chat}"
                beside = [{"role": "system", "content": "Write a one-line commit message."}, user(diff)]
                assert Line(engine).ask(beside, f"feat: part {n}")[1] not in own
        assert len(own) == 1
        names.append(own.pop())
    assert len(set(names)) == 2
    for chat, name in enumerate(names):
        texts = rows(engine)[name]
        for n in range(12):
            assert sum(words(n) in text for text in texts) == 1
            assert texts.count(f"Chat {chat}. {answer(n)}") == 1
    assert engine.verify().ok


def smol(role: str, text: str) -> Raw:
    return {"role": role, "content": [{"type": "text", "text": text}]}


def test_an_agent_that_shows_its_calls_as_text_has_one_conversation(engine: lossless.Engine) -> None:
    said = [smol("system", "You are an expert assistant."), smol("user", f"New task:\n{words(0)}")]
    names = set()
    for n in range(12):
        told = f"Thought: I look at part {n} next.\n<code>\nprint(part({n}))\n</code>"
        sent, name = Line(engine).ask(said, told)
        assert sent["messages"] == said
        names.add(name)
        call = [
            {"id": f"call_{n + 2}", "type": "function", "function": {"name": "python_interpreter", "arguments": "…"}}
        ]
        said.append(smol("assistant", f"{told}\nCalling tools:\n{call}"))
        said.append(
            smol("user", f"Observation:\nExecution logs:\npart {n} is {n * 17}\nLast output from code snippet:\nNone")
        )
    assert len(names) == 1
    (texts,) = rows(engine).values()
    assert len(texts) == 24


def test_calls_that_a_client_writes_down_are_those_of_the_reply(engine: lossless.Engine) -> None:
    said = [smol("system", "You are an expert assistant."), smol("user", f"New task:\n{words(0)}")]
    names = set()
    for n in range(8):
        line, id_ = Line(engine), f"call_{n:04}aBcDeFgHiJkLmNoPqRsT"
        session = line.sessions.of(said, "key")
        turn = TurnRecorder(engine, session, line.dialect, "openai", line.window).turn({"model": "m", "messages": said})
        assert turn.body["messages"] == said
        function = {"name": "look_up", "arguments": json.dumps({"part": n})}
        called = {
            "role": "assistant",
            "content": None,
            "tool_calls": [{"id": id_, "type": "function", "function": function}],
        }
        turn.take({"choices": [{"index": 0, "message": called}]})
        line.sessions.release(session)
        names.add(session.name)
        shown = [{"id": id_, "type": "function", "function": {"name": "look_up", "arguments": {"part": n}}}]
        said.append(smol("assistant", f"Calling tools:\n{shown}"))
        said.append(smol("user", f"Observation:\npart {n} is {n * 17}"))
    assert len(names) == 1
    assert len(rows(engine)[names.pop()]) == 16


def test_a_request_that_may_be_of_two_chats_gets_one_of_its_own(engine: lossless.Engine) -> None:
    refused = "I am sorry, but I cannot help with that request."
    for first in ("Open the door of room 12.", "Tell me the code of the safe."):
        Line(engine).ask([user(first), reply("Why do you ask for this?"), user("Please.")], refused)
    line = Line(engine)
    moved = [reply(refused), user("And why?")]
    asked = [user("[the oldest messages were left out]"), *moved]
    line.ask(asked, "Because.")
    assert (len(rows(engine)), line.sessions.doubtful) == (3, 1)
