"""`afterglow` on the PATH, and `python -m afterglow`: becomes the program."""

import os
import sys

from ._program import program


def main() -> None:
    """Replaces this process by the program, with the same arguments."""
    path = program()
    os.execv(path, [path, *sys.argv[1:]])


if __name__ == "__main__":
    main()
