"""The catalogue: a row for every text format, with a template of its calls.

To add a format, add a row and a sample (docs/guides/add-a-format.md). The order matters only for `auto`: if two rows
have the same opener, the first that can read the text wins.
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
