"""The loggers of the library, and tracebacks of the developer's own code.

The library writes to `logging`, below the logger `dragoman`, and shows nothing unless the program configures it:

    dragoman.agent     runs, retries of the loop, failures of hooks, listeners, approvers and policies
    dragoman.client    requests (DEBUG), retries and failures
    dragoman.mcp       MCP servers and their problems
    dragoman.tools     exceptions in tools, with their traceback

Every record passes a filter that hides what looks like a secret. A caller that knows secrets hides them first.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from functools import lru_cache

from dragoman.secrets import scrub

_looks_secret = re.compile(r"[\w+/=-]{20}|://[^/\s]*@|(?i:pass|pwd|secret)").search
_exchange_id = re.compile(r"ex_[0-9a-f]{8,40} ").match
_OWN = (os.path.dirname(os.path.abspath(__file__)) + os.sep, os.path.dirname(asyncio.__file__) + os.sep)
"""Frames of dragoman and of the event loop precede the frames of a tool and say nothing about it."""
_LONGEST = 8000
_MOST_KEPT = 500


def hide_secrets(record: logging.LogRecord) -> bool:
    """Hide secrets in a record of the log. Most lines have nothing that could be one."""
    text = record.getMessage()
    if _looks_secret(text):
        # The lines of most exchanges of the gateway differ only in their first word, the id.
        named = _exchange_id(text) if len(text) < _MOST_KEPT else None
        record.msg = scrub(text) if named is None else named[0] + _scrub_kept(text[named.end() :])
        record.args = None
    return True


@lru_cache(maxsize=512)
def _scrub_kept(text: str) -> str:
    return scrub(text)


def get_log(name: str) -> logging.Logger:
    """Return the logger `dragoman.NAME`. Without a handler of the program, nothing is shown."""
    top = logging.getLogger("dragoman")
    if not any(isinstance(each, logging.NullHandler) for each in top.handlers):
        # Otherwise Python itself would write warnings to standard error.
        top.addHandler(logging.NullHandler())
    log = logging.getLogger(f"dragoman.{name}")
    log.addFilter(hide_secrets)
    return log


def write_traceback(problem: BaseException) -> str:
    """Return the traceback of an exception in the developer's code, without the frames of dragoman above it."""
    from traceback import StackSummary, TracebackException

    told = TracebackException.from_exception(problem)
    frames = list(told.stack)
    first = next((at for at, frame in enumerate(frames) if not frame.filename.startswith(_OWN)), 0)
    told.stack = StackSummary.from_list(frames[first:])
    text = "".join(told.format()).rstrip().encode("utf-8", "replace").decode()
    # The end names the exception and the line that raised it.
    return text if len(text) <= _LONGEST else f"[...]\n{text[-_LONGEST:]}"
