"""``python -m lplab``: the ``lplab`` command where its own folder is not on the PATH."""

import sys

from lplab.cli import main

if __name__ == "__main__":
    sys.exit(main())
