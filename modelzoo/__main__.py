"""``python -m modelzoo``: the same as the ``modelzoo`` command."""

import sys

from modelzoo.cli import main

sys.exit(main())
