"""Keep the SDK of another vendor, and let dragoman find the calls in its stream."""

from openai import OpenAI

import dragoman
from dragoman import wire
from dragoman.testing import Upstream


@dragoman.tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"sunny in {city}"


# A server on this machine whose model writes its call as text. With a real one: OpenAI(base_url=..., api_key=...)
written = 'Let me see. <tool_call>{"name": "weather", "arguments": {"city": "Paris",}}</tool_call>'
with Upstream([written]) as server, OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
    stream = client.chat.completions.create(
        model="scripted",
        messages=[{"role": "user", "content": "Is it warm in Paris?"}],
        tools=dragoman.encode_definitions([weather], "openai"),  # type: ignore[arg-type]
        stream=True,
    )
    reply, reader = wire.get("openai_chat").reply_stream(), dragoman.extractor(tools=[weather])
    for chunk in stream:
        for event in reply.feed_chunk(chunk):
            reader.feed(event)
    for event in reply.close():
        reader.feed(event)
    reader.close()

for found in reader.extraction.calls:
    print(found.name, found.arguments, found.repairs)
print(reader.extraction.text)
