"""`python -m latentia` is the command `latentia`."""

import sys

if __name__ == "__main__":
    try:
        from latentia.cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main()
