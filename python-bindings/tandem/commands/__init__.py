"""Subcommands of `python -m tandem`: one file each."""
