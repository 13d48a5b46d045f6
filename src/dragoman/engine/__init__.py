"""Engines: where the runs of agents are executed. One process with a journal, or many workers on Postgres."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dragoman.engine.embedded import EmbeddedEngine
from dragoman.engine.engine import Engine, Rate, RunStatus
from dragoman.engine.execution import digest_tools
from dragoman.journal import is_address

if TYPE_CHECKING:
    from dragoman.engine.postgres import PostgresEngine

__all__ = ["EmbeddedEngine", "Engine", "PostgresEngine", "Rate", "RunStatus", "digest_tools", "open_engine"]


def open_engine(place: str) -> Engine:
    """Return the engine for the address of a Postgres database, or for the path of a journal on this machine."""
    if is_address(place):
        from dragoman.engine.postgres import PostgresEngine

        return PostgresEngine(place)
    return EmbeddedEngine(place)


def __getattr__(name: str) -> Any:
    # Only a program with many workers loads DBOS.
    if name == "PostgresEngine":
        from dragoman.engine.postgres import PostgresEngine

        return PostgresEngine
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
