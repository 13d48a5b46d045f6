"""An approval in another process: the run waits in the journal until somebody answers."""

import subprocess
import sys
import tempfile
from pathlib import Path

import dragoman
from dragoman.testing import ScriptedModel, call


@dragoman.tool(requires_approval=True)
def transfer(to: str, amount: int) -> str:
    """Transfer money."""
    return f"{amount} sent to {to}"


# What another process does. In a shell: dragoman approvals list; dragoman approvals approve ID
ANSWER = """
import asyncio, sys
from dragoman.agent import Approval, answer_request, list_requests
from dragoman.journal import SqliteJournal
async def main():
    journal = SqliteJournal(sys.argv[1])
    for request in await list_requests(journal):
        print("asked:", request.call.name, request.arguments)
        await answer_request(journal, request.id, Approval(True), by="Ada")
asyncio.run(main())
"""
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "journal.db"
    model = ScriptedModel([call("transfer", to="Bob", amount=20), "I have sent 20 to Bob."])  # or "ollama:qwen3"
    agent = dragoman.Agent(model, [transfer], journal=path, safety=dragoman.Safety(defer_approvals=True))
    waiting = agent.run("Send 20 to Bob.")
    print(waiting.outcome.kind, "|", waiting.outcome.reason)
    print(subprocess.check_output([sys.executable, "-c", ANSWER, str(path)], text=True), end="")
    print(agent.resume(waiting.run_id).text)
    agent.close()
