"""`python -m pcore`: the `pcore` command where it is not installed."""

import sys

from pcore.cli import main

sys.exit(main())
