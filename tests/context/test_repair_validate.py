from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from lossless.context.render import newest_user
from lossless.context.repair import OPENING_MESSAGE, MessageRepair, make_valid
from lossless.model.messages import Message, ModelIdentity, Reasoning, Text
from tests.context.payloads import PROVIDERS, complaints
from tests.context.streams import IDENTITY, assistant, broken_streams, tool, user


@given(broken_streams(), st.sampled_from(PROVIDERS))
@settings(max_examples=60, deadline=None)
def test_a_strict_provider_has_nothing_to_say(messages: tuple[Message, ...], provider: str) -> None:
    valid = make_valid(messages, provider)[0]
    assert complaints(valid, provider) == []


@given(broken_streams(), st.sampled_from([*PROVIDERS, "openclaw"]), st.sampled_from([None, IDENTITY]))
@settings(max_examples=40, deadline=None)
def test_making_valid_twice_changes_nothing(
    messages: tuple[Message, ...], provider: str, model: ModelIdentity | None
) -> None:
    once, repairs = make_valid(messages, provider, model=model)
    again, more = make_valid(once, provider, model=model)
    assert (again is once, more) == (True, ())
    assert (once is messages) == (repairs == ())


@given(broken_streams(), st.sampled_from(PROVIDERS))
@settings(max_examples=40, deadline=None)
def test_no_word_of_the_newest_turn_is_lost(messages: tuple[Message, ...], provider: str) -> None:
    at = newest_user(messages)
    valid = make_valid(messages, provider, allow_trailing_assistant=True)[0]
    if at is None:
        return
    wanted = [p.text for m in messages[at:] for p in m.parts or (Text(m.content),) if isinstance(p, Text)]
    said = [p.text for m in valid for p in m.parts or (Text(m.content),) if isinstance(p, Text)]
    for text in filter(str.strip, wanted):
        assert text in said
    if not messages[at].tool_results and all(part.text.strip() for part in _texts(messages[at])):
        assert any(message is messages[at] for message in valid)


def _texts(message: Message) -> list[Text]:
    return [part for part in message.parts if isinstance(part, Text)]


@given(broken_streams(), st.sampled_from(PROVIDERS))
@settings(max_examples=40, deadline=None)
def test_what_was_sent_is_repaired_the_same_way_when_the_talk_goes_on(
    messages: tuple[Message, ...], provider: str
) -> None:
    """A turn that is complete and answered stays byte for byte where it was."""
    sent = make_valid((*messages, user("now")), provider)[0]
    later = make_valid((*sent, assistant(Text("done")), user("next")), provider)[0]
    assert later[: len(sent)] == sent


def test_prefill_is_kept_when_the_prompt_comes_separately() -> None:
    messages = (user("q"), assistant(Text("a")))
    assert make_valid(messages, "anthropic", allow_trailing_assistant=True)[0] is messages
    assert make_valid(messages, "anthropic")[0] == messages[:1]


def test_signatures_go_only_to_the_model_that_made_them() -> None:
    signed = assistant(Reasoning("hm", "sig"), Text("a"), format="anthropic", identity=IDENTITY)
    messages = (user("q"), signed, user("x"))
    other = ModelIdentity("anthropic", "messages", "claude-y")
    assert make_valid(messages, "anthropic", model=IDENTITY)[0] is messages
    assert make_valid(messages, "anthropic", model=other)[0][1].parts == (Text("a"),)
    assert make_valid(messages, "openai-chat", model=IDENTITY)[0][1].parts == (Text("a"),)


def test_thinking_that_nobody_signed_is_not_sent_where_it_must_be_signed() -> None:
    messages = (user("q"), assistant(Reasoning("hm"), Text("a"), format="anthropic"), user("x"))
    assert make_valid(messages, "anthropic")[0][1].parts == (Text("a"),)


def test_a_host_loses_only_signatures_without_a_known_model() -> None:
    known = assistant(Reasoning("hm", "sig"), Text("a"), identity=IDENTITY)
    unknown = assistant(Reasoning("hm", "sig"), Text("a"))
    valid = make_valid((user("q"), known, user("x"), unknown, user("y")), "openclaw")[0]
    assert (valid[1] is known, valid[3].parts) == (True, (Reasoning("hm"), Text("a")))


def test_thinking_as_an_item_of_its_own_stays_with_what_it_led_to() -> None:
    thinking = assistant(Reasoning("hm", "enc"), format="openai-responses")
    call = assistant("c1", format="openai-responses")
    messages = (user("q"), thinking, call, tool("c1", format="openai-responses"))
    assert make_valid(messages, "openai-responses")[0] is messages
    assert make_valid((user("q"), thinking, user("x")), "openai-responses")[0] == (user("q"), user("x"))


def test_a_talk_that_no_user_opens_is_opened() -> None:
    valid, repairs = make_valid((Message("system", "s"), assistant(Text("a")), user("x")), "anthropic")
    assert [m.role for m in valid] == ["system", "user", "assistant", "user"]
    assert (valid[1], repairs) == (OPENING_MESSAGE, (MessageRepair("opening"),))
    assert make_valid((), "openai-chat")[0] == (OPENING_MESSAGE,)


def test_system_messages_inside_the_talk_are_said_by_the_user_where_system_stands_apart() -> None:
    messages = (user("q"), Message("system", "be brief"), user("x"))
    assert [m.role for m in make_valid(messages, "anthropic")[0]] == ["user", "user", "user"]
    assert make_valid(messages, "openai-chat")[0] is messages


def test_the_repairs_say_what_was_done() -> None:
    messages = (
        user("q"),
        assistant("c1"),
        tool("zz"),
        Message("assistant", " "),
        assistant("c2"),
        user("mid"),
        tool("c2"),
        assistant(Text("trailing")),
    )
    assert make_valid(messages, "openai-chat")[1] == (
        MessageRepair("result removed"),
        MessageRepair("missing result noted"),
        MessageRepair("empty content"),
        MessageRepair("trailing assistant"),
    )
    moved = (user("q"), assistant("c1"), user("mid"), tool("c1"))
    assert make_valid(moved, "openai-chat")[1] == (MessageRepair("results moved to their calls"),)


def test_a_call_whose_result_was_evicted_leaves_no_false_note() -> None:
    messages = (user("q"), assistant(Text("a"), "c1"), user("x"))
    valid, repairs = make_valid(messages, "openai-chat", answered_elsewhere={"c1"})
    assert (valid[1].parts, repairs) == ((Text("a"),), (MessageRepair("unanswered"),))
