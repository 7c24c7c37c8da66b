"""Everything the library raises; each error has a `code` for programs."""

from __future__ import annotations


class LosslessError(Exception):
    """The base class of all errors in this package."""

    #: A short stable name for programs: the CLI prints it in its JSON envelope.
    code = "internal"


class BadInput(LosslessError, ValueError):
    """The caller's data is invalid; nothing was written."""

    code = "bad_input"


class BadMessage(BadInput):
    """A message whose shape no codec accepts.

    `index` is its place in the list that was passed, `field` the path to what is wrong.
    """

    code = "bad_message"

    def __init__(self, reason: str, *, index: int | None = None, field: str = "") -> None:
        self.reason, self.index, self.field = reason, index, field
        where = "message" if index is None else f"message {index}"
        super().__init__(f"{where}{f', field {field!r}' if field else ''}: {reason}")

    def at(self, index: int) -> BadMessage:
        """The same error, for the message at `index` of a list."""
        return BadMessage(self.reason, index=index, field=self.field)


class BadSetting(BadInput):
    """A setting with a wrong value; the message has the key, the value, its source and what is allowed."""

    code = "bad_setting"

    def __init__(self, key: str, value: object, source: str, allowed: str, message: str = "") -> None:
        self.key, self.value, self.source, self.allowed = key, value, source, allowed
        super().__init__(message or f"setting {key!r} = {value!r} (from {source}) is not allowed: {allowed}")


class BadPattern(BadInput):
    """A search pattern that cannot be compiled; `position` is where it breaks, when known."""

    code = "bad_pattern"

    def __init__(self, pattern: str, reason: str, position: int | None = None) -> None:
        self.pattern, self.reason, self.position = pattern, reason, position
        at = "" if position is None else f" at position {position}"
        super().__init__(f"pattern {pattern!r} cannot be used: {reason}{at}")


class NotFound(LosslessError):
    """An id that is not in the archive."""

    code = "not_found"

    def __init__(self, kind: str, id: object) -> None:
        self.kind, self.id = kind, id
        super().__init__(f"no {kind} {id!r} in this archive")


class NoArchive(NotFound):
    """No archive exists at the given place."""

    def __init__(self, path: str) -> None:
        self.kind, self.id = "archive", path
        LosslessError.__init__(
            self,
            f"there is no archive at {path!r} yet: it is made when the first message is stored, by a host "
            "(`lcm connect`) or an import (`lcm import`); name another one with --db or LCM_DATABASE_PATH",
        )


class ArchiveError(LosslessError):
    """The database reported an error; the driver's error is `__cause__`."""

    code = "archive"


class NotAnArchive(ArchiveError):
    """The file is not a database, or its tables are not an archive's."""

    code = "not_an_archive"


class ArchiveCorrupt(ArchiveError):
    """The file is damaged; restore a backup, or copy what `lcm verify` can still read."""

    code = "corrupt"


class ArchiveFull(ArchiveError):
    """The disk is full; the whole transaction was rolled back."""

    code = "disk_full"


class ArchiveDenied(ArchiveError):
    """No permission to read or write the file, or it was opened read-only."""

    code = "denied"


class ArchiveLocked(ArchiveError):
    """Another process held the file for longer than the busy timeout."""

    code = "locked"


class SchemaUnknown(ArchiveError):
    """Written by a version with unknown tables; reading may work, writing is refused."""

    code = "schema_unknown"


class Stale(LosslessError):
    """The context changed while a summary was being written; plan again."""

    code = "stale"


class ModelError(LosslessError):
    """The model gave no usable text."""

    code = "model"


class ModelAuth(ModelError):
    """Credentials were refused; a retry cannot help."""

    code = "model_auth"


class ModelRateLimit(ModelError):
    """Too many requests; `retry_after` seconds when the provider says so."""

    code = "model_rate_limit"

    def __init__(self, reason: str, retry_after: float | None = None) -> None:
        self.retry_after = retry_after
        super().__init__(reason)


class ModelTimeout(ModelError):
    """No answer in time."""

    code = "model_timeout"


class ModelDenied(ModelError):
    """A policy refused the call, or the host has no model."""

    code = "model_denied"


class ModelBadAnswer(ModelError):
    """An answer without usable text."""

    code = "model_bad_answer"


class GuardOpen(LosslessError):
    """A breaker or a spend limit forbids model calls until `until`."""

    code = "guard_open"

    def __init__(self, guard: str, reason: str, until: str) -> None:
        self.guard, self.reason, self.until = guard, reason, until
        super().__init__(f"{guard}: {reason} (until {until})")


class GrantError(LosslessError):
    """A recall exceeded its grant."""

    code = "grant"
