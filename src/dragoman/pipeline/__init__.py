"""The pipeline of the gateway: a request of any wire in, a repaired reply out. It contains no server.

`Exchange` sends one request to an endpoint and yields the events of the reply, with the calls found, repaired and
judged. `Report` tells what was done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.pipeline.exchange import Backend as Backend
    from dragoman.pipeline.exchange import Exchange as Exchange
    from dragoman.pipeline.report import Report as Report
    from dragoman.pipeline.translator import ReplyTranslator as ReplyTranslator
    from dragoman.pipeline.translator import Verdict as Verdict
else:
    from dragoman import export_lazily

    # A gateway listens before it has loaded the parsers of all formats.
    __all__, __getattr__, __dir__ = export_lazily(
        __name__,
        {
            "dragoman.pipeline.exchange": "Backend Exchange",
            "dragoman.pipeline.report": "Report",
            "dragoman.pipeline.translator": "ReplyTranslator Verdict",
        },
    )
