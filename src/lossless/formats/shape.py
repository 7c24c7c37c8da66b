"""What every message must be before a codec reads it: a JSON object whose role we know."""

from __future__ import annotations

from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadMessage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lossless.model.messages import Role

#: A foreign message, or one of its blocks.
Raw: TypeAlias = dict[str, Any]

#: Deeper messages are refused: every JSON reader that they may meet has a limit.
MAX_DEPTH = 100
#: Longer integers cannot even be printed.
_HIGHEST = 10**4000
_LOWEST = -_HIGHEST
_CONSTANTS = frozenset((bool, type(None)))


def check_json(body: object) -> Raw:
    """`body` itself, when it is an object of JSON values only; else BadMessage with the path."""
    if not isinstance(body, dict):
        hint = "; pass its model_dump()" if hasattr(body, "model_dump") else ""
        raise BadMessage(f"a message is an object (a dict), not {type(body).__name__}{hint}")
    level: list[Any] = [body]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for container in level:
            _check_values(container, below, body)
        if not below:
            return body
        level = below
    raise BadMessage(f"nested deeper than {MAX_DEPTH} levels")


def role_in(body: Raw, roles: Mapping[str, Role]) -> Role:
    """Our name of the message's role; BadMessage when the format has no such role."""
    role = body.get("role")
    found = roles.get(role) if isinstance(role, str) else None
    if found is None:
        said = "missing" if role is None else f"{role!r:.60}, which is not a role"
        raise BadMessage(f"{said}; allowed: {', '.join(roles)}", field="role")
    return found


def blocks_in(content: Any, field: str = "content") -> list[Raw]:
    """`content` as a list of blocks; BadMessage unless each is an object with a `type`, and text is text."""
    if not isinstance(content, list):
        raise BadMessage(f"must be a string or a list of blocks, not {json_name(content)}", field=field)
    for index, block in enumerate(content):
        if not isinstance(block, dict):
            raise BadMessage(f"must be an object, not {json_name(block)}", field=f"{field}[{index}]")
        kind = block.get("type")
        if not isinstance(kind, str):
            raise BadMessage(f"must be a string, not {json_name(kind)}", field=f"{field}[{index}].type")
        if kind in _TEXT_TYPES and not isinstance(block.get("text"), str):
            raise BadMessage(f"must be a string, not {json_name(block.get('text'))}", field=f"{field}[{index}].text")
    return content


_TEXT_TYPES = frozenset(("text", "input_text", "output_text"))


def string_in(block: Raw, key: str, field: str, *, required: bool = True) -> str | None:
    """The string under `key`; BadMessage when it is something else, or missing though required."""
    value = block.get(key)
    if isinstance(value, str) or (value is None and not required):
        return value
    raise BadMessage(f"must be a string, not {json_name(value)}", field=f"{field}.{key}" if field else key)


def json_name(value: object) -> str:
    """What JSON calls a value of this kind."""
    if value is None:
        return "null or missing"
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


def _check_values(container: Any, below: list[Any], body: Raw) -> None:
    """Look at the values of one object or list; those that hold others go `below`."""
    values = container
    if isinstance(container, dict):
        for key in container:
            if type(key) is not str:
                raise _wrong(body)
        values = container.values()
    for value in values:
        kind = type(value)
        if kind is str or (kind is int and _LOWEST < value < _HIGHEST):
            continue
        if kind is dict or kind is list:
            below.append(value)
        elif kind not in _CONSTANTS and not _is_json(value, below):
            raise _wrong(body)


def _is_json(value: Any, below: list[Any]) -> bool:
    """Whether JSON can hold a number, or a value of a derived class."""
    if isinstance(value, int):
        return bool(_LOWEST < value < _HIGHEST)
    if isinstance(value, float):
        return isfinite(value)
    if isinstance(value, (dict, list)):
        below.append(value)
        return True
    return isinstance(value, str)


def _wrong(body: Raw) -> BadMessage:
    for path, reason in _wrong_values(body, ""):
        return BadMessage(reason, field=path)
    return BadMessage("holds a value that JSON cannot hold")


def _wrong_values(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each value inside `value` that JSON cannot hold: its path and what is wrong with it."""
    if depth > MAX_DEPTH:
        return
    if isinstance(value, dict):
        for key, item in value.items():
            if type(key) is str:
                yield from _wrong_values(item, f"{path}.{key}" if path else key, depth + 1)
            else:
                yield path, f"keys must be strings, not {type(key).__name__}"
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _wrong_values(item, f"{path}[{index}]", depth + 1)
    elif isinstance(value, float) and not isfinite(value):
        yield path, f"{value} is not a JSON number"
    elif isinstance(value, int) and not _LOWEST < value < _HIGHEST:
        yield path, "too many digits"
    elif not isinstance(value, str | int | float | None):
        yield path, f"{type(value).__name__} is not a JSON value"
