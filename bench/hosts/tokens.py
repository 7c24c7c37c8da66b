"""A real tokenizer: OpenAI's cl100k. Its table comes from a package of the registry that carries it."""

from __future__ import annotations

import os
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from bench.hosts.install import pip_folder

if TYPE_CHECKING:
    import tiktoken

#: What a provider adds to each message: who speaks, where it begins and ends.
EACH = 4


@cache
def _encoding() -> tiktoken.Encoding:
    place = pip_folder("litellm==1.80.0") / "litellm" / "litellm_core_utils" / "tokenizers"
    os.environ["TIKTOKEN_CACHE_DIR"] = str(place)
    import tiktoken

    return tiktoken.get_encoding("cl100k_base")


@lru_cache(maxsize=50_000)
def count(text: str) -> int:
    """How many tokens a text has."""
    return len(_encoding().encode(text, disallowed_special=()))
