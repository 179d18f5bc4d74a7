"""``python -m privaudit``: the command, where its script is not on the path."""

from privaudit.cli import main

if __name__ == "__main__":
    main()
