"""How long a server asks to wait, in the spellings that servers use."""

from __future__ import annotations

import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime

_duration = re.compile(
    r"(?:(\d{1,6})h)?(?:(\d{1,6})m(?!s))?(?:(\d{1,6}(?:\.\d+)?)s)?(?:(\d{1,9}(?:\.\d+)?)ms)?"
).fullmatch
_LIMITED = (
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
)
NEVER = 1e9
"""What stands for a delay that is no number at all: later than anybody waits."""


def read_delay(headers: Mapping[str, str], now: float) -> float | None:
    """The seconds to wait, by `retry-after-ms`, `retry-after` (seconds or a date) or a spent `x-ratelimit`.

    `now` is the time of day, in seconds since 1970. None where nothing is said; what lies in the past is 0.
    """
    exact = _number(headers.get("retry-after-ms", ""))
    if exact is not None:
        return exact / 1000
    told = headers.get("retry-after", "").strip()
    if told:
        seconds = _number(told)
        return seconds if seconds is not None else _until(told, now)
    for remaining, reset in _LIMITED:
        if headers.get(remaining, "").strip() == "0" and reset in headers:
            return _read_duration(headers[reset].strip())
    return None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return None if value != value else max(0.0, min(value, NEVER))


def _until(text: str, now: float) -> float | None:
    try:
        return max(0.0, min(parsedate_to_datetime(text).timestamp() - now, NEVER))
    except (ValueError, OverflowError, TypeError):
        return None


def _read_duration(text: str) -> float | None:
    """A duration such as `6m0s` or `20ms`, or plain seconds."""
    found = _duration(text)
    if not text or found is None:
        return _number(text)
    hours, minutes, seconds, thousandths = (float(part or 0) for part in found.groups())
    return hours * 3600 + minutes * 60 + seconds + thousandths / 1000
