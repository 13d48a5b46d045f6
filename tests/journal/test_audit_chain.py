"""The verification finds records that were changed, removed, moved or added, also at the end of the log."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from itertools import takewhile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.errors import ConfigError
from dragoman.journal.audit import NOTHING_BEFORE, AuditFailed, AuditLog, write_line
from dragoman.journal.verification import verify

RECORDS = 8


def write(path: Path, count: int = RECORDS, **options: object) -> list[str]:
    log = AuditLog(path, sync=False, clock=lambda: 1.0, **options)  # type: ignore[arg-type]
    return [log.append("decision", run="r", call=f"c{number}", tool="read").hash for number in range(count)]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("audit") / "audit.jsonl"
    write(path)
    return path


@pytest.fixture
def path(written: Path, tmp_path: Path) -> Path:
    """A log of eight records with its head."""
    for name in ("audit.jsonl", "audit.jsonl.head"):
        shutil.copy(written.with_name(name), tmp_path / name)
    return tmp_path / "audit.jsonl"


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def forget_head(path: Path) -> None:
    path.with_name(path.name + ".head").unlink()


def test_a_sound_log(path: Path) -> None:
    report = verify(path)
    assert (report.ok, report.records, report.head_number, report.first_fault) == (True, RECORDS, RECORDS, None)
    assert report.head_hash in path.with_name("audit.jsonl.head").read_text()
    assert report.notes == ()


@given(data=st.data())
def test_any_changed_byte_is_found(written: Path, tmp_path_factory, data) -> None:
    path = tmp_path_factory.mktemp("changed") / "audit.jsonl"
    content = written.read_bytes()
    place = data.draw(st.integers(0, len(content) - 1))
    new = data.draw(st.binary(max_size=3).filter(lambda new: new != content[place : place + 1]))
    path.write_bytes(content[:place] + new + content[place + 1 :])
    shutil.copy(written.with_name("audit.jsonl.head"), path.with_name("audit.jsonl.head"))
    report = verify(path)
    assert not report.ok
    assert report.what and report.hint
    line = content.count(b"\n", 0, place) + 1
    assert report.first_fault in (line, line + 1), "the place is named"


LINE = st.integers(0, RECORDS - 1)
CHANGES: list[tuple[str, Callable[[list[bytes], int, int], list[bytes]]]] = [
    ("removed", lambda lines, one, two: lines[:one] + lines[one + 1 :]),
    ("removed several", lambda lines, one, two: lines[: min(one, two)] + lines[max(one, two) + 1 :]),
    ("swapped", lambda lines, one, two: [lines[{one: two, two: one}.get(at, at)] for at in range(len(lines))]),
    ("doubled", lambda lines, one, two: [*lines[:two], lines[one], *lines[two:]]),
    ("turned round", lambda lines, one, two: lines[::-1]),
    ("put in", lambda lines, one, two: [*lines[:one], b'{"n":1}\n', *lines[one:]]),
    ("blank", lambda lines, one, two: [*lines[:one], b"\n", *lines[one:]]),
]


@pytest.mark.parametrize("change", [change for _, change in CHANGES], ids=[name for name, _ in CHANGES])
@given(one=LINE, two=LINE)
def test_any_change_to_the_lines_is_found(written: Path, tmp_path_factory, change, one: int, two: int) -> None:
    path = tmp_path_factory.mktemp("changed") / "audit.jsonl"
    before = lines_of(written)
    after = change(before, one, two)
    path.write_bytes(b"".join(after))
    shutil.copy(written.with_name("audit.jsonl.head"), path.with_name("audit.jsonl.head"))
    report = verify(path)
    assert report.ok == (after == before)
    if not report.ok:
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(before, after, strict=False)))
        assert report.first_fault == same + 1


def test_a_record_in_the_middle_is_exchanged_with_its_hash(path: Path) -> None:
    """An attacker who knows the hash function has to write every later record again."""
    lines = lines_of(path)
    previous = lines[2][-67:-3].decode()
    lines[3], _ = write_line(4, 1.0, "decision", {"run": "r", "call": "another"}, previous)
    path.write_bytes(b"".join(lines))
    report = verify(path)
    assert (report.ok, report.records, report.first_fault) == (False, 4, 5)
    assert "does not follow the line before it" in report.what


def test_the_last_record_is_exchanged_with_its_hash(path: Path) -> None:
    lines = lines_of(path)
    lines[-1], _ = write_line(RECORDS, 1.0, "decision", {"run": "r", "call": "another"}, lines[-2][-67:-3].decode())
    path.write_bytes(b"".join(lines))
    report = verify(path)
    assert (report.ok, report.first_fault) == (False, RECORDS)
    assert "not the record with this number in the head file" in report.what
    forget_head(path)
    assert verify(path).ok, "nothing but a head can tell"


@pytest.mark.parametrize("left", range(RECORDS))
def test_records_that_are_missing_at_the_end(path: Path, left: int) -> None:
    head = verify(path).head_hash
    path.write_bytes(b"".join(lines_of(path)[:left]))
    report = verify(path)
    assert (report.ok, report.records, report.first_fault) == (False, left, left + 1)
    assert f"ends at record {left}, and its head file knows record {RECORDS}" in report.what
    forget_head(path)
    report = verify(path)
    assert report.ok
    assert ("there is no head" in " ".join(report.notes)) == (left > 0)
    assert not verify(path, head=head).ok, "a head that was copied elsewhere still tells"


def test_a_log_that_was_removed_altogether(path: Path) -> None:
    path.unlink()
    report = verify(path)
    assert (report.ok, report.records, report.first_fault) == (False, 0, 1)
    forget_head(path)
    with pytest.raises(AuditFailed, match="there is no audit log"):
        verify(path)


def test_a_head_that_was_copied_earlier(path: Path) -> None:
    head = verify(path).head_hash
    AuditLog(path).append("ended", run="r")
    report = verify(path, head=head.upper() + "\n")
    assert (report.ok, report.notes) == (True, ("1 record more than at the given head",))
    forget_head(path)
    path.unlink()
    write(path, RECORDS + 5)
    assert verify(path, head=head).ok, "the very same records, at the same times, are the same log"
    with pytest.raises(ConfigError, match="64 hexadecimal digits"):
        verify(path, head="abc")


def test_an_earlier_head_detects_a_log_that_was_written_again(path: Path) -> None:
    head = verify(path).head_hash
    forget_head(path)
    path.unlink()
    AuditLog(path).append("decision", run="innocent")
    assert verify(path).ok, "this cannot be seen from the file alone"
    report = verify(path, head=head)
    assert not report.ok
    assert "it does not contain the given head" in report.what


# ---- writing on behind damage ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, RECORDS - 1])
def test_later_records_do_not_hide_missing_records(path: Path, left: int) -> None:
    path.write_bytes(b"".join(lines_of(path)[:left]))
    assert AuditLog(path).append("started", run="r").number == RECORDS + 2
    for _ in range(3):
        report = verify(path)
        assert (report.ok, report.first_fault) == (False, left + 1)
        AuditLog(path).append("ended", run="r")
    assert b'"kind":"gap"' in lines_of(path)[left]
    assert sum(b'"gap"' in line for line in lines_of(path)) == 1, "it is said once"


def test_later_records_do_not_hide_a_changed_last_record(path: Path) -> None:
    lines = lines_of(path)
    path.write_bytes(b"".join(lines[:-1]) + lines[-1].replace(b'"c7"', b'"c8"'))
    AuditLog(path).append("started", run="r")
    report = verify(path)
    assert not report.ok


def test_later_records_do_not_hide_an_exchanged_last_record(path: Path) -> None:
    lines = lines_of(path)
    lines[-1], _ = write_line(RECORDS, 1.0, "decision", {"run": "forged"}, lines[-2][-67:-3].decode())
    path.write_bytes(b"".join(lines))
    AuditLog(path).append("started", run="r")
    report = verify(path)
    assert (report.ok, report.first_fault) == (False, RECORDS + 1)


def test_later_records_do_not_hide_exchanged_and_added_records(path: Path) -> None:
    lines = lines_of(path)[: RECORDS - 1]
    previous = lines[-1][-67:-3].decode()
    for number in (RECORDS, RECORDS + 1, RECORDS + 2):
        line, previous = write_line(number, 1.0, "decision", {"run": "forged"}, previous)
        lines.append(line)
    path.write_bytes(b"".join(lines))
    assert not verify(path).ok
    AuditLog(path).append("started", run="r")
    assert not verify(path).ok


@pytest.mark.parametrize("length", [1, 5, 100, -2, -1])
def test_half_a_record_is_closed_and_accounted_for(path: Path, length: int) -> None:
    """A writer that was killed: its record is there in part, and the head does not know it."""
    line, _ = write_line(RECORDS + 1, 2.0, "started", {"run": "r"}, verify(path).head_hash)
    with path.open("ab") as file:
        file.write(line[:length])
    before = path.read_bytes()
    report = verify(path)
    assert (report.ok, report.records) == (True, RECORDS + (length == -1))
    assert "killed" in report.notes[0]
    AuditLog(path).append("ended", run="r")
    assert path.read_bytes().startswith(before), "nothing is dropped"
    report = verify(path)
    assert (report.ok, report.records) == (True, RECORDS + 2)
    if length != -1:
        assert "left by a killed writer; the next record accounts for them" in report.notes[0]
        torn = lines_of(path)[-2]
        assert b'"kind":"torn"' in torn


@pytest.mark.parametrize("zeros", [b"\0" * 100, b"\0" * 200_000, b'{"n":9,"at":1' + b"\0" * 100], ids=len)
def test_zeros_of_a_power_failure_are_accounted_for(path: Path, zeros: bytes) -> None:
    with path.open("ab") as file:
        file.write(zeros)
    assert verify(path).ok
    log = AuditLog(path)
    log.append("ended", run="r")
    log.append("ended", run="r")
    report = verify(path)
    assert (report.ok, report.records, len(report.notes)) == (True, RECORDS + 3, 1)
    assert zeros in path.read_bytes()
    path.write_bytes(path.read_bytes().replace(zeros, zeros[:-1] + b"?", 1))
    assert not verify(path).ok, "it can no longer be changed either"


NEXT = b'{"n":9,"at":1.0,"kind":"decision","run":"r"'
RECORD = write_line(9, 1.0, "decision", {"run": "r"}, "0" * 64)[0]


@pytest.mark.parametrize(
    "forged",
    [
        NEXT + b"}\n",
        NEXT + b"}",
        NEXT + b"\n",
        NEXT + b',"prev":"' + b"0" * 64 + b'"}\n',
        NEXT + b',"prev":"' + b"0" * 64 + b'","hash":"' + b"0" * 64 + b'"}\n',
        NEXT + b',"prev":"' + b"0" * 64 + b'","hash":"' + b"0" * 64 + b'"}',
        NEXT.replace(b"9", b"8"),
        NEXT.replace(b"9", b"10"),
        NEXT.replace(b"9", b"09"),
        b" " + NEXT,
        b"\xef\xbb\xbf" + NEXT,
        b'{"kind":"decision"',
        b'{"n": 9',
        b'{"n":9,"at":"\xff',
        RECORD,
        RECORD[:-1] + RECORD,
        RECORD[:-1] + RECORD[:-1],
        b"[]\n",
        b"{}\n",
        b"\n",
        b"\r\n",
        b"a\nb\nc",
        b"\xff" * 3,
        b"\0" * 100 + b"\n",
        b"\0" * 100 + b"x",
        NEXT + b"x" * (1 << 20),
    ],
    ids=range(26),
)
def test_a_forged_line_is_never_taken_for_a_torn_one(path: Path, forged: bytes) -> None:
    with path.open("ab") as file:
        file.write(forged)
    report = verify(path)
    assert (report.ok, report.records, report.first_fault) == (False, RECORDS, RECORDS + 1)
    head = path.with_name("audit.jsonl.head")
    known = head.read_bytes()
    head.unlink()
    assert not verify(path).ok, "not even without a head"
    head.write_bytes(known)


@pytest.mark.parametrize("forged", [NEXT + b"}\n", NEXT + b"}", b"{}\n", b"a\nb\nc", b"\n", b"\xff" * 3], ids=range(6))
def test_later_records_do_not_hide_a_forged_line(path: Path, forged: bytes) -> None:
    with path.open("ab") as file:
        file.write(forged)
    log = AuditLog(path)
    for _ in range(3):
        log.append("ended", run="r")
        assert not verify(path).ok
    assert forged in path.read_bytes()


def test_two_chains_in_one_file(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / "audit.jsonl"
    write(other, 3)
    for content in (path.read_bytes() + other.read_bytes(), other.read_bytes() + path.read_bytes()):
        mixed = tmp_path / "mixed.jsonl"
        mixed.write_bytes(content)
        assert not verify(mixed).ok


def test_a_writer_killed_while_it_accounts_for_another(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b'{"n":9,"at"')
    AuditLog(path).append("ended", run="r")
    whole = path.read_bytes()
    begun = whole.index(b'{"n":9,"at"')
    for end in range(begun + 13, len(whole), 23):
        path.write_bytes(whole[:end])
        # What the head file knew before.
        path.with_name("audit.jsonl.head").write_bytes(b"%020d %s\n" % (RECORDS, whole[begun - 67 : begun - 3]))
        assert verify(path).ok
        AuditLog(path).append("ended", run="again")
        report = verify(path)
        assert report.ok, (end, report)
        assert path.read_bytes().startswith(whole[:end])


def test_a_cut_in_the_last_record_is_no_crash(path: Path) -> None:
    """The head is written behind the record, so a record that it knows was whole."""
    content = path.read_bytes()
    for length in (1, 2, 40):
        path.write_bytes(content[:-length])
        assert not verify(path).ok, length
    path.write_bytes(content[:-1])
    AuditLog(path).append("ended", run="r")
    assert verify(path).ok, "nothing but the end of a line was missing, and it is back"


def test_a_head_file_that_is_behind(path: Path) -> None:
    """After a power cut the head file may know an older record."""
    head = path.with_name("audit.jsonl.head")
    known = head.read_bytes()
    write(path, 4)
    head.write_bytes(known)
    assert verify(path).ok
    AuditLog(path).append("ended", run="r")
    report = verify(path)
    assert (report.ok, report.records) == (True, RECORDS + 5)


@pytest.mark.parametrize("content", [b"", b"rubbish", b"\0" * 86, b"1" * 200])
def test_a_head_file_that_says_nothing(path: Path, content: bytes) -> None:
    head = path.with_name("audit.jsonl.head")
    head.write_bytes(content)
    assert "there is no head" in verify(path).notes[0]
    AuditLog(path).append("ended", run="r")
    assert verify(path).notes == ()


# ---- files that are full ---------------------------------------------------------------------------------------------


@pytest.fixture
def rotated(tmp_path: Path) -> Path:
    path = tmp_path / "audit.jsonl"
    write(path, 20, max_bytes=1200)
    assert sorted(each.name for each in tmp_path.glob("audit.jsonl.[0-9]*"))[:3] == [
        "audit.jsonl.1",
        "audit.jsonl.2",
        "audit.jsonl.3",
    ]
    return path


def test_the_chain_continues_across_files(rotated: Path) -> None:
    report = verify(rotated)
    aside = list(rotated.parent.glob("audit.jsonl.[0-9]*"))
    assert (report.ok, report.files) == (True, len(aside) + 1)
    assert report.records == 20 + len(aside), "each file but the first begins with a record of its own"
    assert all(each.stat().st_size <= 1200 for each in [rotated, *aside])


def test_files_are_in_order_of_their_numbers(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    write(path, 30, max_bytes=1)
    (tmp_path / "audit.jsonl.007").write_text("somebody else's")
    (tmp_path / "audit.jsonl.bak").write_text("somebody else's")
    report = verify(path)
    assert (report.ok, report.files) == (True, 30)


def test_a_file_that_is_missing_in_between(rotated: Path) -> None:
    rotated.with_name("audit.jsonl.2").unlink()
    report = verify(rotated)
    assert (report.ok, report.file, report.first_fault) == (False, "audit.jsonl.3", 1)
    assert "missing" in report.what


def test_old_files_may_be_kept_elsewhere(rotated: Path) -> None:
    rotated.with_name("audit.jsonl.1").unlink()
    report = verify(rotated)
    assert report.ok
    assert "the older files are missing" in report.notes[0]


def test_the_first_records_of_a_file_are_missing(rotated: Path) -> None:
    rotated.with_name("audit.jsonl.1").unlink()
    second = rotated.with_name("audit.jsonl.2")
    second.write_bytes(b"".join(lines_of(second)[1:]))
    report = verify(rotated)
    assert (report.ok, report.file, report.first_fault) == (False, "audit.jsonl.2", 1)


def test_a_fault_in_an_old_file_is_named(rotated: Path) -> None:
    first = rotated.with_name("audit.jsonl.1")
    first.write_bytes(first.read_bytes().replace(b'"c1"', b'"c9"'))
    report = verify(rotated)
    assert (report.ok, report.file, report.first_fault, report.records) == (False, "audit.jsonl.1", 2, 1)


@pytest.mark.parametrize("left_behind", [None, b""], ids=["no file", "an empty file"])
def test_a_writer_killed_while_it_puts_a_file_aside(rotated: Path, left_behind: bytes | None) -> None:
    rotated.rename(rotated.with_name("audit.jsonl.99"))
    if left_behind is not None:
        rotated.write_bytes(left_behind)
    assert verify(rotated).ok
    AuditLog(rotated).append("ended", run="r")
    assert verify(rotated).ok
    assert b'"file":"audit.jsonl.99"' in lines_of(rotated)[0]


def test_the_file_that_was_written_is_removed(rotated: Path) -> None:
    rotated.unlink()
    assert not verify(rotated).ok
    AuditLog(rotated).append("ended", run="r")
    assert not verify(rotated).ok


def test_a_first_record_that_is_not_the_first(tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    path.write_bytes(write_line(7, 1.0, "decision", {}, NOTHING_BEFORE)[0])
    report = verify(path)
    assert (report.ok, report.what) == (False, "the records before number 7 are missing")


def test_a_very_long_line_is_not_read_into_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "audit.jsonl"
    write(path, 1)
    with path.open("ab") as file:
        file.write(b"x" * 30_000_000)
    tracemalloc.start()
    try:
        AuditLog(path, sync=False).append("ended", run="r")
        report = verify(path)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert not report.ok and report.records == 1
    assert most < 8_000_000
