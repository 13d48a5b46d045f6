"""Whether and when a request is sent again: decisions over a fake clock, and the waits that servers ask for."""

from __future__ import annotations

from email.utils import formatdate
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.client.retry import Breaker, Breakers, Decision, Retries, counts, decide, read_delay
from dragoman.types import FAILURE_CAUSES, TRANSIENT_FAILURES, Failure, FailureKind

RETRIES = Retries(attempts=4, base=1.0, cap=8.0, patience=60.0)


def judge(failure: Failure, attempt: int = 1, *, delivered: bool = False, deadline: float | None = None) -> Decision:
    return decide(RETRIES, failure, attempt, delivered=delivered, now=100.0, deadline=deadline, draw=0.5)


def status(number: int, retry_after: float | None = None) -> Failure:
    return Failure("server_error", "x", number, retry_after=retry_after)


@pytest.mark.parametrize("number", [408, 409, 425, 429, 500, 502, 503, 504, 529])
def test_statuses_that_pass_are_tried_again(number: int) -> None:
    """Faults 16, 17 and 20."""
    assert judge(status(number)) == Decision(0.5)


@pytest.mark.parametrize("number", [300, 307, 400, 401, 402, 403, 404, 413, 422, 501])
def test_other_statuses_are_final(number: int) -> None:
    """Faults 18, 19 and 22."""
    assert judge(status(number)).wait is None


@pytest.mark.parametrize(
    ("kind", "code", "again"),
    [
        ("unreachable", "refused", True),
        ("unreachable", "dns", True),
        ("timed_out", "connect", True),
        ("stream_cut", "reset", True),
        ("overloaded", "overloaded_error", True),
        ("insecure", "tls", False),
        ("broken_protocol", "", False),
        ("too_large", "body", False),
        ("timed_out", "first_byte", False),
        ("timed_out", "deadline", False),
        ("rate_limited", "insufficient_quota", False),
        ("overloaded", "circuit_open", False),
        ("refused", "", False),
    ],
)
def test_faults_without_a_status(kind: FailureKind, code: str, again: bool) -> None:
    """Faults 1 to 3, 14."""
    assert (judge(Failure(kind, code=code)).wait is not None) is again


def test_nothing_is_tried_again_once_something_was_delivered() -> None:
    assert judge(status(503), delivered=True).wait is None


def test_waits_grow_and_end() -> None:
    """Fault 16: exponential, with the lot drawn in the middle."""
    assert [judge(status(429), attempt).wait for attempt in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, None]
    assert judge(status(429), 4).why == "after 4 attempts"


@given(st.integers(1, 60), st.floats(0, 1, exclude_max=True))
def test_no_wait_of_ours_is_longer_than_the_cap(attempt: int, draw: float) -> None:
    retries = Retries(attempts=100, base=1.0, cap=8.0)
    decision = decide(retries, status(500), attempt, delivered=False, now=0.0, deadline=None, draw=draw)
    assert decision.wait is not None
    assert 0 <= decision.wait <= 8.0


@pytest.mark.parametrize(
    ("asked", "deadline", "wait", "why"),
    [
        pytest.param(5.0, None, 5.5, "", id="seconds"),
        pytest.param(0.0, None, 0.5, "", id="zero"),
        pytest.param(-3.0, None, 0.5, "", id="negative"),
        pytest.param(1e9, None, None, "requests a delay of 1e+09 s", id="absurd"),
        pytest.param(61.0, None, None, "more than the maximum of 60 s", id="too_long"),
        pytest.param(20.0, 110.0, None, "after the deadline", id="behind_the_deadline"),
        pytest.param(5.0, 110.0, 5.5, "", id="before_the_deadline"),
    ],
)
def test_what_a_server_asks_for(asked: float, deadline: float | None, wait: float | None, why: str) -> None:
    """Fault 15."""
    decision = judge(status(429, asked), deadline=deadline)
    assert decision.wait == wait
    assert why in decision.why


