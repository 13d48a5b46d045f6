"""The commands: thin skins over the library that read files, and draw what the library returns."""

from dragoman.cli.app import run

__all__ = ["run"]
