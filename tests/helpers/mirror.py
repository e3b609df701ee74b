"""A web server of one file that misbehaves as told, and says which requests it had."""

import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Mirror:
    """`faults` are those of the requests to come, one each; when they are used up it serves well."""

    content: bytes
    faults: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The range that each request asked for."""
    url: str = ""
    version: str = "1"
    ranges: bool = True


@contextmanager
def serve(content: bytes, faults: Sequence[str] = ()) -> Generator[Mirror]:
    mirror = Mirror(content, list(faults))

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:
            pass

        def do_GET(self) -> None:
            _answer(self, mirror)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    mirror.url = f"http://127.0.0.1:{server.server_port}/files"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield mirror
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _answer(handler: BaseHTTPRequestHandler, mirror: Mirror) -> None:
    mirror.asked.append(handler.headers.get("Range", ""))
    fault = mirror.faults.pop(0) if mirror.faults else ""
    if fault.isdecimal():
        handler.send_error(int(fault))
        return
    if fault in ("redirect", "wrong hash"):
        handler.send_response(302)
        told = sha256(mirror.content + (b"!" if fault == "wrong hash" else b"")).hexdigest()
        handler.send_header("X-Linked-ETag", f'"{told}"')
        handler.send_header("X-Linked-Size", str(len(mirror.content)))
        handler.send_header("Location", f"{mirror.url}/elsewhere")
        handler.end_headers()
        return
    start, body = 0, mirror.content
    wanted, same = handler.headers.get("Range"), handler.headers.get("If-Range") == f'"{mirror.version}"'
    if wanted and same and mirror.ranges:
        start = int(wanted.removeprefix("bytes=").removesuffix("-"))
        if start >= len(body):
            handler.send_error(416)
            return
        handler.send_response(206)
        begin = start + 7 if fault == "wrong place" else start
        handler.send_header("Content-Range", f"bytes {begin}-{len(body) - 1}/{len(body)}")
    else:
        handler.send_response(200)
    body = body[start:]
    if fault == "other file":
        body = b"<html>not found</html>"
    length = {"long": len(body) + 1000, "short": len(body) // 2}.get(fault, len(body))
    handler.send_header("Content-Length", str(length))
    handler.send_header("ETag", f'"{mirror.version}"')
    handler.end_headers()
    handler.wfile.write(body[: len(body) // 2] if fault == "breaks" else body[:length])
