"""`python -m latentia` is the command `latentia`."""

from latentia.cli import main

if __name__ == "__main__":
    main()
