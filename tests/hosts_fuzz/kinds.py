"""All kinds of hosts by name."""

from __future__ import annotations

from tests.hosts_fuzz import branching, decorating, editing, producers, reducing, regrouping, windows
from tests.hosts_fuzz.host import Host

_MODULES = (windows, reducing, decorating, editing, branching, regrouping, producers)

KINDS: dict[str, type[Host]] = {
    found.kind: found
    for module in _MODULES
    for found in vars(module).values()
    if isinstance(found, type) and issubclass(found, Host) and found is not Host
}
