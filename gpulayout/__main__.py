"""`python -m gpulayout` runs the command line."""

from gpulayout.cli.main import main

if __name__ == "__main__":
    main()
