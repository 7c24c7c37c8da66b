"""The screens of the terminal interface. They lead to one another: one opens another as `screens.module.Class`, which
is loaded then.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lossless.tui.screens import (  # noqa: F401 - opened by others
        compare,
        context,
        conversations,
        dialogs,
        files,
        search,
        session_files,
        summaries,
        surgery,
        transcript,
    )
else:

    def __getattr__(name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
