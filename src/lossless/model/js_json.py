"""JSON that a message may hold, and JSON text as JavaScript writes it, so that hashes and token counts agree with the
reference.

That text is compact, with unescaped non-ASCII, numbers as doubles (`1.0` is `1`, integers beyond 2^53 lose digits), and
lone surrogates escaped (U+D800 to U+DFFF). Keys keep their order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from json.encoder import encode_basestring
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from lossless.errors import BadMessage

if TYPE_CHECKING:
    from lossless.model.messages import Json

#: A foreign message, or one of its blocks.
RawObject: TypeAlias = dict[str, Any]
#: Deeper messages are refused: every JSON parser has a limit.
MAX_JSON_DEPTH = 100
#: Longer integers cannot even be printed.
_HIGHEST = 10**4000
_LOWEST = -_HIGHEST
_LITERALS = frozenset((bool, type(None)))


def check_json(body: object) -> RawObject:
    """Returns `body` when it is an object of JSON values only; else raises BadMessage with the path."""
    if not isinstance(body, dict):
        hint = "; pass its model_dump()" if hasattr(body, "model_dump") else ""
        raise BadMessage(f"a message is an object (a dict), not {type(body).__name__}{hint}")
    level: list[Any] = [body]
    for _ in range(MAX_JSON_DEPTH):
        below: list[Any] = []
        for container in level:
            _check_values(container, below, body)
        if not below:
            return body
        level = below
    raise BadMessage(f"nested deeper than {MAX_JSON_DEPTH} levels")


def _check_values(container: Any, below: list[Any], body: RawObject) -> None:
    """Checks the values of one object or list; nested containers are appended to `below`."""
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
        if isinstance(value, (dict, list)):
            below.append(value)
        elif kind not in _LITERALS and _why_wrong(value):
            raise _wrong(body)


def _why_wrong(value: Any) -> str:
    """Why JSON cannot hold a value that is no object or list; '' when it can."""
    if isinstance(value, float):
        return "" if isfinite(value) else f"{value} is not a JSON number"
    if isinstance(value, int):
        return "" if _LOWEST < value < _HIGHEST else "too many digits"
    return "" if isinstance(value, str | None) else f"{type(value).__name__} is not a JSON value"


def _wrong(body: RawObject) -> BadMessage:
    path, reason = next(_wrong_values(body, ""))
    return BadMessage(reason, field=path)


def _wrong_values(value: Any, path: str, depth: int = 0) -> Iterator[tuple[str, str]]:
    """Each value inside `value` that JSON cannot hold: its path and what is wrong with it."""
    if depth > MAX_JSON_DEPTH:
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
    elif why := _why_wrong(value):
        yield path, why


JSON_SPACE = " \t\n\r"
_JSON_START = frozenset(JSON_SPACE + "{[")


def is_not_json(text: str) -> bool:
    """Whether the first character already rules out a JSON object or list."""
    return text[:1] not in _JSON_START


_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_LONE = re.compile("[\ud800-\udfff]")
_EXACT = 2**53
_CONSTANTS = {None: "null", True: "true", False: "false"}


def stringify_js(value: Json) -> str:
    """`JSON.stringify(value)`.

    >>> stringify_js({"a": [1.0, True, None, "é\\n"]})
    '{"a":[1,true,null,"é\\\\n"]}'
    """
    text = _write(value)
    if is_encodable(text):
        return text
    return _LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", join_surrogates(text))


def parse_js(text: str) -> Any:
    """`JSON.parse(text)`; ValueError for anything that is not JSON, including `NaN` and too deep nesting."""
    try:
        return json.loads(text, parse_constant=refuse_number)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def js_number(value: float) -> str:
    """A number as JavaScript prints it; `null` when it is not finite as a double.

    >>> [js_number(n) for n in (1.0, 1e-7, 1e21, 2**53 + 1, 0.1, -0.0)]
    ['1', '1e-7', '1e+21', '9007199254740992', '0.1', '0']
    """
    if isinstance(value, int):
        if -_EXACT <= value <= _EXACT:
            return int.__repr__(value)
        try:
            value = float(value)
        except OverflowError:
            return "null"
    if value == 0:
        return "0"
    text = float.__repr__(value)
    if "e" in text:
        if 1e-6 <= abs(value) < 1e21:
            text = format(Decimal(text), "f")
        else:
            digits, exponent = text.split("e")
            return f"{digits.removesuffix('.0')}e{int(exponent):+d}"
    return "null" if text in ("inf", "-inf", "nan") else text.removesuffix(".0")


def storable_text(text: str) -> str:
    """`text` as UTF-8 can hold it: a lone surrogate becomes U+FFFD, as in Node."""
    return text if is_encodable(text) else _LONE.sub("\ufffd", join_surrogates(text))


def is_encodable(text: str) -> bool:
    """Whether UTF-8 can hold a text: it has no lone surrogate."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def hashed_utf8(text: str) -> bytes:
    """The bytes that are hashed for `text`."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return storable_text(text).encode()


def join_surrogates(text: str) -> str:
    """`text` with each surrogate pair replaced by its code point."""
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)


def refuse_number(number: str) -> None:
    """For parsers: raises ValueError for a number that has no place in JSON, or no canonical spelling."""
    raise ValueError(f"{number} is not JSON")


def _write(value: Json) -> str:
    if isinstance(value, dict):
        # Strings are the most frequent values, so they are written inline.
        pairs = [
            f"{encode_basestring(key)}:{encode_basestring(item) if type(item) is str else _write(item)}"
            for key, item in value.items()
        ]
        return "{" + ",".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ",".join([_write(item) for item in value]) + "]"
    if isinstance(value, str):
        return encode_basestring(value)
    if value is None or value is True or value is False:
        return _CONSTANTS[value]
    if isinstance(value, (int, float)):
        return js_number(value)
    raise TypeError(f"{type(value).__name__} is not a JSON value")


# Made once: `json.dumps` makes an encoder for every call that asks for more than its defaults.
_COMPACT, _STORABLE = (
    json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=allow_nan).encode
    for allow_nan in (True, False)
)


def compact_json(value: object, encode: Callable[[object], str] = _COMPACT) -> str:
    """JSON text without spaces that can be encoded: non-ASCII stays, unless there are lone surrogates to escape."""
    text = encode(value)
    return text if is_encodable(text) else json.dumps(value, separators=(",", ":"))


def storable_json(value: object) -> str:
    """The same for a column; ValueError for a number that is not JSON."""
    return compact_json(value, _STORABLE)
