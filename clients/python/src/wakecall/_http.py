"""The connections of Client."""

from __future__ import annotations

import http.client
import selectors
import ssl
import time
import urllib.parse
from typing import Dict, List, Optional

from ._errors import UnreachableError
from ._wire import Answer

sleep = time.sleep


class Transport:
    """Sends requests over connections that it keeps. Threads may share it."""

    def __init__(self, base: urllib.parse.SplitResult, timeout: float, context: Optional[ssl.SSLContext]) -> None:
        self._base, self._timeout, self._context = base, timeout, context
        self._idle: List[http.client.HTTPConnection] = []  # append and pop are atomic

    def send(self, method: str, path: str, headers: Dict[str, str], body: Optional[bytes], waits: float) -> Answer:
        sent, connection = False, None
        try:
            connection = self._connection()
            connection.sock.settimeout(self._timeout + waits)
            sent = True
            connection.request(method, self._base.path + path, body, headers)
            response = connection.getresponse()
            answer = Answer(response.status, {n.lower(): v for n, v in response.getheaders()}, response.read())
        except (OSError, http.client.HTTPException) as e:
            if connection is not None:
                connection.close()
            raise UnreachableError(f"no answer from {self._base.netloc}: {e or type(e).__name__}", sent) from e
        except BaseException:  # such as KeyboardInterrupt
            if connection is not None:
                connection.close()
            raise
        if not response.will_close:
            self._idle.append(connection)
        return answer

    def _connection(self) -> http.client.HTTPConnection:
        """Return an idle connection that the server has not closed, or a new one."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                break
            with selectors.DefaultSelector() as s:
                s.register(connection.sock, selectors.EVENT_READ)
                if not s.select(0):
                    return connection
            connection.close()
        host, port = str(self._base.hostname), self._base.port
        if self._base.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=self._timeout, context=self._context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=self._timeout)
        connection.connect()
        return connection

    def close(self) -> None:
        while self._idle:
            self._idle.pop().close()
