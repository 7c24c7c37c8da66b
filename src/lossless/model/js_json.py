"""JSON text as JavaScript writes it, so that hashes and token counts agree with the reference.

Compact, non-ASCII as it is, numbers as doubles (`1.0` is `1`, integers beyond 2^53 lose digits),
a lone surrogate as `\\udxxx`. Keys keep the order they have.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from json.encoder import encode_basestring
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lossless.model.messages import Json

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
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return _LONE.sub(lambda lone: f"\\u{ord(lone[0]):04x}", join_surrogates(text))
    return text


def parse_js(text: str) -> Any:
    """`JSON.parse(text)`: ValueError for whatever is not JSON, `NaN` and endless nesting included."""
    try:
        return json.loads(text, parse_constant=_refuse)
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


def hashed_utf8(text: str) -> bytes:
    """The bytes that are hashed for `text`: a lone surrogate counts as U+FFFD, as in Node."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _LONE.sub("\ufffd", join_surrogates(text)).encode()


def join_surrogates(text: str) -> str:
    """`text` with each surrogate pair as the one code point that it stands for."""
    return _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), text)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


def _write(value: Json) -> str:
    if isinstance(value, dict):
        # Strings are most of what there is: they are written here, without a call for each.
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
