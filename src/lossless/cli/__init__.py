"""The `lcm` command."""

import gc
import sys
from contextlib import suppress


def run() -> None:
    """The entry point of `lcm`; for the version alone nothing else is loaded."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from lossless import __version__

        with suppress(OSError):  # the command itself says why nothing can be written
            sys.stdout.write(f"lcm {__version__}\n")
            sys.stdout.flush()
            return
    gc.disable()  # nothing that imports leave behind is garbage
    from lossless.cli.main import main

    gc.enable()
    main()
