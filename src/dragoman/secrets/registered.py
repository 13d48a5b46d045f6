"""Known secrets: all their encodings, and how placeholders are replaced by the secrets for a tool."""

from __future__ import annotations

import base64
import html
import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, quote_plus

import msgspec

from dragoman.errors import ConfigError
from dragoman.secrets.encodings import (
    Dump,
    Reading,
    cell_forms,
    dumps,
    readings,
    undecided_dump,
    unfinished,
    word_forms,
)
from dragoman.secrets.spans import RedactedOutput, Render, Span
from dragoman.secrets.vendors import word_set

# --------------------------------------------------------------------------------------------------------------------
# The encodings of a known secret: every form in which a tool could print it.

# A shorter piece of an encoding occurs by chance.
_SHORTEST: Final = 8
_BLANKS = re.compile(r"\s+")
# What different programs leave as it is when they encode for a link.
_SAFE: Final = ("", "/", "!~*'()", ";,/?:@&=+$-_.!~*'()#", "!'()*-._~/:")


def squeeze(text: str) -> str:
    """The text without blanks and breaks."""
    # The same as a substitution of `\s+`, twenty times as fast.
    return "".join(text.split())


def needles(value: str) -> set[str]:
    """All forms of a secret to look for, without blanks."""
    forms = {squeeze(form) for form in _forms(value)}
    return {form for form in forms if len(form) >= _SHORTEST} | {squeeze(value)}


def _forms(value: str) -> Iterator[str]:
    raw = value.encode("utf-8", "surrogatepass")
    yield value
    yield value[::-1]
    wide = value.encode("utf-16-le", "surrogatepass")
    for each in (raw, wide):
        yield each.hex()
        yield each.hex().upper()
    yield base64.b32encode(raw).decode().rstrip("=")
    yield base64.b32encode(raw).decode().rstrip("=").lower()
    yield "".join(f"\\x{byte:02x}" for byte in raw)
    yield from (str(int.from_bytes(raw, order)) for order in ("big", "little"))
    yield from _in_base64(raw)
    yield from _in_base64(value.encode("utf-16-le", "surrogatepass"))
    yield from _in_links(raw)
    yield from _escaped(value)
    if "\n" in value.strip():
        # A file of several lines, such as a private key: each line is a secret of its own.
        yield from (line.strip() for line in value.splitlines() if not line.startswith("-----"))


