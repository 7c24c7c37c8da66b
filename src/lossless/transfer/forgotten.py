"""What was forgotten here and comes again with rows of another archive: recognised, and cut out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from lossless.compaction.summariser import Summariser
from lossless.lifecycle.forgetting import Tools, Wanted, again, apply, finish
from lossless.model.identity import identity_hash
from lossless.model.masking import FORGOTTEN
from lossless.settings import Settings
from lossless.store.tombstones import EVERYWHERE, Round

if TYPE_CHECKING:
    from datetime import datetime

    from lossless.files.vault import Vault
    from lossless.model.masking import Cut
    from lossless.store.archive import Archive
    from lossless.store.bundles import Bundle, MessageId, Values

#: What lay in a file goes into one again: the lowest size that a setting can ask for.
_FILE_TOKENS = 1000


def known_again(archive: Archive, bundle: Bundle) -> Bundle:
    """A conversation whose messages are told apart by what is kept of them, so that none is stored twice."""
    if not archive.tombstones.rounds():
        return bundle
    number = bundle.conversation["conversation_id"]
    others: dict[MessageId, str] = {}
    for page in bundle.pages():
        for message in page:
            content = _kept_of(archive, number, message)
            if content is not message["content"]:
                others[message["message_id"]] = identity_hash(message["role"] or "", content)
    keys = [replace(key, identity=others[key.id]) if key.id in others else key for key in bundle.keys]
    return replace(bundle, keys=keys) if others else bundle


def _kept_of(archive: Archive, number: object, message: Values) -> str:
    content: str = message["content"]
    print_ = message["fingerprint"]
    for round_ in archive.tombstones.rounds():
        if round_.cut is not None:
            content = round_.cut(content)
        elif print_ is not None:
            digest = archive.tombstones.digest(print_)
            if (digest, EVERYWHERE) in round_.whole or (digest, number) in round_.whole:
                return FORGOTTEN
    return content


def cut_again(archive: Archive, vault: Vault | None, now: datetime) -> tuple[str, ...]:
    """Cut out of what has come what was forgotten here; returns what could not be."""
    touched = again(_tools(archive, vault, now))
    return () if touched is None else touched.left


def mask_all(archive: Archive, vault: Vault | None, cut: Cut, now: datetime) -> tuple[str, ...]:
    """Mask everything in an archive; returns what could not be."""
    tools = _tools(archive, vault, now)
    touched = apply(tools, Wanted(rounds=(Round(cut=cut),)))
    return (*touched.left, *finish(tools))


def _tools(archive: Archive, vault: Vault | None, now: datetime) -> Tools:
    return Tools(archive, vault, Summariser(Settings()), _FILE_TOKENS, now)
