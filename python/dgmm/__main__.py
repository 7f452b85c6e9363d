"""Makes ``python -m dgmm`` the same as the command ``dgmm``."""

import sys

from dgmm.cli import main

if __name__ == "__main__":
    sys.exit(main())
