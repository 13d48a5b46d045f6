"""dragoman inside other programs.

`Repair` gives the SDKs of vendors an HTTP client that repairs tool calls on the way. `UiStream` writes the events of a
run for web front ends. `vllm` and `sglang` are the tool parsers that these servers load by entry points.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.integrations.repair import Repair as Repair
    from dragoman.integrations.ui_stream import UiStream as UiStream
else:
    from dragoman import export_lazily

    __all__, __getattr__, __dir__ = export_lazily(
        __name__, {"dragoman.integrations.repair": "Repair", "dragoman.integrations.ui_stream": "UiStream"}
    )
