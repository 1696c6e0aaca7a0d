"""``python -m benchmarks``: for now the formats are all there is to time."""

import sys

from benchmarks.formats import main

sys.exit(main())
