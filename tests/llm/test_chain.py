"""The chain of candidates: second tries, pauses, who ends it and who does not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lossless import errors
from lossless.compaction.summariser import SPEND_GUARD
from lossless.llm.chain import BREAKER_GUARD, CallEnding, Gate, ModelChain, pause_seconds
from lossless.llm.completion import NO_USAGE, Complete, Completion, Prompt, Usage
from lossless.llm.credentials import Credential
from lossless.llm.providers import Endpoint, provider_model
from lossless.settings.model_rules import ModelCandidate

if TYPE_CHECKING:
    from tests.llm.conftest import ModelServer

ONE, TWO, THREE = (ModelCandidate("p", name) for name in ("one", "two", "three"))
PROMPT = Prompt("system", "user", 400, 0.2, target_tokens=1000)
Step = Completion | BaseException | Callable[[], Completion]


def said(text: str, incomplete: bool = False) -> Completion:
    return Completion(text, "p/m", Usage(10, 5), incomplete=incomplete, blocks=("thinking",))


@dataclass
class Stage(Gate):
    """Scripted models, a gate that writes down, a clock that only sleep moves."""

    script: dict[str, list[Step]]
    asked: list[tuple[str, int, str | None]] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    attempts: list[tuple[object, CallEnding, Usage]] = field(default_factory=list)
    closed: dict[str, errors.GuardOpen] = field(default_factory=dict)

    def chain(self, *candidates: ModelCandidate, seconds: float = 60.0) -> ModelChain:
        return ModelChain(candidates, self.connect, seconds, self, self.slept.append)

    def connect(self, candidate: ModelCandidate) -> Callable[[Prompt], Completion]:
        def complete(prompt: Prompt) -> Completion:
            self.asked.append((candidate.model, prompt.max_tokens, prompt.reasoning))
            step = self.script[candidate.model].pop(0)
            if isinstance(step, BaseException):
                raise step
            return step if isinstance(step, Completion) else step()

        return complete

    def enter(self, candidate: ModelCandidate) -> object:
        if refusal := self.closed.get(candidate.model):
            raise refusal
        return candidate.model

    def leave(self, ticket: object, ending: CallEnding, usage: Usage = NO_USAGE) -> None:
        self.attempts.append((ticket, ending, usage))


def test_a_good_answer_needs_one_call() -> None:
    stage = Stage({"one": [said("Fine.")]})
    assert stage.chain(ONE, TWO)(PROMPT).text == "Fine."
    assert stage.asked == [("one", 400, None)]
    assert stage.slept == []


@pytest.mark.parametrize("first", [said(""), said("Half of", incomplete=True)])
def test_an_empty_or_cut_off_answer_gets_more_room_once(first: Completion) -> None:
    stage = Stage({"one": [first, said("Whole.")]})
    assert stage.chain(ONE)(PROMPT).text == "Whole."
    assert stage.asked == [("one", 400, None), ("one", 1000, "low")]


def test_more_room_is_twice_as_much_where_the_target_is_small() -> None:
    stage = Stage({"one": [said(""), said("Whole.")]})
    stage.chain(ONE)(Prompt("", "", 800, target_tokens=1000))
    assert [tokens for _, tokens, _ in stage.asked] == [800, 1600]


@pytest.mark.parametrize(
    "second", [errors.ModelTimeout("late"), errors.ModelAuth("no"), errors.ModelRateLimit("slow"), said("")]
)
def test_a_cut_off_answer_is_kept_when_the_second_try_fails(second: Step) -> None:
    stage = Stage({"one": [said("Half of", incomplete=True), second]})
    answer = stage.chain(ONE, TWO)(PROMPT)
    assert (answer.text, answer.incomplete) == ("Half of", True)


def test_of_two_cut_off_answers_the_roomier_one_is_taken() -> None:
    stage = Stage({"one": [said("Half", True), said("Three quarters", True)]})
    assert stage.chain(ONE)(PROMPT).text == "Three quarters"


def test_two_empty_answers_go_on_to_the_next(caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage({"one": [said(""), said("")], "two": [said("Fine.")]})
    assert stage.chain(ONE, TWO)(PROMPT).text == "Fine."
    assert "no text in the answer of p/one (blocks: thinking)" in caplog.text


def test_empty_answers_everywhere_are_a_bad_answer() -> None:
    stage = Stage({"one": [said(""), said("")]})
    with pytest.raises(errors.ModelBadAnswer, match=r"p/one .*thinking"):
        stage.chain(ONE)(PROMPT)


@pytest.mark.parametrize(
    "failure",
    [
        errors.ModelTimeout("late"),
        errors.ModelRateLimit("slow", 3.0),
        errors.ModelAuth("no"),
        errors.ModelError("odd"),
        RuntimeError("a callable's own"),
    ],
)
def test_a_failure_goes_on_to_the_next_after_a_pause(failure: BaseException) -> None:
    stage = Stage({"one": [failure], "two": [said("Fine.")]})
    assert stage.chain(ONE, TWO)(PROMPT).text == "Fine."
    assert stage.slept == [0.5]


def test_pauses_double_up_to_eight_seconds() -> None:
    names = [ModelCandidate("p", f"m{i}") for i in range(7)]
    stage = Stage({name.model: [errors.ModelError("no")] for name in names})
    with pytest.raises(errors.ModelError):
        stage.chain(*names)(PROMPT)
    assert stage.slept == [0.5, 1, 2, 4, 8, 8]
    assert pause_seconds(10_000) == 8


def test_refused_credentials_on_the_last_candidate_are_raised() -> None:
    stage = Stage({"one": [errors.ModelError("odd")], "two": [errors.ModelAuth("no")]})
    with pytest.raises(errors.ModelAuth):
        stage.chain(ONE, TWO)(PROMPT)
    assert [ending for _, ending, _ in stage.attempts] == ["failed", "auth"]


@pytest.mark.parametrize("failure", [errors.ModelDenied("policy"), errors.GuardOpen(SPEND_GUARD, "spent", "later")])
def test_a_denial_and_a_spend_limit_end_the_chain(failure: errors.LosslessError) -> None:
    stage = Stage({"one": [failure], "two": [said("never")]})
    with pytest.raises(type(failure)):
        stage.chain(ONE, TWO)(PROMPT)
    assert [model for model, _, _ in stage.asked] == ["one"]


def test_a_denial_of_the_second_try_is_not_swallowed() -> None:
    stage = Stage({"one": [said("Half", True), errors.ModelDenied("policy")]})
    with pytest.raises(errors.ModelDenied):
        stage.chain(ONE)(PROMPT)


def test_a_spend_limit_at_the_gate_ends_the_chain_without_a_call() -> None:
    stage = Stage({}, closed={"one": errors.GuardOpen(SPEND_GUARD, "spent", "later")})
    with pytest.raises(errors.GuardOpen):
        stage.chain(ONE, TWO)(PROMPT)
    assert stage.asked == []


def test_an_open_breaker_only_skips_its_candidate() -> None:
    broken = errors.GuardOpen(BREAKER_GUARD, "open", "later")
    stage = Stage({"two": [said("Fine.")]}, closed={"one": broken})
    assert stage.chain(ONE, TWO)(PROMPT).text == "Fine."
    with pytest.raises(errors.GuardOpen):
        Stage({}, closed={"one": broken}).chain(ONE)(PROMPT)


def test_every_call_passes_the_gate_and_is_settled() -> None:
    stage = Stage({"one": [said(""), errors.ModelError("odd")], "two": [said("Fine.")]})
    stage.chain(ONE, TWO)(PROMPT)
    assert [(model, ending) for model, ending, _ in stage.attempts] == [
        ("one", "done"),
        ("one", "failed"),
        ("two", "done"),
    ]
    assert stage.attempts[-1][2] == Usage(10, 5)


def test_a_callable_that_hangs_is_left() -> None:
    release = threading.Event()

    def hang() -> Completion:
        release.wait()
        return said("too late")

    stage = Stage({"one": [hang]})
    with pytest.raises(errors.ModelTimeout):
        stage.chain(ONE, seconds=0.1)(PROMPT)
    assert stage.attempts[0][1] == "failed"
    release.set()


def test_without_candidates_the_chain_is_denied() -> None:
    with pytest.raises(errors.ModelDenied, match="no model is configured"):
        Stage({}).chain()(PROMPT)


STEPS = st.sampled_from(
    [
        said("Fine."),
        said(""),
        said("Half", True),
        errors.ModelTimeout("t"),
        errors.ModelAuth("a"),
        errors.ModelDenied("d"),
        errors.ModelError("e"),
    ]
)


@given(st.lists(st.tuples(STEPS, STEPS), min_size=1, max_size=4))
def test_calls_are_bounded_and_every_answer_has_text(script: list[tuple[Step, Step]]) -> None:
    names = [ModelCandidate("p", f"m{i}") for i in range(len(script))]
    stage = Stage({name.model: list(steps) for name, steps in zip(names, script, strict=True)})
    try:
        answer = stage.chain(*names)(PROMPT)
    except errors.ModelError:
        pass
    else:
        assert answer.text
    assert len(stage.asked) <= 2 * len(names)
    assert len(stage.attempts) == len(stage.asked)


def test_over_http_a_cut_off_answer_is_asked_for_again(server: ModelServer) -> None:
    server.answers(server.error(500), server.chat("Half of", "length"), server.chat("Whole."))

    def connect(candidate: ModelCandidate) -> Complete:
        return provider_model(Endpoint("local", candidate.model, server.v1, credential=Credential("k" * 8)))

    slept: list[float] = []
    answer = ModelChain([ONE, TWO, THREE], connect, 10.0, sleep=slept.append)(PROMPT)
    assert answer.text == "Whole."
    assert [request.body["model"] for request in server.requests] == ["one", "two", "two"]
    assert [request.body["max_tokens"] for request in server.requests] == [400, 400, 1000]
    assert slept == [0.5]
