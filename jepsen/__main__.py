"""`python -m jepsen`."""

import sys

from jepsen.cli import main

sys.exit(main())
