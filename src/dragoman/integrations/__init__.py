"""dragoman inside other programs.

`Repair` gives the SDKs of vendors an HTTP client that repairs tool calls on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dragoman.integrations.repair import Repair as Repair
else:
    from dragoman import export_lazily

    __all__, __getattr__, __dir__ = export_lazily(__name__, {"dragoman.integrations.repair": "Repair"})
