"""The pipeline of the gateway: a request of any wire in, a repaired reply out. It contains no server.

`Exchange` sends one request to an endpoint and yields the events of the reply, with the calls found, repaired and
judged. `Report` tells what was done.
"""

from __future__ import annotations

from dragoman.pipeline.exchange import Backend, Exchange
from dragoman.pipeline.report import Report
from dragoman.pipeline.translator import ReplyTranslator, Verdict

__all__ = ["Backend", "Exchange", "ReplyTranslator", "Report", "Verdict"]
