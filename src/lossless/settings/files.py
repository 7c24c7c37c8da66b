"""Config files: `lossless.toml`, and the plugin's block in a host's `openclaw.json`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from lossless.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

#: Where a host's file may hold our settings; the first that is there is used.
BLOCKS: Final = (
    ("plugins", "entries", "lossless", "config"),
    ("plugins", "entries", "lossless-claw", "config"),
    ("plugins", "config", "lossless"),
    ("plugins", "config", "lossless-claw"),
)


class ConfigText(NamedTuple):
    """A parsed config file: the whole document, our settings in it, and the path to them."""

    document: Mapping[str, Any]
    values: Mapping[str, Any]
    block: tuple[str, ...] = ()

    @property
    def includes_others(self) -> bool:
        """Whether a host's file takes parts from other files, which are not read here."""
        todo: list[object] = [self.document]
        while todo:
            item = todo.pop()
            if isinstance(item, dict):
                if "$include" in item:
                    return True
                todo.extend(item.values())
            elif isinstance(item, list):
                todo.extend(item)
        return False


def is_toml(path: Path) -> bool:
    """Whether the file is ours; everything else is a host's JSON."""
    return path.suffix.lower() == ".toml"


def unusable(path: Path, why: str) -> BadSetting:
    """The error for a config file that cannot be used at all."""
    return BadSetting("config", str(path), "the config file", why)


def read_config(path: Path) -> ConfigText:
    """The settings in a config file; raises `BadSetting` when it cannot be read or parsed."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise unusable(path, "the file must exist") from None
    except (OSError, ValueError) as error:
        raise unusable(path, f"the file must be readable ({error})") from error
    return parse_config(path, data)


def parse_config(path: Path, data: bytes) -> ConfigText:
    """The settings in the bytes of a config file."""
    return _parse_toml(path, data) if is_toml(path) else _parse_json(path, data)


def _parse_toml(path: Path, data: bytes) -> ConfigText:
    import tomllib

    try:
        document = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise unusable(path, f"the file must be TOML: {error}") from error
    return ConfigText(document, document)


def _parse_json(path: Path, data: bytes) -> ConfigText:
    import json

    try:
        text = data.decode("utf-8-sig")
        try:
            document = json.loads(text) if text.strip() else {}
        except (ValueError, RecursionError):  # people write comments and trailing commas, which hosts read
            from lossless.settings.json5 import parse

            document = parse(text).value
    except ValueError as error:
        raise unusable(
            path, f"the file must be JSON or JSON5: {error}; or put the settings into a lossless.toml"
        ) from error
    if not isinstance(document, dict):
        raise unusable(path, "the file must hold a JSON object")
    for block in BLOCKS:
        values = _inside(document, block)
        if values is not None:
            if not isinstance(values, dict):
                raise unusable(path, f"{'.'.join(block)} must be an object")
            return ConfigText(document, values, block)
    return ConfigText(document, {})


def _inside(document: object, block: tuple[str, ...]) -> object:
    for name in block:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document
