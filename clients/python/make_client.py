"""Make src/wakecall/_client.py, the client without asyncio, from src/wakecall/_async_client.py."""

import pathlib
import re

REPLACEMENTS = [
    ("A client of one server, for asyncio. Tasks may share it.", "A client of one server. Threads may share it."),
    (r"call work\s+several times", "call work\n        in several threads"),
    (r"Callable\[\[LeasedJob\], Awaitable\[Any\]\]", "Callable[[LeasedJob], Any]"),
    (r"asyncio\.Event", "threading.Event"),
    ("import asyncio\n", ""),
    ("import ssl\n", "import ssl\nimport threading\n"),
    ("AsyncIterator, Awaitable, Callable, Dict, Iterable\\n", "Callable, Dict, Iterable, Iterator\\n"),
    ("AsyncTransport", "Transport"),
    ("_async_", "_"),
    ("AsyncClient", "Client"),
    ("AsyncIterator", "Iterator"),
    ("__aenter__", "__enter__"),
    ("__aexit__", "__exit__"),
    (r"\basync (def|for)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\((self\._do\(Request\((?:[^()]|\([^()]*\))*\)\))\)\[", r"\1["),
    (r'""".*: edit only this file\."""', '"""Client. Made from _async_client.py by make_client.py: do not edit."""'),
]


def make(text: str) -> str:
    for pattern, replacement in REPLACEMENTS:
        text = re.sub(pattern, replacement, text)
    return text


if __name__ == "__main__":
    package = pathlib.Path(__file__).parent / "src" / "wakecall"
    client = make((package / "_async_client.py").read_text(encoding="utf-8"))
    (package / "_client.py").write_text(client, encoding="utf-8")
