"""Search by meaning: a real endpoint, vectors beside their texts, and an embedder that knows nothing."""

from __future__ import annotations

import json
import random
import re
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lossless
from lossless.errors import BadSetting, ModelAuth, ModelBadAnswer, ModelDenied
from lossless.llm.embedder import Embedder, connect_embedder, meaning_gains
from lossless.store.search import SearchScope, build_vectors
from lossless.testing import VirtualClock, openai_chat, sample_conversation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

pytest.importorskip("numpy")

SESSION = lossless.Session(key="k")
DIMENSIONS = 256
#: Words that mean the same, for an embedder that knows a little.
MEANINGS = {"canine": "dog", "puppy": "dog", "gnawed": "bit", "chewed": "bit"}


def meaning(text: str) -> list[float]:
    """A vector of the words in a text, by what they mean."""
    vector = [0.0] * DIMENSIONS
    for word in re.findall(r"[a-z]{4,}", text.lower()):
        source = random.Random(MEANINGS.get(word, word))
        for place in range(DIMENSIONS):
            vector[place] += source.gauss(0, 1)
    return vector


class Endpoint(BaseHTTPRequestHandler):
    """An OpenAI-compatible `/embeddings` of our own."""

    asked: list[dict[str, Any]]
    status = 200

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.asked.append(body | {"path": self.path, "key": self.headers["Authorization"]})
        rows = [{"index": n, "embedding": meaning(text)} for n, text in enumerate(body["input"])]
        answer = json.dumps({"object": "list", "data": rows[::-1]}).encode()
        self.send_response(self.status)
        self.end_headers()
        self.wfile.write(answer if self.status == 200 else b"{}")

    def log_message(self, format: str, *args: object) -> None:
        """Be quiet."""


@pytest.fixture
def endpoint() -> Iterator[tuple[str, type[Endpoint]]]:
    kind = type("Endpoint", (Endpoint,), {"asked": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), kind)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/v1", kind
    server.shutdown()
    server.server_close()


def fill(engine: lossless.Engine) -> int:
    """A conversation with one message that only an embedder finds by "canine"."""
    chat: list[Any] = list(openai_chat(sample_conversation(60)))
    chat.insert(20, {"role": "user", "content": "Our puppy chewed the vessel manual."})
    found = engine.append(SESSION, chat).conversation_id
    engine.append("other", [{"role": "user", "content": "Another puppy."}])
    assert found
    return found


