"""Encodes requests, and decodes answers."""

from __future__ import annotations

import base64
import datetime
import json
import re
import urllib.parse
from dataclasses import dataclass, field
from typing import Any, Dict, List, Mapping, Optional, Tuple, Union

from ._errors import UnreadableError, api_error
from ._types import Duration, Instant

UNSET: Any = object()
LONGEST_WAIT = 60  # seconds, of a push
LONGEST_SEARCH = 600  # seconds


@dataclass
class Request:
    method: str
    path: str
    text: Optional[str] = None
    repeatable: bool = False  # a second request has no further effect
    header: Mapping[str, Optional[str]] = field(default_factory=dict)
    waits: float = 0  # seconds that the answer may take in addition to the timeout
    retry_for: Optional[float] = None  # instead of the client's


@dataclass
class Answer:
    status: int
    headers: Dict[str, str]  # by their names in lower case
    body: bytes


# Paths


def jobs_path(topic: str) -> str:
    return f"/v1/topics/{escape(topic)}/jobs"


def job_path(topic: str, id: str) -> str:
    return f"{jobs_path(topic)}/{escape(id)}"


def query(path: str, **options: Any) -> str:
    """Return the path with the options that are not None."""
    text = urllib.parse.urlencode({name: _text(name, v) for name, v in options.items() if v is not None})
    return path + (f"?{text}" if text else "")


def _text(name: str, value: Any) -> Any:
    """Return a value as it is in a query."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return wire(name, value)


def escape(id: str) -> str:
    # Dots alone would be resolved by a proxy as a relative path.
    return id.replace(".", "%2E") if id in (".", "..") else urllib.parse.quote(id, safe="")


# Bodies of requests


def given(**members: Any) -> Dict[str, Any]:
    """Return the members that are not None, as they are sent."""
    return {name: wire(name, value) for name, value in members.items() if value is not None}


def wire(name: str, value: Any) -> Any:
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name} needs a time zone, as in datetime.now(timezone.utc)")
        # Rounded up to milliseconds, since a job must never be early.
        up = value.astimezone(datetime.timezone.utc) + datetime.timedelta(microseconds=999)
        return up.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if isinstance(value, Mapping):
        return {member: wire(member, v) for member, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [wire(name, v) for v in value]
    return value


def local(members: Dict[str, Any]) -> Dict[str, Any]:
    """Return the members, with a due_at that is a datetime without a time zone as text if they have a time_zone."""
    due = members.get("due_at")
    if members.get("time_zone") and isinstance(due, datetime.datetime) and due.tzinfo is None:
        return dict(members, due_at=due.isoformat())
    return members


def pause_end(until: Union[Instant, datetime.timedelta, None]) -> Optional[Instant]:
    """Return a duration as text, since a number would be Unix milliseconds."""
    return f"{until.total_seconds():f}s" if isinstance(until, datetime.timedelta) else until


def with_body(members: Mapping[str, Any], body: Any, text: Union[str, bytes, None]) -> str:
    """Return the JSON of the members and the body. A body given as JSON is not decoded, since that could change it."""
    if text is None:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    else:
        text = text.decode() if isinstance(text, bytes) else text
        json.loads(text)
    head = json.dumps(members, separators=(",", ":"))
    return head[:-1] + ("," if members else "") + '"body":' + text + "}"


def cut(reason: object) -> str:
    """The server accepts reasons of up to 512 bytes."""
    return str(reason).encode("utf-8", "replace")[:512].decode("utf-8", "ignore")


_UNITS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def seconds(duration: Duration) -> float:
    if isinstance(duration, datetime.timedelta):
        return duration.total_seconds()
    if isinstance(duration, str):
        return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"([0-9.]+)([a-zµ]+)", duration))
    return duration


def header(value: str) -> str:
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise ValueError("a token, etag or key has a control character, such as the end of a line")
    return value


# Answers


def decode(answer: Answer) -> Any:
    """Return the value of an answer, or raise the ApiError that it is."""
    body = answer.body
    if answer.headers.get("content-type", "").startswith("application/x-ndjson"):
        body = body.rstrip().rsplit(b"\n", 1)[-1]  # the last line has all that the lines before have
    try:
        value = _parse(body.decode()) if body else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):  # of a proxy in between, most likely
        value = {"detail": "unexpected answer: " + " ".join(body.decode("utf-8", "replace").split())[:200]}
    elif 200 <= answer.status < 300:
        if "etag" in answer.headers:
            value["etag"] = answer.headers["etag"]
        return value
    if answer.status // 100 == 3:
        value = {"detail": f"redirected to {answer.headers.get('location')}; use the URL of the server itself"}
    after = answer.headers.get("retry-after", "")
    request_id = answer.headers.get("x-request-id", "")
    raise api_error(answer.status, value, request_id, int(after) if after.isdecimal() else 0)


class JobDict(Dict[str, Any]):
    """A job in an answer. Asked for a body that Python cannot decode, it raises UnreadableError."""

    unreadable: Optional[Exception] = None

    def __missing__(self, name: str) -> Any:
        if name == "body" and self.unreadable is not None:
            raise UnreadableError(f"the body of {self['topic']}/{self['id']}: {self.unreadable}")
        raise KeyError(name)

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name, default) if name != "body" or self.unreadable is None else self[name]


_TOKEN = re.compile(r'("body"\s*:\s*)|"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]')


def _undecoded(text: str) -> str:
    """Return the JSON of an answer in which the body of each job is a string: its JSON. So a body that cannot be
    decoded costs no other job. Jobs, and schedules, are at depth 1 or 3; at 2 and 4 are headers, which may be named
    body."""
    parts: List[str] = []
    end, depth, level = 0, 0, 0
    start: Optional[int] = None
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if start is None and token[1] and depth in (1, 3):
            start, level = token.end(), depth
        elif start is not None and (depth < level or depth == level and token[0] == ","):
            parts += [text[end:start], json.dumps(text[start : token.start()])]
            end, start = token.start(), None
    return "".join(parts) + text[end:]


def _is_json(content_type: str) -> bool:
    return re.fullmatch(r"(|application/json|.*\+json)\s*", content_type.split(";")[0].strip().lower()) is not None


def _job(fields: Dict[str, Any]) -> JobDict:
    """Return a job whose body is decoded, if possible."""
    job = JobDict(fields)
    text = job.pop("body", None)
    if text is None and "body_base64" in job and _is_json(job.get("content_type", "")):
        text = base64.b64decode(job["body_base64"])
    try:
        if text is not None:
            job["body"] = json.loads(text)
    except (ValueError, RecursionError) as e:
        job.unreadable = e
        job.setdefault("body_base64", base64.b64encode(str(text).encode()).decode())
    return job


def _parse(text: str) -> Any:
    value = json.loads(_undecoded(text))
    if not isinstance(value, dict):
        return None
    for name in {"jobs", "schedules"} & value.keys():
        value[name] = [_job(job) for job in value[name]]
    return _job(value) if "topic" in value else value


def server_url(url: str) -> urllib.parse.SplitResult:
    base = urllib.parse.urlsplit(url.rstrip("/"))
    if base.scheme not in ("http", "https") or not base.hostname:
        raise ValueError("server URL must be http://HOST:PORT or https://HOST")
    return base


def encode_push(push: Mapping[str, Any], id: str) -> Tuple[Dict[str, Any], str]:
    """Return a push without its body, and its JSON."""
    members = local(dict(push))
    body, text = members.pop("body", None), members.pop("json", None)
    job = given(**members)
    job.setdefault("id", id)
    return job, with_body(job, body, text)
