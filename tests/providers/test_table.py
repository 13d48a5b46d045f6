"""The rows of the provider table: all of them, whole, and as the reference gives them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from tests.tables import each_row

from dragoman import formats
from dragoman.providers import WIRES, Provider
from dragoman.providers.provider import AUTHS
from dragoman.providers.registry import shipped

ROWS = list(shipped())
BY_TITLE = {row.title: row for row in ROWS}
# The reference has no letter for other wires.
LETTERS = dict.fromkeys([*WIRES, "own"], "X") | dict(
    openai_chat="C", openai_responses="R", anthropic="A", gemini="G", ollama="O", bedrock="B", mistral="C"
)
NEARLY_ALL = 0.8


class Line(NamedTuple):
    """One line of the reference: the cells by the name of their column, and the rows that it stands for."""

    cells: dict[str, str]
    rows: list[Provider]


@pytest.fixture(scope="module")
def lines(shared_data: Callable[[str], Path]) -> list[Line]:
    reference = shared_data("README.md").parents[1] / "reference" / "providers.md"
    return list(read_lines(reference.read_text(encoding="utf-8")))


def read_lines(page: str) -> Iterator[Line]:
    heads: list[str] = []
    for line in page.splitlines():
        if not line.startswith("|"):
            continue
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells[0] in ("Provider", "Server"):
            heads = cells
        elif not set(cells[0]) <= set("-"):
            title = cells[0]
            titles = [title] if title in BY_TITLE else title.split(" / ")
            yield Line(dict(zip(heads, cells, strict=True)), [BY_TITLE[each] for each in titles])


def addresses(row: Provider) -> list[str]:
    return [row.base_url, *row.urls.values(), *row.wire_urls.values()]


def without_names_of_holes(url: str) -> str:
    return re.sub(r"\{\w+\}", "{}", url)


def test_every_endpoint_of_the_reference_has_a_row(lines: list[Line]) -> None:
    named = [row.name for line in lines for row in line.rows]
    assert len(named) == len(set(named))
    # A row may be newer than the reference, which is not part of the repository.
    assert set(named) <= {row.name for row in ROWS} - {"custom", "local"}


def test_every_address_of_the_reference_is_in_its_row(lines: list[Line]) -> None:
    missing = []
    for line in lines:
        # An address that the reference shortens is not compared.
        urls = re.findall(r"https?://[^\s,;)(`·…]+(?![…\w])", line.cells["Base URL"].replace("dashscope-intl…", ""))
        known = [without_names_of_holes(url) for row in line.rows for url in addresses(row)]
        for url in urls:
            plain = without_names_of_holes(url.rstrip("/"))
            if not any(own == plain or own.startswith(plain + "/") for own in known):
                missing.append((line.rows[0].name, url))
    assert missing == []


def test_lines_with_several_endpoints_give_each_its_host_or_port(lines: list[Line]) -> None:
    shared = [line for line in lines if len(line.rows) > 1 and line.rows[0].speakable]
    assert len(shared) >= 5
    for line in shared:
        given = line.cells["Base URL"]
        places = set(re.findall(r"[\w-]+(?:\.[\w-]+)+(?:/[\w/]+)?|(?<=:)\d{4,5}", given))
        own = " ".join(url for row in line.rows for url in addresses(row))
        assert {place for place in places if place not in own} == set(), line.rows[0].name


def test_every_key_of_the_reference_is_in_its_row(lines: list[Line]) -> None:
    for line in lines:
        said = " ".join(line.cells.values())
        wanted = set(re.findall(r"(?<![*_A-Z])[A-Z][A-Z0-9_]+_(?:API_KEY|KEY|TOKEN|JWT)\b", said))
        known = {name for row in line.rows for name in row.key}
        assert wanted <= known, line.rows[0].name


def test_wires_are_those_of_the_reference_and_the_first_stays_first(lines: list[Line]) -> None:
    compared = 0
    for line in lines:
        if "Wire" not in line.cells:
            continue
        letters = re.findall(r"\b[CRAGOBX]\b", line.cells["Wire"])
        for row in line.rows:
            compared += 1
            ours = [LETTERS[wire] for wire in row.wires]
            assert set(ours) <= set(letters), row.name
            assert ours[0] == letters[0], row.name
            if row.name != "bedrock" and len(line.rows) == 1:  # whose other endpoints are not used
                assert set(ours) == set(letters), row.name
    assert compared > 40


def test_native_is_what_the_reference_flags(lines: list[Line]) -> None:
    for line in lines:
        said = line.cells.get("Native tools") or line.cells.get("Notes", "")
        fraction = re.search(r"(\d+)/(\d+)", said)
        for row in line.rows:
            if said.startswith("yes"):
                assert row.native == "yes", row.name
            elif "**no**" in said:
                assert row.native == "no", row.name
            elif fraction and len(line.rows) == 1:
                nearly_all = int(fraction[1]) / int(fraction[2]) >= NEARLY_ALL
                assert row.native == ("yes" if nearly_all else "per_model"), row.name
            elif "Native tools" in line.cells and len(line.rows) == 1:
                assert row.native in ("per_model", "learned"), row.name


# ---- without the reference -----------------------------------------------------------------------------------------


def test_names_and_aliases_lead_to_one_row_each() -> None:
    names = [name for row in ROWS for name in (row.name, *row.aliases)]
    assert len(names) == len(set(names))
    assert len(ROWS) > 100


@each_row("row", ROWS, ids=lambda row: row.name)
def test_a_row_is_whole(row: Provider) -> None:
    assert row.title
    for url in addresses(row):
        if url or row.name not in ("custom", "sap", "oci", "sagemaker"):
            assert urlsplit(url).scheme in ("http", "https"), url
            assert not url.endswith("/")
    holes = {hole for url in addresses(row) for hole in re.findall(r"\{(\w+)\}", url)}
    assert set(row.variables) == holes
    assert set(row.wire_urls) <= set(row.wires)
    assert row.auth in AUTHS or re.fullmatch(r"[a-z-]+", row.auth)
    if row.group == "first_party" and row.auth not in ("gcp", "oauth"):
        assert row.key
    for name in (row.format, *row.formats):
        assert formats.get(name)


@pytest.mark.parametrize("row", [row for row in ROWS if not row.speakable], ids=lambda row: row.name)
def test_an_endpoint_with_a_protocol_of_its_own_is_listed_and_says_why(row: Provider) -> None:
    assert row.wires == ("own",)
    assert row.notes.startswith("Not speakable: ")
    assert not row.supports_native_tools()


def test_a_local_server_needs_no_key_and_is_at_home() -> None:
    local = [row for row in ROWS if row.group == "local"]
    assert len(local) >= 18
    for row in local:
        assert row.auth in ("none", "optional")
        assert row.base_url.startswith("http://")
