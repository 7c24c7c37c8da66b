"""The screens of the terminal interface. They lead to one another: one opens another as `screens.module.Class`."""

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
