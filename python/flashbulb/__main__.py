"""``python -m flashbulb``."""

from __future__ import annotations

import sys

from flashbulb.cli import main

if __name__ == "__main__":
    sys.exit(main())
