"""The page that computes features in the browser, in headless Chromium: files, a comparison, and the microphone."""

from __future__ import annotations

import base64
import http.server
import io
import json
import queue
import re
import shutil
import subprocess
import threading
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kaldi_compat.frontends.numpy import Frontend
from tests.support.frontend_audio import clips

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "howto" / "browser.md"
WASM = ROOT / "packages" / "c" / "wasm"
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.skipif(not (BROWSER and PAGE.exists() and WASM.exists()), reason="no chromium, or no package"),
    pytest.mark.slow,
]
# What a user does on the page. `features` are those of the file that the page offers to save.
SCRIPT = """
const until = async (holds) => { while (!holds()) await new Promise((next) => setTimeout(next, 20)); };
const element = (name) => document.getElementById("live-" + name), text = (name) => element(name).textContent;
const got = async (name) => new File([await (await fetch("/given/" + name)).arrayBuffer()], name);
const saved = async () => {
  const bytes = await (await fetch(element("save").href)).arrayBuffer();
  return btoa(String.fromCharCode(...new Uint8Array(bytes)));
};
const drop = async (...names) => {
  const transfer = new DataTransfer();
  for (const name of names) transfer.items.add(await got(name));
  element("drop").dispatchEvent(new DragEvent("drop", { dataTransfer: transfer, bubbles: true, cancelable: true }));
};
const choose = async (preset) => {
  element("preset").value = preset;
  element("preset").dispatchEvent(new Event("change"));
};
async function test() {
  const found = {};
  await until(() => text("status") === "Ready.");
  await choose("wespeaker");
  await drop("speech.wav", "same.npy");
  await until(() => text("compared"));
  Object.assign(found, { status: text("status"), same: text("compared"), wespeaker: await saved() });
  await drop("other.npy");
  await until(() => text("compared") !== found.same);
  found.other = text("compared");
  await drop("wrong.npy");
  await until(() => text("status") !== found.status);
  found.wrong = text("status");
  found.colours = new Set(element("picture").getContext("2d").getImageData(0, 0, 98, 80).data).size;
  await choose("zipformer");
  await until(() => text("status") !== found.wrong);
  element("record").click();
  await until(() => window.live.worklet?.frames > 100 || window.live.worklet?.error);
  found.live = [window.live.worklet.frames, window.live.worklet.error, text("status"), window.live.features.dim];
  element("record").click();
  await until(() => /real time/.test(text("status")));
  found.recorded = text("status");
  return found;
}
test().then((found) => found, (error) => ({ error: String(error.stack) })).then(
  (found) => fetch("/done", { method: "POST", body: JSON.stringify(found) }));
addEventListener("error", ({ message }) =>
  fetch("/done", { method: "POST", body: JSON.stringify({ error: message }) }));
"""


def in_browser(page: bytes, given: dict[str, bytes], flags: list[str], profile: Path) -> dict[str, Any]:
    """Return what the page posts."""
    done: queue.Queue[dict[str, Any]] = queue.Queue()
    types = {".html": "text/html", ".js": "text/javascript", ".wasm": "application/wasm"}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            files = [folder / name for folder in (ROOT / "docs" / "_static", WASM)]
            found = (
                given.get(name) if "given" in self.path else next((f.read_bytes() for f in files if f.is_file()), None)
            )
            body = page if self.path == "/howto/browser.html" else found
            self.send_response(200 if body is not None else 404)
            self.send_header("Content-Type", types.get(Path(self.path).suffix, "application/octet-stream"))
            self.end_headers()
            self.wfile.write(body or b"")

        def do_POST(self) -> None:
            done.put(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            """Print nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    command = [str(BROWSER), "--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", *flags,
               f"--user-data-dir={profile}", f"http://127.0.0.1:{server.server_port}/howto/browser.html"]  # fmt: skip
    browser = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        return done.get(timeout=120)
    finally:
        browser.terminate()
        browser.wait()
        server.shutdown()
        server.server_close()


def npy(array: Any) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def test_page_computes_draws_compares_and_listens(tmp_path: Path) -> None:
    samples = clips()["30s"][: 6 * 16000]
    with wave.open(str(tmp_path / "speech.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(samples[:16000].tobytes())
    with wave.open(str(tmp_path / "microphone.wav"), "wb") as file:
        file.setparams((1, 2, 16000, 0, "NONE", ""))
        file.writeframes(samples.tobytes())
    expected = Frontend.from_preset("wespeaker")(samples[:16000])
    other = expected.astype(np.float64)
    other[3, 4] += 0.5
    given = {"speech.wav": (tmp_path / "speech.wav").read_bytes(), "same.npy": npy(expected), "other.npy": npy(other),
             "wrong.npy": npy(np.zeros((2, 2), np.int32))}  # fmt: skip
    [html] = re.findall(r":::\{raw\} html\n(.*?):::", PAGE.read_text(), re.S)
    page = f"<!doctype html><meta charset=utf-8>{html}<script type=module>{SCRIPT}</script>".encode()
    flags = ["--use-fake-device-for-media-stream", "--use-fake-ui-for-media-stream",
             "--autoplay-policy=no-user-gesture-required",
             f"--use-file-for-fake-audio-capture={tmp_path / 'microphone.wav'}"]  # fmt: skip
    found = in_browser(page, given, flags, tmp_path / "profile")
    assert "error" not in found, found["error"]
    assert re.fullmatch(r"98 frames x 80 of 1\.00 s in [\d.]+ ms, \d+ times real time\.", found["status"])
    assert found["same"] == "Equal in all bits."
    assert np.load(io.BytesIO(base64.b64decode(found["wespeaker"]))).tobytes() == expected.tobytes()
    assert re.match(r"1 of 7840 values differ, by up to 5\.00e-1 \(frame 3, column 4: ", found["other"])
    assert "expected float32 or float64 row by row, not <i4" in found["wrong"]
    assert found["colours"] > 50
    frames, error, status, dim = found["live"]
    assert (frames > 100, error, dim) == (True, "", 80) and "in an AudioWorklet" in status
    assert "times real time" in found["recorded"]
