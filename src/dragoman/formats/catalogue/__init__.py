"""The catalogue: every text format, written the way its models write it.

To add one, add a row and a sample (docs/guides/add-a-format.md). The order matters to `auto` alone: where two rows
read the same opener, the first that can make sense of what follows wins.
"""

from __future__ import annotations

from dragoman.formats.catalogue import json_rows, other_rows, xml_rows
from dragoman.formats.template import Format

ROWS: tuple[Format, ...] = (
    *json_rows.ROWS,
    *xml_rows.ROWS,
    *other_rows.CHANNEL_ROWS,
    *other_rows.PYTHON_ROWS,
    *other_rows.LINE_ROWS,
    *other_rows.BARE_ROWS,
)