def _in_base64(raw: bytes) -> Iterator[str]:
    """Base64 of the secret alone, and the part that does not depend on what stands around it."""
    for plain in (base64.b64encode(raw).decode(), base64.urlsafe_b64encode(raw).decode()):
        yield plain
        yield plain.rstrip("=")
    for before in range(3):
        bits = 8 * (before + len(raw))
        first, last = -(-8 * before // 6), bits // 6
        padded = bytes(before) + raw
        yield base64.b64encode(padded).decode()[first:last]
        yield base64.urlsafe_b64encode(padded).decode()[first:last]


def _in_links(raw: bytes) -> Iterator[str]:
    strict = "".join(chr(byte) if chr(byte).isalnum() and byte < 128 else f"%{byte:02X}" for byte in raw)
    forms = [
        strict,
        quote_plus(raw),
        "".join(f"%{byte:02X}" for byte in raw),
        *(quote(raw, safe=safe) for safe in _SAFE),
    ]
    for form in forms:
        yield form
        yield re.sub(r"%[0-9A-F]{2}", lambda found: found.group().lower(), form)
        yield form.replace("%", "%25")


def _escaped(value: str) -> Iterator[str]:
    for ascii_only in (True, False):
        inner = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield inner
        yield inner.replace("/", "\\/")
        yield inner.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
        yield json.dumps(inner, ensure_ascii=ascii_only)[1:-1]
    for form in (html.escape(value, quote=False), html.escape(value)):
        yield form
        yield form.replace("&#x27;", "&#39;")
        yield form.replace("&#x27;", "&apos;").replace("&quot;", "&#34;")
    yield value.replace("'", "'\\''")
    yield value.replace("'", "\\'")
    # Quotes in quotes: in CSV, in SQL and YAML, and in a shell.
    yield value.replace('"', '""')
    yield value.replace("'", "''")
    yield value.replace("'", "'\"'\"'")
    yield re.sub(r"([^\w@%+=:,./-])", r"\\\1", value, flags=re.ASCII)


# --------------------------------------------------------------------------------------------------------------------
# Hide known secrets in every encoding, even across line breaks.

SHORTEST: Final = 6
_STEP: Final = 131_072
_HEAD: Final = 3
# A form at least this long is also found when blanks or breaks stand in it.
_STRETCHES: Final = 12
_RANK: Final = 9
# No more than this much text is held back, whatever stands between the characters of a secret.
_LONGEST: Final = 65_536
_PATIENCE: Final = 1024

_PIECES = re.compile(r"\S+")
_NAME = re.compile(r"[^a-z0-9]+")
# Not a secret although it may stand where one is expected: keys of local servers, and stand-ins.
_STAND_INS: Final = word_set(
    """
    ollama lmstudio lm-studio not-needed no-key-required no-key none null empty dummy default localhost local test
    placeholder changeme password secret api-key apikey api_key your-api-key your_api_key unused
    """
)


class Forms:
    """Forms of secrets, each with its kind, to be searched together."""

    __slots__ = ("_forms", "_heads", "_short", "longest", "shortest")

    def __init__(self, forms: dict[str, str]) -> None:
        self._forms = forms
        self.longest = max(map(len, forms), default=0)
        self.shortest = min(map(len, forms), default=0)
        self._heads: dict[str, list[str]] = {}
        self._short: set[str] = set()
        for form in forms:
            self._heads.setdefault(form[:_HEAD], []).append(form)
            self._short.update(form[:size] for size in range(1, _HEAD))

    def __bool__(self) -> bool:
        return bool(self._forms)

    def stand_in(self, squeezed: str) -> bool:
        """Whether a form stands in a text without blanks. Most texts have no beginning of one."""
        return any([head in squeezed for head in self._heads]) and next(self.find(squeezed), None) is not None

    def find(self, squeezed: str) -> Iterator[tuple[int, int, str]]:
        """Every form in a text without blanks: where it begins and ends, and its kind."""
        for form, kind in self._forms.items():
            at = squeezed.find(form)
            while at >= 0:
                yield at, at + len(form), kind
                at = squeezed.find(form, at + 1)

    def begins(self, squeezed: str) -> int:
        """Where the end of a text without blanks may be the beginning of a form; its length if nowhere."""
        size = len(squeezed)
        lowest = max(0, size - self.longest + 1)
        best = size
        for head, forms in self._heads.items():
            at = squeezed.find(head, lowest)
            while 0 <= at < best:
                tail = squeezed[at:]
                if any(len(form) > len(tail) and form.startswith(tail) for form in forms):
                    best = at
                at = squeezed.find(head, at + 1)
        for length in range(1, _HEAD):
            if squeezed[-length:] in self._short:
                best = min(best, size - length)
        return max(best, 0)


class Secrets(Forms):
    """Known secrets with all their encodings, computed once and shared by the scrubbers."""

    __slots__ = ("_cells", "_digits", "_words", "decoded", "values")

    def __init__(self, secrets: Iterable[str] | Mapping[str, str] = ()) -> None:
        named = secrets.items() if isinstance(secrets, Mapping) else (("secret", value) for value in secrets)
        forms: dict[str, str] = {}
        decoded: dict[str, str] = {}
        digits: dict[str, str] = {}
        cells: dict[str, str] = {}
        words: dict[str, str] = {}
        self.values: set[str] = set()
        for name, value in named:
            _check(name, value)
            self.values.add(value.strip())
            kind = _NAME.sub("_", name.lower()).strip("_")[:40] or "secret"
            forms |= dict.fromkeys(needles(value) - forms.keys(), kind)
            decoded |= dict.fromkeys(set(_plain_forms(value)) - decoded.keys(), kind)
            digits.setdefault(value.strip().encode("utf-8", "surrogatepass").hex(), kind)
            cells |= dict.fromkeys(set(cell_forms(value.strip())) - cells.keys(), kind)
            for form, is_part in word_forms(value.strip()):
                (words if is_part else cells).setdefault(form, kind)
        super().__init__(forms)
        self.decoded = Forms(decoded)
        """What a text says once its escapes are decoded."""
        self._digits, self._cells, self._words = Forms(digits), Forms(cells), Forms(words)

    @property
    def longest_cells(self) -> int:
        """The length of the longest form in a dump."""
        return max(self._cells.longest, self._words.longest)

    def find_in_dump(self, dump: Dump) -> Iterator[tuple[int, int, str]]:
        """Where the secrets of a dump stand in its text, and their kinds."""
        for forms, beside in ((self._cells, 0), (self._words, 1)) if dump.has_cells else ((self._digits, 0),):
            if forms.stand_in(dump.text):
                # The first and the last characters of a secret may share a word with others.
                for first, last, kind in forms.find(dump.text):
                    yield *dump.place(first, last, beside=beside), kind

    def may_occur(self, text: str) -> bool:
        """False only where no form stands in the text, also not in an encoding of single characters."""
        if len(text) < self.shortest or not self._forms:
            return False
        return (
            self.stand_in(squeeze(text))
            or any(self.decoded.stand_in(reading.text) for reading in readings(text))
            or any(True for dump in dumps(text) for _ in self.find_in_dump(dump))
        )


def _plain_forms(value: str) -> Iterator[str]:
    """The forms of a secret whose characters may be encoded one by one, or stand apart."""
    raw = value.encode("utf-8", "surrogatepass")
    yield squeeze(value)
    # A reading contains no backslash, and decodes what looks like an escape in the secret itself.
    yield from (own for own in (squeeze(value.replace("\\", "")), Reading(value).text) if len(own) >= SHORTEST)
    # At the end of a line, a sign of equality is read as a soft line break.
    yield squeeze(value).replace("=", "")
    # Escapes of bytes, and of the halves of a character beyond the first plane.
    yield squeeze(raw.decode("latin-1"))
    units = value.encode("utf-16-le", "surrogatepass")
    yield squeeze("".join(chr(units[at] | units[at + 1] << 8) for at in range(0, len(units), 2)))
    yield raw.hex()
    yield base64.b64encode(raw).decode().rstrip("=")


def _check(name: str, value: str) -> None:
    if not isinstance(value, str):
        raise ConfigError(f"a registered secret must be a string, not {type(value).__name__}")
    if len(squeeze(value)) < SHORTEST:
        raise ConfigError(
            f"the registered secret {name!r} is shorter than {SHORTEST} characters: hiding it would hide ordinary text",
            hint="register longer secrets only; `worth_hiding(value)` says which are",
        )


def worth_hiding(value: str | None) -> bool:
    """Whether a value of a configuration is a secret: long enough, and not a placeholder."""
    if value is None or len(squeeze(value)) < 8 or value.strip().lower() in _STAND_INS:
        return False
    return len(set(value)) > 3


class RegisteredStage:
    """Hides the known secrets in a text that arrives in pieces."""

    def __init__(self, secrets: Secrets, render: Render) -> None:
        self._secrets = secrets
        self._box = RedactedOutput(render)
        self._patient_until = 0

    def feed(self, piece: str) -> str:
        return "".join(self._take(piece[at : at + _STEP]) for at in range(0, len(piece), _STEP))

    def close(self) -> str:
        return self._release(final=True)

    def _take(self, piece: str) -> str:
        self._box.text += piece
        # A long text that is held back is read again only when it has grown by a good part.
        held = len(self._box.text) - self._box.done
        if held < self._patient_until:
            return ""
        out = self._release(final=False)
        held = len(self._box.text) - self._box.done
        self._patient_until = held + held // 4 if held > _PATIENCE else 0
        return out

    def _release(self, *, final: bool) -> str:
        box = self._box
        held = box.text[box.done :]
        squeezed = squeeze(held)
        place = _placer(held, box.done)
        box.spans = []
        for first, last, kind in self._secrets.find(squeezed):
            start, end = place(first), place(last - 1) + 1
            exact = end - start == last - first or box.text[start:end] in self._secrets.values
            if last - first >= _STRETCHES or exact:
                box.spans.append(Span(start, end, kind, _RANK))
        hidden = self._read_on(held, final=final)
        if final:
            return box.release(len(box.text))[0]
        begins = self._secrets.begins(squeezed)
        limit = place(begins) if begins < len(squeezed) else len(box.text)
        return box.release(max(min(limit, box.done + hidden), len(box.text) - _LONGEST))[0]

    def _read_on(self, held: str, *, final: bool) -> int:
        """Find the secrets whose characters are encoded or stand apart; return up to where that is decided."""
        secrets, box = self._secrets, self._box
        limit = len(held)
        for reading in readings(held):
            if secrets.decoded.stand_in(reading.text):
                _, place = reading.places()
                for first, last, kind in secrets.decoded.find(reading.text):
                    start, end = place(first)[0], place(last - 1)[1]
                    if last - first >= _STRETCHES or not _BLANKS.search(held, start, end):
                        box.spans.append(Span(box.done + start, box.done + end, kind, _RANK))
                        # The last character may still be struck over.
                        limit = min(limit, start) if end == len(held) else limit
        for dump in dumps(held):
            for start, end, kind in secrets.find_in_dump(dump):
                box.spans.append(Span(box.done + start, box.done + end, kind, _RANK))
        if final:
            return len(held)
        escape, line = unfinished(held)
        # A secret may have begun before an escape, or a prefix, that is not complete yet.
        for end in {len(held), escape, line}:
            limit = min(limit, self._begun(held[:end]))
        return min(limit, escape, undecided_dump(held, secrets.longest_cells))

    def _begun(self, text: str) -> int:
        """Where a secret may have begun whose characters are encoded or stand apart; else the end of the text."""
        forms = self._secrets.decoded
        offset = max(0, len(text) - min(_LONGEST, 16 * forms.longest + 512))
        window = text[offset:]
        best = len(text)
        squeezed = squeeze(window)
        begins = forms.begins(squeezed)
        if begins < len(squeezed):
            best = _placer(window, offset)(begins)
        for reading in readings(window):
            begins = forms.begins(reading.text)
            if begins < len(reading.text):
                best = min(best, offset + reading.place_from_end(len(reading.text) - begins))
        return best


def _placer(held: str, offset: int) -> Callable[[int], int]:
    """Says where a character of the text without blanks stands in the text. The table is made when it is needed."""
    starts: list[int] = []
    places: list[int] = []

    def place(index: int) -> int:
        if not starts:
            total = 0
            for piece in _PIECES.finditer(held):
                starts.append(total)
                places.append(piece.start())
                total += piece.end() - piece.start()
        at = bisect_right(starts, index) - 1
        return offset + places[at] + index - starts[at]

    return place


# --------------------------------------------------------------------------------------------------------------------
# Stores the hidden values, so that a tool that writes can restore them exactly.

_PLACEHOLDER = re.compile(r"(\"?)(\[redacted:[a-z0-9_]{1,64}#(?P<tag>[A-Za-z0-9]{1,64}-)?(?P<number>\d{1,9})\])(\"?)")


class Restored(msgspec.Struct, frozen=True):
    """A text with its secrets restored, and the unknown placeholders."""

    text: str
    unknown: tuple[str, ...] = ()


class Vault:
    """The secrets of one run, by placeholder. The same secret of the same kind always has the same placeholder.

    `tag` goes into every placeholder. Give each run another one, so that a text that was scrubbed in one run says
    nothing in the next.
    """

    def __init__(self, tag: str = "") -> None:
        self._tag: Final = re.sub(r"[^A-Za-z0-9]", "", tag)
        self._values: list[str] = []
        self._bare: list[bool] = []
        self._numbers: dict[tuple[str, str, bool], int] = {}

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Vault({len(self._values)} secrets)"

    def hide(self, kind: str, value: str, bare: bool = False) -> str:
        """Store a value and return its placeholder, in quotes if the value had none."""
        key = (kind, value, bare)
        number = self._numbers.get(key)
        if number is None:
            self._values.append(value)
            self._bare.append(bare)
            number = self._numbers[key] = len(self._values)
        tag = f"{self._tag}-" if self._tag else ""
        placeholder = f"[redacted:{kind}#{tag}{number}]"
        return f'"{placeholder}"' if bare else placeholder

    def extend(self, value: str) -> None:
        """Extend the value that was stored last: it was too long for one piece."""
        if self._values and value:
            self._values[-1] += value

    def locate(self, hidden: str) -> list[tuple[int, int, str]]:
        """Where the hidden values stood in the text that became `hidden`: start, end and kind."""
        found: list[tuple[int, int, str]] = []
        moved = 0
        for match in _PLACEHOLDER.finditer(hidden):
            number = int(match["number"])
            if (match["tag"] or "").rstrip("-") != self._tag or not 1 <= number <= len(self._values):
                continue
            is_quoted = self._bare[number - 1] and match[1] and match[5]
            start, end = match.span() if is_quoted else match.span(2)
            # The value may itself contain a placeholder: a known secret in a field with a telling name.
            value = self.restore(self._values[number - 1]).text
            kind = match[2].removeprefix("[redacted:").partition("#")[0]
            found.append((start + moved, start + moved + len(value), kind))
            moved += len(value) - (end - start)
        return found

    def restore(self, text: str) -> Restored:
        """Replace the placeholders by the hidden values."""
        unknown: list[str] = []

        def put_back(found: re.Match[str]) -> str:
            opening, placeholder, closing = found[1], found[2], found[5]
            number = int(found["number"])
            if (found["tag"] or "").rstrip("-") != self._tag or not 1 <= number <= len(self._values):
                unknown.append(placeholder)
                return found.group()
            value = self._values[number - 1]
            return value if self._bare[number - 1] and opening and closing else f"{opening}{value}{closing}"

        return Restored(_PLACEHOLDER.sub(put_back, text), tuple(unknown))
