"""Run an exported front end in onnxruntime-web, in headless Chromium, and compare it with onnxruntime.

    kaldi-compat frontend export paraformer front.onnx
    npm install --prefix /tmp/web onnxruntime-web
    python benchmarks/onnx_in_browser.py front.onnx /tmp/web/node_modules/onnxruntime-web/dist [--record]

WebGPU runs on a GPU, or without one in Chromium's software renderer. Printed is the largest difference for each length
of audio. Needs onnxruntime and chromium.
"""

from __future__ import annotations

import argparse
import http.server
import json
import queue
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from figures import Table, report
from measuring import make_parser

SECONDS = (0.1, 1.0, 10.0)
PROVIDERS = {"wasm": "WebAssembly, one thread", "webgpu": "WebGPU, in software without a GPU"}
PAGE = """<!doctype html><script type="module">
import * as ort from "/dist/{bundle}";
async function run() {{
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmPaths = "/dist/";
  const session = await ort.InferenceSession.create("/model.onnx", {{executionProviders: ["{provider}"]}});
  const results = [];
  for (let i = 0; i < {count}; i++) {{
    const audio = new Float32Array(await (await fetch("/audio/" + i)).arrayBuffer());
    const given = {{[session.inputNames[0]]: new ort.Tensor("float32", audio, [1, audio.length])}};
    const found = (await session.run(given))[session.outputNames[0]];
    await fetch("/features/" + i, {{method: "POST", body: await found.getData()}});
    results.push({{dims: found.dims}});
  }}
  return results;
}}
run().then(r => ({{results: r}}), e => ({{error: String(e)}})).then(
  r => fetch("/done", {{method: "POST", body: JSON.stringify(r)}}));
</script>"""


def main() -> int:
    """Compare the providers with onnxruntime, print a table, and return the exit status."""
    parser = make_parser(__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("dist", type=Path, help="the folder dist of the package onnxruntime-web")
    parser.add_argument("--chromium", default="chromium")
    arguments = parser.parse_args()
    import onnxruntime

    random = np.random.default_rng(0)
    audio = [(0.1 * random.standard_normal(int(16000 * each))).astype(np.float32) for each in SECONDS]
    session = onnxruntime.InferenceSession(arguments.model, providers=["CPUExecutionProvider"])
    [name] = [each.name for each in session.get_inputs()]
    expected = [session.run(None, {name: samples[None]})[0] for samples in audio]
    rows = []
    for provider, title in PROVIDERS.items():
        answer, features = in_browser(arguments, provider, audio)
        if "error" in answer:
            print(answer["error"])
            return 1
        outputs = [np.frombuffer(features[n], np.float32).reshape(x["dims"]) for n, x in enumerate(answer["results"])]
        rows.append([title, *(f"{np.abs(a - b).max():.1e}" for a, b in zip(outputs, expected, strict=True))])
    command = "python benchmarks/onnx_in_browser.py FILE.onnx DIST"
    report("browser", Table(command, ["provider", *(f"{seconds:g} s" for seconds in SECONDS)], rows))
    return 0


def in_browser(
    arguments: argparse.Namespace, provider: str, audio: list[Any]
) -> tuple[dict[str, Any], dict[int, bytes]]:
    """Run a front end in the browser.

    Args:
        arguments: the options of the command line.
        provider: "wasm" or "webgpu".
        audio: samples of each utterance.

    Returns:
        The message of the page, which is an error or the shapes of the features; and the bytes of the features, by the
        index of the utterance.
    """
    bundle = "ort.wasm.min.mjs" if provider == "wasm" else "ort.webgpu.min.mjs"
    page = PAGE.format(bundle=bundle, provider=provider, count=len(audio))
    done: queue.Queue[dict[str, Any]] = queue.Queue()
    features: dict[int, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/":
                self.answer(page.encode(), "text/html")
            elif self.path == "/model.onnx":
                self.answer(arguments.model.read_bytes(), "application/octet-stream")
            elif self.path.startswith("/audio/"):
                self.answer(audio[int(self.path.rpartition("/")[2])].tobytes(), "application/octet-stream")
            elif (file := arguments.dist / Path(self.path).name).is_file():
                kind = "application/wasm" if file.suffix == ".wasm" else "text/javascript"
                self.answer(file.read_bytes(), kind)
            else:
                self.send_error(404)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.path == "/done":
                done.put(json.loads(body))
            else:
                features[int(self.path.rpartition("/")[2])] = body
            self.answer(b"", "text/plain")

        def answer(self, body: bytes, kind: str) -> None:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    flags = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage"]
    if provider == "webgpu":
        flags += ["--enable-unsafe-webgpu", "--enable-features=Vulkan", "--use-webgpu-adapter=swiftshader"]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        address = f"http://127.0.0.1:{server.server_port}/"
        command = [arguments.chromium, *flags, f"--user-data-dir={profile}", address]
        browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            return done.get(timeout=300), features
        finally:
            browser.terminate()
            browser.wait()
            server.shutdown()


if __name__ == "__main__":
    raise SystemExit(main())
