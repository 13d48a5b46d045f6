"""Every SDK with a repairing HTTP client, whole and streamed, blocking and asynchronous."""

from __future__ import annotations

import pytest
from tests.integrations.sdks import SDKS, ask_sdk

from dragoman.integrations import Repair
from dragoman.pipeline import Report
from dragoman.testing import Upstream

SPOKEN = 'I will look.\n<tool_call>\n{"name": "weather", "arguments": {"city": "Paris",}}\n</tool_call>'


@pytest.mark.parametrize("name", SDKS)
def test_a_call_in_text_arrives_as_a_native_call(name: str) -> None:
    sdk = SDKS[name]
    wrong: list[str] = []
    reports: list[Report] = []
    with Upstream([SPOKEN], wire=sdk.wire, loop=True) as upstream:
        url = upstream.url.removesuffix("/v1")
        for is_async in (False, True):
            for stream in (False, True):
                heard = ask_sdk(sdk, url, Repair(on_report=reports.append), stream=stream, is_async=is_async)
                if (heard.text.strip(), heard.calls, heard.stop) != (
                    "I will look.",
                    [("weather", {"city": "Paris"})],
                    sdk.called,
                ):
                    wrong.append(f"{'async' if is_async else 'blocking'}, {'streamed' if stream else 'whole'}: {heard}")
        assert all("weather" in str(body.get("tools")) for body in upstream.bodies), "the tools were sent as they came"
    assert not wrong, "\n".join(wrong)
    assert [(report.wire, report.streamed, report.failure) for report in reports] == [
        (sdk.wire, stream, "") for stream in (False, True) * 2
    ]
    assert {call.repairs for report in reports for call in report.calls} == {("trailing_comma",)}
