"""Entry point of `python -m pippin.cli`, equivalent to the command `pippin`."""

from pippin.cli import main

if __name__ == "__main__":
    main()
