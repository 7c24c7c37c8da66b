"""Embedders: texts as vectors, from an OpenAI-compatible address or a local model; nothing is downloaded."""

from __future__ import annotations

import json
import math
import os
import time
import urllib.error
import urllib.request
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadSetting, ModelAuth, ModelBadAnswer, ModelDenied, ModelError, ModelTimeout

if TYPE_CHECKING:
    from lossless.settings import Settings

#: Where the key for an address is looked for.
KEY_VARIABLE = "LCM_EMBEDDER_API_KEY"
#: How much of a text says what it means, and how many texts are sent at once.
MOST_CHARS = 2_000
BATCH = 64
#: How long a question may take, and a batch; after a failure questions are left alone for a while.
_QUESTION_SECONDS, _BATCH_SECONDS, _PAUSE_SECONDS = 3.0, 60.0, 60.0
_REMEMBERED = 64
#: Among fewer texts nothing stands out.
_FEWEST = 8
#: Vectors that are compared at once.
_BLOCK = 8_192

_NEEDS_NUMPY = 'an embedder needs the extra "embeddings": pip install "lossless[embeddings]"'


#: Makes vectors of texts within so many seconds; raises a `ModelError` when it cannot.
TextVectors: TypeAlias = "Callable[[Sequence[str], float], Sequence[Sequence[float]]]"


class Embedder:
    """An embedder by its name; a question is embedded once, and not while it fails."""

    def __init__(self, name: str, vectors: TextVectors, clock: Callable[[], float] = time.monotonic) -> None:
        self.name, self._vectors, self._clock = name, vectors, clock
        self._questions: OrderedDict[str, Sequence[float]] = OrderedDict()
        self._rests_until = 0.0

    def embed(self, texts: Sequence[str]) -> list[bytes]:
        """A vector for each text, one signed byte for each dimension; raises a `ModelError`."""
        if not has_numpy():
            raise ModelDenied(_NEEDS_NUMPY)
        found = self._vectors([text[:MOST_CHARS] for text in texts], _BATCH_SECONDS)
        if len(found) != len(texts) or len({len(one) for one in found}) > 1 or not all(found):
            raise ModelBadAnswer(f"embedder {self.name}: it returned other vectors than it was asked for")
        return [_as_bytes(one) for one in found]

    def question(self, text: str) -> Sequence[float] | None:
        """The vector of a question; None when there is none in time."""
        text = text[:MOST_CHARS]
        if text in self._questions:
            return self._questions[text]
        if self._clock() < self._rests_until or not text.strip():
            return None
        try:
            (found,) = self._vectors([text], _QUESTION_SECONDS)
        except (ModelError, ValueError):
            self._rests_until = self._clock() + _PAUSE_SECONDS
            return None
        self._questions[text] = found
        if len(self._questions) > _REMEMBERED:
            self._questions.popitem(last=False)
        return found


def connect_embedder(settings: Settings) -> Embedder | None:
    """The embedder that the settings name; None without one. A folder is loaded with the first text."""
    where, model = settings.embedder.strip(), settings.embedder_model.strip()
    if not where:
        return None
    if "://" in where:
        if not model:
            raise BadSetting("embedderModel", model, "settings", "the name of a model at the address in embedder")
        return Embedder(
            f"{where.rstrip('/')} {model}", partial(_from_address, f"{where.rstrip('/')}/embeddings", model)
        )
    folder = Path(where).expanduser()
    return Embedder(f"{folder} {model}".strip(), partial(_from_folder, folder, model))


def _from_address(address: str, model: str, texts: Sequence[str], seconds: float) -> list[Sequence[float]]:
    body = json.dumps({"model": model, "input": list(texts)}).encode()
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get(KEY_VARIABLE):
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(address, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=seconds) as answer:
            rows = json.load(answer)["data"]
            return [row["embedding"] for row in sorted(rows, key=lambda row: row["index"])]
    except urllib.error.HTTPError as error:
        kind = ModelAuth if error.code in (401, 403) else ModelDenied
        raise kind(f"embedder {address}: it answered {error.code}") from error
    except TimeoutError as error:
        raise ModelTimeout(f"embedder {address}: no answer in {seconds:g} s") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelBadAnswer(f"embedder {address}: {type(error).__name__}") from error


def _from_folder(folder: Path, model: str, texts: Sequence[str], _seconds: float) -> list[Sequence[float]]:
    return [[float(value) for value in vector] for vector in _load(folder, model)(list(texts))]


@lru_cache(maxsize=1)
def _load(folder: Path, model: str) -> Callable[[list[str]], Any]:
    """A model in a folder: through fastembed by its name, else through model2vec."""
    if not folder.is_dir():
        raise ModelDenied(f"embedder {str(folder)!r}: it is no folder with a model")
    try:
        if model:
            from fastembed import TextEmbedding

            known = TextEmbedding(model, specific_model_path=str(folder), local_files_only=True)
            return lambda texts: list(known.embed(texts))
        from model2vec import StaticModel

        return StaticModel.from_pretrained(str(folder)).encode  # type: ignore[no-any-return]
    except ImportError as error:
        package = "fastembed" if model else "model2vec"
        raise ModelDenied(f"embedder {str(folder)!r}: it needs the package {package}") from error
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelDenied(f"embedder {str(folder)!r}: {type(error).__name__}: {error}") from error


def _as_bytes(vector: Sequence[float]) -> bytes:
    """A vector as signed bytes; its length does not count.

    >>> list(_as_bytes([1.0, -0.5, 0.0]))
    [127, 192, 0]
    """
    largest = max((abs(value) for value in vector), default=0.0)
    if not math.isfinite(largest) or not largest:
        return bytes(len(vector))
    return bytes(round(127 * value / largest) & 0xFF for value in vector)


def meaning_gains(question: Sequence[float], vectors: Sequence[tuple[int, bytes]]) -> dict[int, float]:
    """What messages gain by what they mean: by how much each stands out among all beyond what chance brings.

    Similarities are z-scores. The best of n random ones is about √(2 ln n); below that margin nothing counts, so that
    an embedder that knows nothing changes nothing.
    """
    import numpy

    usable = [(id_, vector) for id_, vector in vectors if len(vector) == len(question)]
    if len(usable) < _FEWEST:
        return {}
    asked = numpy.asarray(question, dtype=numpy.float32)
    parts = []
    for start in range(0, len(usable), _BLOCK):
        raw = b"".join(vector for _, vector in usable[start : start + _BLOCK])
        block = numpy.frombuffer(raw, dtype=numpy.int8).reshape(-1, len(question)).astype(numpy.float32)
        parts.append(block @ asked / numpy.maximum(numpy.linalg.norm(block, axis=1), 1e-9))
    alike = numpy.concatenate(parts)
    spread = float(alike.std())
    if not math.isfinite(spread) or spread < 1e-9:
        return {}
    gains = (alike - alike.mean()) / spread - math.sqrt(2 * math.log(len(usable)))
    return {usable[place][0]: float(gains[place]) for place in numpy.flatnonzero(gains > 0)}


@cache
def has_numpy() -> bool:
    from importlib.util import find_spec

    return find_spec("numpy") is not None
