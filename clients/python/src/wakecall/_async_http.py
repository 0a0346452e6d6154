"""The connections of AsyncClient: HTTP/1.1 over asyncio's streams. A request that is cancelled closes its connection,
so that a worker that is cancelled while it waits reserves no job."""

from __future__ import annotations

import asyncio
import ssl
import urllib.parse
from typing import Dict, List, Optional, Tuple

from ._errors import UnreachableError
from ._wire import Answer

sleep = asyncio.sleep

_Connection = Tuple[asyncio.StreamReader, asyncio.StreamWriter]
_LIMIT = 1 << 20  # bytes of a line of the header


class AsyncTransport:
    """Sends requests over connections that it keeps."""

    def __init__(self, base: urllib.parse.SplitResult, timeout: float, context: Optional[ssl.SSLContext]) -> None:
        self._base, self._timeout = base, timeout
        self._context = (context or ssl.create_default_context()) if base.scheme == "https" else None
        self._idle: List[_Connection] = []
        self._loop: Optional[asyncio.AbstractEventLoop] = None  # of the idle connections

    async def send(
        self, method: str, path: str, headers: Dict[str, str], body: Optional[bytes], waits: float
    ) -> Answer:
        lines = [f"{method} {self._base.path}{path} HTTP/1.1", f"Host: {self._base.netloc.rpartition('@')[2]}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        if body is not None or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body or b'')}")
        head = "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n"
        sent, keep = False, False
        connection: Optional[_Connection] = None
        try:
            connection = await asyncio.wait_for(self._connect(), self._timeout)
            sent = True
            exchange = _exchange(connection, head + (body or b""))
            answer = await asyncio.wait_for(exchange, self._timeout + waits)
            keep = answer.headers.get("connection", "").lower() != "close" and _has_end(answer)
            return answer
        except (OSError, EOFError, ValueError, asyncio.TimeoutError) as e:
            raise UnreachableError(f"no answer from {self._base.netloc}: {e or type(e).__name__}", sent) from e
        finally:
            if connection is not None and keep:
                self._idle.append(connection)
            elif connection is not None:
                connection[1].close()

    async def _connect(self) -> _Connection:
        """Return an idle connection that the server has not closed, or a new one."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # connections cannot be used in another loop
            self._loop, self._idle = loop, []
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.close()
        port = self._base.port or (443 if self._context else 80)
        return await asyncio.open_connection(self._base.hostname, port, ssl=self._context, limit=_LIMIT)

    async def close(self) -> None:
        while self._idle:
            self._idle.pop()[1].close()


async def _exchange(connection: _Connection, request: bytes) -> Answer:
    reader, writer = connection
    writer.write(request)
    await writer.drain()
    status, headers = await _head(reader)
    while status < 200:  # such as 103
        status, headers = await _head(reader)
    answer = Answer(status, headers, b"")
    if status in (204, 304):
        return answer
    if headers.get("transfer-encoding", "").lower() == "chunked":
        answer.body = await _chunks(reader)
    elif "content-length" in headers:
        answer.body = await reader.readexactly(int(headers["content-length"]))
    else:
        answer.body = await reader.read()
    return answer


def _has_end(answer: Answer) -> bool:
    """Whether the body ends before the connection."""
    return answer.status in (204, 304) or bool({"content-length", "transfer-encoding"} & answer.headers.keys())


async def _line(reader: asyncio.StreamReader) -> str:
    line = await reader.readline()
    if not line.endswith(b"\n"):
        raise EOFError("connection closed within the answer")
    return line.decode("latin-1").rstrip("\r\n")


async def _head(reader: asyncio.StreamReader) -> Tuple[int, Dict[str, str]]:
    version, _, rest = (await _line(reader)).partition(" ")
    if not version.startswith("HTTP/1."):
        raise ValueError("not an answer in HTTP/1.1")
    headers: Dict[str, str] = {}
    while True:
        line = await _line(reader)
        if not line:
            return int(rest[:3]), headers
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    parts: List[bytes] = []
    while True:
        size = int((await _line(reader)).partition(";")[0], 16)
        if size == 0:
            while await _line(reader):
                pass
            return b"".join(parts)
        parts.append(await reader.readexactly(size))
        await _line(reader)
