"""The `lcm` command."""

import gc
import sys


def run() -> None:
    """The entry point of `lcm`; for the version alone nothing else is loaded."""
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from lossless import __version__

        sys.stdout.write(f"lcm {__version__}\n")
        return
    gc.disable()  # nothing that imports leave behind is garbage
    from lossless.cli.main import main

    gc.enable()
    main()