def test_a_paraphrase_is_found_through_an_endpoint(
    endpoint: tuple[str, type[Endpoint]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, served = endpoint
    monkeypatch.setenv("LCM_EMBEDDER_API_KEY", "sk-test")
    chosen = lossless.Settings(embedder=address, embedder_model="small")
    with lossless.open(tmp_path / "lcm.db", chosen, clock=VirtualClock(), background=False) as engine:
        fill(engine)
        question = "canine gnawed"
        assert not engine.grep(question, session=SESSION).hits
        assert engine.admin.embed_messages() == 62
        assert engine.admin.embed_messages() == 0
        hits = engine.grep(question, session=SESSION).hits
        assert "puppy" in hits[0].snippet
        assert "puppy chewed the vessel" in engine.recall(question, session=SESSION).evidence[0].text
        assert not engine.grep(question).hits  # only in a scope
        assert {call["path"] for call in served.asked} == {"/v1/embeddings"}
        assert {(call["model"], call["key"]) for call in served.asked} == {("small", "Bearer sk-test")}
        questions = [call for call in served.asked if call["input"] == [question]]
        assert len(questions) == 1  # it is asked once
        assert engine.verify().ok


def test_vectors_belong_to_words_and_to_a_model(endpoint: tuple[str, type[Endpoint]], tmp_path: Path) -> None:
    address, _ = endpoint
    one = lossless.Settings(embedder=address, embedder_model="small")
    with lossless.open(tmp_path / "lcm.db", one, clock=VirtualClock(), background=False) as engine:
        number = fill(engine)
        engine.admin.embed_messages()
        vectors, where = engine.archive.search.vectors, SearchScope((number,))
        assert len(vectors.of(where, f"{address} small")) == 61
        assert {len(vector) for _, vector in vectors.of(where, f"{address} small")} == {DIMENSIONS}
        assert vectors.of(where, "another") == vectors.of(SearchScope(), f"{address} small") == []
        engine.archive.database.run("UPDATE message_extras SET digest = zeroblob(16) WHERE message_id = 21")
        assert len(vectors.of(where, f"{address} small")) == 60  # its words are others
        engine.archive.search.vectors.drop(1)
        assert len(vectors.pending(1 << 62)) == 2
    with lossless.open(tmp_path / "lcm.db", replace(one, embedder_model="large"), background=False) as engine:
        assert engine.archive.search.vectors.count() == 61
        engine.admin.embed_messages()
        assert engine.archive.search.vectors.model == f"{address} large"
        assert engine.archive.search.vectors.of(SearchScope((number,)), f"{address} small") == []


def test_an_embedder_that_fails_leaves_the_search_as_it_is(
    endpoint: tuple[str, type[Endpoint]], tmp_path: Path
) -> None:
    address, served = endpoint
    chosen = lossless.Settings(embedder=address, embedder_model="small")
    with lossless.open(tmp_path / "lcm.db", chosen, clock=VirtualClock(), background=False) as engine:
        fill(engine)
        plain = [hit.id for hit in engine.grep("proxy port", session=SESSION).hits]
        engine.admin.embed_messages()
        served.status, asked = 500, len(served.asked)
        for _ in range(3):
            assert [hit.id for hit in engine.grep("proxy port", session=SESSION).hits] == plain
        assert len(served.asked) == asked + 1  # then it is left alone for a while
        engine.append(SESSION, [{"role": "user", "content": "More."}])
        assert engine.admin.embed_messages() == 0
        embedder = engine.archive.embedder
        assert embedder is not None
        for status, error in ((401, ModelAuth), (500, ModelDenied)):
            served.status = status
            with pytest.raises(error, match=str(status)):
                build_vectors(engine.archive, 5)


def test_what_cannot_be_an_embedder_is_said(tmp_path: Path) -> None:
    assert connect_embedder(lossless.Settings()) is None
    with pytest.raises(BadSetting, match="embedderModel"):
        connect_embedder(lossless.Settings(embedder="http://127.0.0.1:1/v1"))
    nowhere = connect_embedder(lossless.Settings(embedder=str(tmp_path / "nowhere")))
    assert nowhere is not None
    with pytest.raises(ModelDenied, match="no folder"):
        nowhere.embed(["a"])
    for model, package in (("", "model2vec"), ("some/model", "fastembed")):
        local = connect_embedder(lossless.Settings(embedder=str(tmp_path), embedder_model=model))
        assert local is not None
        with pytest.raises(ModelDenied, match=package):
            local.embed(["a"])
    answers: list[list[Sequence[float]]] = [[[1.0]], [[1.0], []], [[1.0], [1.0, 2.0]]]
    script = iter(answers)
    wrong = Embedder("wrong", lambda _texts, _seconds: next(script))
    for _ in answers:
        with pytest.raises(ModelBadAnswer):
            wrong.embed(["a", "b"])


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), count=st.integers(2, 400))
def test_an_embedder_that_knows_nothing_rarely_counts(seed: int, count: int) -> None:
    source = random.Random(seed)

    def any_vector() -> Sequence[float]:
        return [source.gauss(0, 1) for _ in range(32)]

    embedder = Embedder("random", lambda texts, _seconds: [any_vector() for _ in texts])
    vectors = list(enumerate(embedder.embed(["text"] * count)))
    gains = meaning_gains(any_vector(), vectors)
    assert len(gains) <= 3
    assert all(0 < gain < 2 for gain in gains.values())


def test_odd_vectors_break_nothing() -> None:
    same = [(n, bytes([1, 2])) for n in range(20)]
    assert meaning_gains([1.0, 2.0], same) == {}
    assert meaning_gains([0.0, 0.0], same) == {}
    assert meaning_gains([1.0], same) == {}
    assert meaning_gains([float("nan"), 1.0], same) == {}
    endless: list[Sequence[float]] = [[0.0, float("inf")]]
    assert Embedder("endless", lambda _texts, _seconds, /: endless).embed(["a"]) == [bytes(2)]