NOW = 1_700_000_000.0


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        pytest.param({}, None, id="nothing"),
        pytest.param({"retry-after": "7"}, 7.0, id="seconds"),
        pytest.param({"retry-after": "1.5"}, 1.5, id="fraction"),
        pytest.param({"retry-after": "-5"}, 0.0, id="negative"),
        pytest.param({"retry-after": "1000000000000"}, 1e9, id="absurd"),
        pytest.param({"retry-after": "inf"}, 1e9, id="infinite"),
        pytest.param({"retry-after": "nan"}, None, id="nan"),
        pytest.param({"retry-after": "soon"}, None, id="words"),
        pytest.param({"retry-after": formatdate(NOW + 30, usegmt=True)}, 30.0, id="date"),
        pytest.param({"retry-after": formatdate(NOW - 30, usegmt=True)}, 0.0, id="past"),
        pytest.param({"retry-after": "Fri, 99 Foo 9999 99:99:99 GMT"}, None, id="no_date"),
        pytest.param({"retry-after-ms": "250", "retry-after": "9"}, 0.25, id="milliseconds"),
        pytest.param(
            {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "6m0s"}, 360.0, id="minutes"
        ),
        pytest.param({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "20ms"}, 0.02, id="reset_ms"),
        pytest.param({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "1h2m3.5s"}, 3723.5, id="all"),
        pytest.param({"x-ratelimit-remaining-tokens": "9", "x-ratelimit-reset-tokens": "20ms"}, None, id="not_spent"),
        pytest.param({"x-ratelimit-remaining-tokens": "0", "x-ratelimit-reset-tokens": "later"}, None, id="no_time"),
    ],
)
def test_the_spellings_of_a_delay(headers: dict[str, str], seconds: float | None) -> None:
    assert read_delay(headers, NOW) == seconds


@given(st.text(max_size=40))
def test_no_delay_raises(text: str) -> None:
    found = read_delay({"retry-after": text, "retry-after-ms": text}, NOW)
    assert found is None or 0 <= found <= 1e9


# ---- the circuit -----------------------------------------------------------------------------------------------------


def test_a_circuit_opens_probes_and_closes() -> None:
    """Fault 17."""
    breaker = Breaker(failures=3, pause=10.0)
    for _ in range(2):
        assert breaker.allow(0.0) == 0.0
        breaker.failed(0.0)
    assert breaker.state(0.0) == "closed"
    breaker.failed(1.0)
    assert breaker.state(1.0) == "open"
    assert breaker.allow(5.0) == 6.0
    assert breaker.state(11.0) == "half_open"
    assert breaker.allow(11.0) == 0.0
    assert breaker.allow(11.0) > 0, "only one may probe"
    breaker.failed(12.0)
    assert breaker.allow(21.0) == 1.0
    assert breaker.allow(22.0) == 0.0
    breaker.succeeded()
    assert breaker.state(22.0) == "closed"
    assert breaker.allow(22.0) == 0.0


def test_a_success_starts_the_count_again() -> None:
    breaker = Breaker(failures=2)
    breaker.failed(0.0)
    breaker.succeeded()
    breaker.failed(0.0)
    assert breaker.state(0.0) == "closed"


def test_a_probe_that_was_cancelled_leaves_its_place() -> None:
    breaker = Breaker(failures=1, pause=10.0)
    breaker.failed(0.0)
    assert breaker.allow(10.0) == 0.0
    breaker.abandoned()
    assert breaker.allow(10.0) == 0.0


def test_each_origin_has_its_own_circuit() -> None:
    breakers = Breakers(failures=1)
    breakers.of("https://a").failed(0.0)
    assert breakers.of("https://a").state(0.0) == "open"
    assert breakers.of("https://b").state(0.0) == "closed"


def test_every_kind_of_failure_has_a_cause() -> None:
    """Retries, the circuit breaker, fallbacks and the category of a run all read this one table."""
    assert FAILURE_CAUSES.keys() == set(get_args(FailureKind))
    assert {kind for kind in FAILURE_CAUSES if counts(Failure(kind))} == TRANSIENT_FAILURES - {"rate_limited"}


@pytest.mark.parametrize(
    ("kind", "code", "counted"),
    [
        ("unreachable", "", True),
        ("server_error", "", True),
        ("timed_out", "idle", True),
        ("timed_out", "deadline", False),
        ("rate_limited", "", False),
        ("bad_request", "", False),
        ("unauthorized", "", False),
    ],
)
def test_what_a_circuit_counts(kind: FailureKind, code: str, counted: bool) -> None:
    assert counts(Failure(kind, code=code)) is counted
