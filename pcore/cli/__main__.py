"""`python -m pcore.cli`: the command `pcore`, where it is not installed."""

import sys

from pcore.cli import main

sys.exit(main())
