"""Texts of a known form: dates, times, identifiers and addresses, as far as they are regular."""

from __future__ import annotations

from dragoman.formats.grammars.nodes import DIGIT, Node, Repeat, Text, chars, choice, maybe, repeat, row

_TWO = repeat(DIGIT, 2, 2)


def _words(*words: str) -> Node:
    return choice(map(Text, words))


def _numbers(first: int, last: int) -> Node:
    """Two digits from one number to another."""
    ways: list[Node] = []
    for tens in range(first // 10, last // 10 + 1):
        low, high = max(first, tens * 10) % 10, min(last, tens * 10 + 9) % 10
        ways.append(row(Text(str(tens)), chars(f"{low}{high}") if low < high else Text(str(low))))
    return choice(ways)


def _leap_years() -> Node:
    fours = choice(
        [
            row(Text("0"), chars("4488")),
            row(chars("22446688"), chars("004488")),
            row(chars("1133557799"), chars("2266")),
        ]
    )
    centuries = choice([row(chars("0022446688"), chars("004488")), row(chars("1133557799"), chars("2266"))])
    return choice([row(_TWO, fours), row(centuries, Text("00"))])


_DATE = choice(
    [
        row(
            Repeat(DIGIT, 4, 4),
            Text("-"),
            choice(
                [
                    row(_words("01", "03", "05", "07", "08", "10", "12"), Text("-"), _numbers(1, 31)),
                    row(_words("04", "06", "09", "11"), Text("-"), _numbers(1, 30)),
                    row(Text("02-"), _numbers(1, 28)),
                ]
            ),
        ),
        row(_leap_years(), Text("-02-29")),
    ]
)
_CLOCK = row(
    _numbers(0, 23), Text(":"), _numbers(0, 59), Text(":"), _numbers(0, 59), maybe(row(Text("."), repeat(DIGIT, 1, 6)))
)
_ZONE = choice([Text("Z"), row(chars("++--"), _numbers(0, 23), Text(":"), _numbers(0, 59))])
_HEX = chars("09afAF")
_ATOM = repeat(chars("azAZ09__++--"), 1, 20)
_LABEL = row(chars("azAZ09"), repeat(row(maybe(Text("-")), chars("azAZ09")), 0, 20))
_BYTE = choice(
    [
        row(Text("25"), chars("05")),
        row(Text("2"), chars("04"), DIGIT),
        row(Text("1"), DIGIT, DIGIT),
        row(chars("19"), DIGIT),
        DIGIT,
    ]
)

FORMS: dict[str, Node] = {
    "date": _DATE,
    "time": row(_CLOCK, _ZONE),
    "date-time": row(_DATE, Text("T"), _CLOCK, _ZONE),
    "uuid": row(Repeat(_HEX, 8, 8), *[row(Text("-"), Repeat(_HEX, 4, 4))] * 3, Text("-"), Repeat(_HEX, 12, 12)),
    "email": row(_ATOM, repeat(row(Text("."), _ATOM), 0, 3), Text("@"), _LABEL, repeat(row(Text("."), _LABEL), 1, 3)),
    "ipv4": row(_BYTE, *[row(Text("."), _BYTE)] * 3),
}
"""Formats of JSON Schema that are written out; others count as any text. `-02-29` stands in leap years only."""
