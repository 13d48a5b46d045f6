"""A web app with FastAPI: the run is streamed to the browser, and waits there for your approval of a transfer.

python examples/web_app.py                              (a scripted model; then open http://127.0.0.1:8000)
MODEL=ollama:qwen3 python examples/web_app.py
"""

import asyncio
import os

import uvicorn
from fastapi import Body, FastAPI, HTTPException
from fastapi.responses import FileResponse, StreamingResponse

import dragoman
from dragoman.integrations import UiStream
from dragoman.testing import ScriptedModel, call


@dragoman.tool(requires_approval=True)
def transfer(to: str, amount: int) -> str:
    """Transfer money."""
    return f"{amount} sent to {to}"


async def approve(request: dragoman.ApprovalRequest) -> bool:
    """Wait for the browser. If it disconnects, the run and this function are cancelled, and nothing is transferred."""
    waiting[request.id] = asyncio.get_running_loop().create_future()
    try:
        return await waiting[request.id]
    finally:
        del waiting[request.id]


model = os.environ.get("MODEL") or ScriptedModel([call("transfer", to="Bob", amount=20), "Done."], loop=True)
agent = dragoman.Agent(model, tools=[transfer], base_url=os.environ.get("BASE_URL", ""), approve=approve)
app = FastAPI()
waiting: dict[str, asyncio.Future[bool]] = {}


@app.get("/")
def show_page() -> FileResponse:
    return FileResponse(__file__.replace(".py", ".html"))


@app.post("/runs")
async def start_run(task: str = Body(embed=True)) -> StreamingResponse:
    stream = UiStream()  # the protocol of the Vercel AI SDK, which useChat() reads
    return StreamingResponse(stream.write(agent.stream(task)), headers=stream.headers)


@app.post("/approvals/{request_id}")
async def answer_request(request_id: str, approved: bool = Body(embed=True)) -> None:
    if request_id not in waiting or waiting[request_id].done():
        raise HTTPException(404, "this request does not wait for an answer")
    waiting[request_id].set_result(approved)


if __name__ == "__main__":
    uvicorn.run(app)
