"""The catalogue: every text format, written the way its models write it.

To add one, add a row and a sample (docs/guides/add-a-format.md). The order matters to `auto` alone: where two rows
read the same opener, the first that can make sense of what follows wins.
"""

from __future__ import annotations

from dragoman.formats.catalogue import bare_rows, json_rows, xml_rows
from dragoman.formats.odd import catalogue_channels, catalogue_lines, catalogue_python
from dragoman.formats.row import Format

ROWS: tuple[Format, ...] = (
    *json_rows.ROWS,
    *xml_rows.ROWS,
    *catalogue_channels.ROWS,
    *catalogue_python.ROWS,
    *catalogue_lines.ROWS,
    *bare_rows.ROWS,
)
