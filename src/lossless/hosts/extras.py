"""The packages that adapters need, and how to get them."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Around the imports of a host's package: when it is missing, the error says what to install."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = f"{name} is not installed (no module {error.name!r}): pip install 'lossless[{name}]'"
        raise ModuleNotFoundError(missing, name=error.name) from None
