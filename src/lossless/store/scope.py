"""Which conversations a read is about: one, or all."""

from __future__ import annotations


def numbers(conversation_id: int | None) -> dict[str, object]:
    """The first and the last number of the conversations that are meant; None means all.

    One condition for both cases keeps to the indexes that begin with the conversation.

    >>> numbers(7)
    {'first': 7, 'last': 7}
    """
    if conversation_id is None:
        return {"first": -(2**63), "last": 2**63 - 1}
    return {"first": conversation_id, "last": conversation_id}
