"""`python -m lossless.hosts.openclaw`: the bridge, without the rest of the command line."""

from __future__ import annotations

import sys

from lossless.hosts.openclaw.service import main

sys.exit(main())
