"""A web researcher: it reads pages and answers with a typed report that names its sources.

python examples/web_researcher.py                              (a scripted model reads two pages of a local server)
MODEL=openai:gpt-5-mini python examples/web_researcher.py "How tall do ferns grow?"
"""

import os
import sys
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import dragoman
from dragoman import builtin
from dragoman.testing import ScriptedModel, call

SYSTEM = "Search with web_fetch at https://en.wikipedia.org/w/index.php?search=WORDS. Then read two or three pages."
PAGES = {"/": "<h1>Plants</h1><a href='/ferns'>Ferns</a>", "/ferns": "<h1>Ferns</h1><p>Bracken grows to 2 m.</p>"}


@dataclass
class Report:
    answer: str
    sources: list[str]


class Site(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(PAGES[self.path].encode())

    def log_message(self, *_: object) -> None:
        pass


def make_local_agent() -> dragoman.Agent:
    """Without a network: a scripted model, and a fetch tool that reaches this server alone."""
    site = ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=site.serve_forever, daemon=True).start()
    here = f"127.0.0.1:{site.server_port}"
    fetch = builtin.make_web_fetch(ports=[site.server_port], allow_private=[here])
    report = {"answer": "Bracken, a fern, grows to 2 m.", "sources": [f"http://{here}/ferns"]}
    pages = [call("web_fetch", url=f"http://{here}{page}") for page in PAGES]
    return dragoman.Agent(ScriptedModel([*pages, call("final_answer", answer=report)]), [fetch], allow=["web_fetch"])


def make_agent(model: str) -> dragoman.Agent:
    # Only this site is fetched: nobody is there to approve another one.
    rules, base_url = ["fetch(domain:*.wikipedia.org)"], os.environ.get("BASE_URL", "")
    return dragoman.Agent(model, [builtin.WebFetch], system=SYSTEM, base_url=base_url, allow=rules)


if __name__ == "__main__":
    agent = make_agent(os.environ["MODEL"]) if "MODEL" in os.environ else make_local_agent()
    result = agent.run(" ".join(sys.argv[1:]) or "How tall do ferns grow?", answer=Report)
    print(*[str(ran.content).partition("\n")[0] for ran in result.results], sep="\n")
    print(result.data.answer, result.data.sources)
