"""llama.cpp's HTTP server, from the same wheel as the embedded model, in a process of its own.

Run as a program: `python llama_server.py MODEL.gguf [TEMPLATE]`. It prints its address, and ends with its input.
"""

from __future__ import annotations

import sys
from pathlib import Path

import xllamacpp  # type: ignore[import-untyped]


def main() -> None:
    params = xllamacpp.CommonParams()
    params.model.path = sys.argv[1]
    params.model_alias = {"smollm2"}
    params.n_ctx = 8192
    params.n_parallel = 2
    params.kv_unified = True
    params.warmup = False
    params.verbosity = -1
    params.ui = False
    params.sampling.temp = 0.0
    params.sampling.seed = 1
    if len(sys.argv) > 2:
        params.chat_template = Path(sys.argv[2]).read_text(encoding="utf-8")
    for cores in (params.cpuparams, params.cpuparams_batch):
        cores.n_threads = 1
    server = xllamacpp.Server(params)
    # The threads of the library are still starting; a first completion waits for them.
    server.handle_completions('{"prompt": "a", "n_predict": 1}', lambda piece: False)
    print(server.listening_address, flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
