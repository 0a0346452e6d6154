"""Wakecall's client for Python 3.9 and later. It uses the standard library only, so copying this file is enough.

    client = wakecall.Client("http://127.0.0.1:6789", token)
    job = client.push("order.close", {"order": 42}, id="order-42", delay="30m")

A refusal by the server raises ApiError, a lost or impossible connection UnreachableError. Requests are repeated only
if that is safe, and only when `retry_for` allows it. Clients may be shared by threads.
"""

import base64
import datetime
import hashlib
import hmac
import http.client
import json as _json
import random
import re
import selectors
import threading
import time
import urllib.parse
import uuid

__all__ = [
    "ApiError",
    "Buried",
    "Client",
    "Job",
    "Released",
    "SignatureError",
    "UnreachableError",
    "UnreadableError",
    "WakecallError",
    "verify",
]


class WakecallError(Exception):
    """Every error of this module."""


class ApiError(WakecallError):
    """A refusal by the server: RFC 9457's problem details.

    status: HTTP status; code: what kind of problem it is, a fixed word such as "job_exists" (the API page lists them);
    title: the status's text; detail: what is wrong and how to fix it; field: of the request that caused it, or "";
    request_id: finds the request in the server's log; retry_after: seconds to wait before a retry;
    id: of the job that was pushed, or "".
    """

    def __init__(self, status, problem, request_id="", retry_after=0, id=""):
        self.status, self.code, self.title = status, problem.get("code", ""), problem.get("title", "")
        self.detail, self.field = problem.get("detail", ""), problem.get("field", "")
        self.request_id, self.retry_after, self.id = request_id, retry_after, problem.get("id") or id
        text = self.detail or self.title or f"status {status}"
        super().__init__(text if self.field in text else f"{self.field}: {text}")


class UnreachableError(WakecallError):
    """There was no answer. If outcome_unknown is true, the request may have been carried out: push again with the same
    id, which is in `id`."""

    def __init__(self, text, outcome_unknown):
        self.outcome_unknown, self.id = outcome_unknown, ""
        super().__init__(text)


class UnreadableError(WakecallError):
    """Python cannot decode the body of a job: an integer has too many digits, for example. Its bytes are in
    job["body_base64"]. A worker releases the job for a minute."""


class SignatureError(WakecallError):
    """A callback does not have a valid signature: answer 401."""


class Released(Exception):
    """Raised by a handler that cannot do a job now: it is ready again after `delay`; the attempt is not counted."""

    def __init__(self, delay=0):
        self.delay = delay
        super().__init__(f"released for {delay}")


class Buried(Exception):
    """Raised by a handler that can never do a job: it is dead at once."""


class Job(dict):
    """A job in an answer; the server's /docs describes its fields. Asked for a body that Python cannot decode, it
    raises UnreadableError."""

    _unreadable = None

    def __missing__(self, name):
        if name == "body" and self._unreadable is not None:
            raise UnreadableError(f"the body of {self['topic']}/{self['id']}: {self._unreadable}")
        raise KeyError(name)

    def get(self, name, default=None):
        return super().get(name, default) if name != "body" or self._unreadable is None else self[name]


_LONGEST_WAIT = 60  # seconds, of a push


class Client:
    """A client of one server.

    timeout: seconds that a connection or an answer may take; retry_for: how long to repeat requests that are safe to
    repeat, 0: never; ssl_context: for https.
    """

    def __init__(self, url, token="", *, timeout=30, retry_for=0, ssl_context=None):
        base = urllib.parse.urlsplit(url.rstrip("/"))
        if base.scheme not in ("http", "https") or not base.hostname:
            raise ValueError("server URL must be http://HOST:PORT or https://HOST")
        self._base, self._token, self._timeout, self._retry_for = base, _header(token), timeout, retry_for
        self._ssl = {"context": ssl_context} if base.scheme == "https" else {}
        self._idle = []  # connections; append and pop are atomic

    # -- jobs --

    def push(self, topic, body=None, *, json=None, **options):
        """Push a job, and return it as the server stored it.

        body: any value that JSON has, or json: a text that is sent byte for byte.
        options: id (without one, the client makes one, so that the push is safe to repeat), delay or due_at, priority,
        ttr, max_attempts, on_duplicate ("keep", "replace", "error"), ttl or expires_at, headers, retry, group, key, url,
        traceparent; wait, up to 60 s, to return when the job has ended ("done" with its result, or "dead"), and on_timeout ("keep",
        "delete"). Durations are "90s", seconds or a timedelta; times RFC 3339, Unix milliseconds or a datetime. A due_at
        without a time zone, as text or a datetime, is a local time in time_zone, such as "Europe/Berlin".
        """
        job, text = _push(dict(options, body=body, json=json))
        return self._pushed(job["id"], _path(topic), text, _repeatable(job), _LONGEST_WAIT if job.get("wait") else 0)

    def push_batch(self, pushes):
        """Push up to 1,000 jobs: dicts with topic, body or json, and the options of push. Return a list in their order,
        of jobs or, where one was refused, an ApiError. A refused job does not fail the others."""
        jobs = [_push(p) for p in pushes]
        text = '{"jobs":[' + ",".join(text for _, text in jobs) + "]}"
        results = self._do("POST", "/v1/jobs", text, all(_repeatable(job) for job, _ in jobs))["results"]
        if len(results) != len(jobs):
            raise WakecallError(f"got {len(results)} results for {len(jobs)} jobs")
        return [
            ApiError(r["error"]["status"], r["error"], id=job["id"]) if "error" in r else r
            for r, (job, _) in zip(results, jobs)
        ]

    def get(self, topic, id):
        """Return a job with its attempts (history), what it waits for (waits) and its etag."""
        return self._do("GET", _path(topic, id), None, True)

    def change(self, topic, id, *, etag=None, **changes):
        """Change due_at or delay, priority, url (None: the topic's), body or json of a delayed or ready job; with
        etag, only if the job has not changed since."""
        changes = _local(changes)
        change = {name: _wire(name, value) for name, value in changes.items() if name not in ("body", "json")}
        text = _json.dumps(change)
        if "body" in changes or "json" in changes:
            text = _with_body(change, changes)
        # A delay counts from its arrival, so repeating it would move the job again.
        repeatable = "delay" not in changes and not etag
        return self._do("PATCH", _path(topic, id), text, repeatable, header={"If-Match": etag})

    def delete(self, topic, id, *, etag=None):
        """Delete a job. No callback starts after this has returned."""
        self._do("DELETE", _path(topic, id), None, False, header={"If-Match": etag})

    def run(self, topic, id):
        """Make a job due now; a dead job starts again at attempt 1."""
        return self._do("POST", _path(topic, id) + "/run", None, False)

    def _pushed(self, id, path, text, repeatable, waits):
        try:
            return self._do("POST", path, text, repeatable, waits=waits)
        except (ApiError, UnreachableError) as e:
            e.id = e.id or id
            raise

    # -- groups --

    def group(self, name, *, limit=None):
        """Return a group: its counts by state, the first jobs by due time, and closed_until while it is closed."""
        return self._do("GET", _group_path(name, limit=limit), None, True)

    def cancel_group(self, name, *, close=None):
        """Delete the waiting and dead jobs of a group, in all topics that the token may push to. No callback of them
        starts after this has returned. With close, a duration, pushes into the group are refused for that time, with
        the code "group_closed". Return how many jobs are deleted, and how many running, which end and are not retried;
        pending has the shards that do not answer, which delete their jobs before they are used again, or within 2 s."""
        return self._do("DELETE", _group_path(name, close=_wire("close", close)), None, True)

    def move_group(self, name, *, delay=None, due_at=None, shift=None, key=None):
        """Move the delayed and ready jobs of a group to one due time, by delay or due_at, or each by shift. A shift
        needs a key of yours: within a day, calls with the same key move each job once. Return how many jobs are moved
        and skipped (running, dead, or expiring before)."""
        move = {"delay": delay, "due_at": due_at, "shift": shift}
        text = _json.dumps({member: _wire(member, v) for member, v in move.items() if v is not None})
        # A delay counts from its arrival, so repeating it would move the jobs again.
        return self._do("PATCH", _group_path(name), text, delay is None, header={"Idempotency-Key": key})

    # -- schedules --

    def schedules(self, *, topic=None):
        """Return an iterator over the schedules of a topic, or of all topics that the token may read, by name."""
        cursor = None
        while True:
            page = self._do("GET", _query("/v1/schedules", topic=topic, limit=1000, cursor=cursor), None, True)
            yield from page["schedules"]
            cursor = page.get("next")
            if not cursor:
                return

    def schedule(self, name):
        """Return a schedule with its next occurrences (next), its last jobs (last), and how many occurrences were left
        out, by reason (left_out)."""
        return self._do("GET", _schedule_path(name), None, True)

    def put_schedule(self, name, topic, body=None, *, json=None, **options):
        """Create a schedule, or replace it as a whole. Return it as schedule does.

        body: of its jobs, any value that JSON has, or json: a text that is sent byte for byte.
        options: cron ("0 8 * * 1-5") or every, time_zone, start_at, end_at, priority, headers, jitter, missed ("last",
        "skip", "all"), max_late, overlap ("skip", "replace", "allow"), state ("active", "paused"), paused_until.
        """
        members = {option: _wire(option, v) for option, v in dict(options, topic=topic).items() if v is not None}
        text = _with_body(members, {"body": body, "json": json})
        return self._do("PUT", _schedule_path(name), text, True)

    def delete_schedule(self, name):
        """Delete a schedule. Its jobs stay."""
        self._do("DELETE", _schedule_path(name), None, False)

    def pause_schedule(self, name, *, until=None):
        """Pause a schedule, until a time or until it is resumed. Return it."""
        return self._schedule(name, "pause", until=until)

    def resume_schedule(self, name, *, catch_up=None):
        """End a pause. The occurrences of the pause are left out, or with catch_up pushed as `missed` says."""
        return self._schedule(name, "resume", catch_up=catch_up)

    def run_schedule(self, name):
        """Push a job of a schedule now, and return its topic and id. The next occurrence is pushed nevertheless."""
        return self._do("POST", _schedule_path(name, "/run"), None, False)

    def backfill_schedule(self, name, start, end, *, overlap=None, dry_run=None):
        """Push the occurrences from start on, before end, that have no job; at most 1,000. overlap: "allow" if it is
        not given. Return the occurrences, and how many are pushed, existing and left_out."""
        ask = {"from": start, "to": end, "overlap": overlap, "dry_run": dry_run}
        return self._schedule(name, "backfill", **ask)

    def _schedule(self, name, action, **ask):
        text = _json.dumps({member: _wire(member, v) for member, v in ask.items() if v is not None})
        return self._do("POST", _schedule_path(name, "/" + action), text, True)

    # -- tasks --

    def start_task(self, action, filter, *, key=None, **options):
        """Start a task, which does one thing to all jobs that match a filter, and return it. It goes on by itself.

        action: "run", "retry", "delete", "shift" or "change". filter: topic, a name or pattern, state, id_prefix,
        error, status, reason, due_after, due_before, since, until.
        options: by (of shift), change (due_at, priority), rate, stop_above, dry_run. Calls with the same key start one
        task; without one each call starts another.
        """
        ask = {"action": action, "filter": {name: _wire(name, v) for name, v in filter.items()}}
        ask.update({name: _wire(name, v) for name, v in options.items() if v is not None})
        header = {"Idempotency-Key": key or uuid.uuid4().hex}
        return self._do("POST", "/v1/tasks", _json.dumps(ask), True, header=header)

    def task(self, id):
        """Return a task: its state, and how many jobs matched, are done, skipped by reason, and failed."""
        return self._do("GET", f"/v1/tasks/{_escape(id)}", None, True)

    def tasks(self, *, limit=None):
        """Return the tasks that the token may see, newest first."""
        return self._do("GET", _query("/v1/tasks", limit=limit), None, True)["tasks"]

    def cancel_task(self, id):
        """Ask a task to end, and return it. What it has done stays."""
        return self._do("DELETE", f"/v1/tasks/{_escape(id)}", None, True)

    # -- pull topics --

    def reserve(self, topics, *, max=1, wait=0, ttr=None, order=None):
        """Reserve up to `max` ready jobs of pull topics; wait for the first one up to `wait` (seconds)."""
        ask = {"topics": [topics] if isinstance(topics, str) else list(topics), "max": max, "wait": wait}
        ask.update({name: value for name, value in (("ttr", _wire("ttr", ttr)), ("order", order)) if value is not None})
        return self._do("POST", "/v1/reserve", _json.dumps(ask), False, waits=wait)["jobs"]

    def ack(self, lease, result=None):
        """End the lease of a job that is done; the result is any value, and is kept with the finished job."""
        self._end(lease, "ack", {} if result is None else {"result": result})

    def release(self, lease, delay=0):
        """Make a job ready again after a delay; the attempt is not counted."""
        self._end(lease, "release", {"delay": _wire("delay", delay)})

    def fail(self, lease, reason=""):
        """End a failed attempt: the job is retried by its schedule, or dead after its last attempt."""
        self._end(lease, "fail", {"reason": _cut(reason)})

    def bury(self, lease, reason=""):
        """Make a job dead."""
        self._end(lease, "bury", {"reason": _cut(reason)})

    def extend(self, lease, ttr=None):
        """Make a lease last for ttr from now; None: the TTR of the job, or of its topic."""
        return self._end(lease, "extend", {} if ttr is None else {"ttr": _wire("ttr", ttr)})

    def _end(self, lease, verb, ask, retry_for=None):
        path = f"/v1/leases/{urllib.parse.quote(lease, safe='')}/{verb}"
        return self._do("POST", path, _json.dumps(ask), True, retry_for=retry_for)

    def work(self, topics, handle, *, stop=None, wait=5, ttr=None, failed=None):
        """Reserve jobs of pull topics one after the other, and call handle(job) for each.

        When handle returns, the job is done. Released and Buried mean what their names say; any other exception fails
        the attempt. The lease is extended while handle runs. Set `stop`, a threading.Event, to end: a running job is
        finished first, and waiting for jobs ends within `wait` seconds. failed(error) gets the errors that are
        repeated, and those of leases that could not be ended. For several jobs at once, call work in several threads.
        """
        stop, failed, pause = stop or threading.Event(), failed or (lambda _: None), 0
        while not stop.is_set():
            began = time.monotonic()
            try:
                jobs = self.reserve(topics, wait=wait, ttr=ttr)
                early = not jobs and time.monotonic() - began < 0.5  # a server that is stopping lets no worker wait
            except (ApiError, UnreachableError) as e:
                if not _temporary(e):
                    raise
                failed(e)
                jobs, early = [], True
            for job in jobs:
                self._work(job, _release if stop.is_set() else handle, ttr, failed)
            pause = min(max(2 * pause, 0.1), 5) if early else 0
            stop.wait(pause * random.uniform(0.5, 1))

    def _work(self, job, handle, ttr, failed):
        done = threading.Event()
        extending = threading.Thread(target=self._extend, args=(job, ttr, done, failed), daemon=True)
        extending.start()
        verb, ask = "release", {}  # if the process ends in the middle
        try:
            handle(job)
            verb, ask = "ack", {}
        except Released as e:
            verb, ask = "release", {"delay": _wire("delay", e.delay)}
        except Buried as e:
            verb, ask = "bury", {"reason": _cut(e)}
        except UnreadableError as e:
            failed(e)
            verb, ask = "release", {"delay": 60}
        except Exception as e:
            verb, ask = "fail", {"reason": _cut(str(e) or repr(e))}
        finally:
            done.set()
            extending.join()
            try:
                self._end(job["lease"], verb, ask, retry_for=max(_seconds(job["ttr"]), 10))
            except WakecallError as e:
                failed(e)

    def _extend(self, job, ttr, done, failed):
        while not done.wait(_seconds(job["ttr"]) / 3):
            try:
                self._end(job["lease"], "extend", {} if ttr is None else {"ttr": _wire("ttr", ttr)}, retry_for=0)
            except WakecallError as e:
                failed(e)
                if not _temporary(e):  # the lease is lost: another worker may have the job
                    return

    # -- requests --

    def _do(self, method, path, text, repeatable, *, header=None, waits=0, retry_for=None):
        deadline = time.monotonic() + (self._retry_for if retry_for is None else retry_for)
        pause = 0.05
        while True:
            try:
                return self._once(method, path, text, header or {}, waits)
            except UnreachableError as e:
                wait, again, error = pause, repeatable or not e.outcome_unknown, e
            except ApiError as e:
                wait, again, error = max(pause, e.retry_after), repeatable and e.status == 503, e
            if not again or time.monotonic() + wait > deadline:
                raise error
            time.sleep(wait)
            pause = min(2 * pause, 1.6)

    def _once(self, method, path, text, header, waits):
        headers = {"Accept": "application/json, application/problem+json", "User-Agent": "wakecall-python"}
        if self._token:
            headers["Authorization"] = "Bearer " + self._token
        headers.update({name: _header(value) for name, value in header.items() if value})
        body = None if text is None else text.encode()
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = False
        connection = None
        try:
            connection = self._connection()
            connection.sock.settimeout(self._timeout + waits)
            sent = True
            connection.request(method, self._base.path + path, body, headers)
            response = connection.getresponse()
            answer = response.read()
        except (OSError, http.client.HTTPException) as e:
            if connection is not None:
                connection.close()
            raise UnreachableError(f"no answer from {self._base.netloc}: {e or type(e).__name__}", sent) from e
        if not response.will_close:
            self._idle.append(connection)
        return _answer(response, answer)

    def _connection(self):
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
        new = http.client.HTTPSConnection if self._base.scheme == "https" else http.client.HTTPConnection
        connection = new(self._base.hostname, self._base.port, timeout=self._timeout, **self._ssl)
        connection.connect()
        return connection

    def close(self):
        """Close idle connections."""
        while self._idle:
            self._idle.pop().close()


def verify(secrets, headers, body, *, tolerance=300):
    """Check the signature of a callback (Standard Webhooks), or raise SignatureError.

    secrets: the topic's, whsec_…; a list while one is being rotated. headers: a mapping. body: the bytes as received.
    tolerance: seconds that the callback's time may differ from this host's clock.
    """
    values = {str(name).lower(): str(value) for name, value in headers.items()}
    id, sent = values.get("webhook-id", ""), values.get("webhook-timestamp", "")
    if not id or not re.fullmatch(r"[0-9]{1,12}", sent):
        raise SignatureError("the callback has no webhook-id or no valid webhook-timestamp")
    if abs(time.time() - int(sent)) > tolerance:
        raise SignatureError(f"webhook-timestamp {sent} is more than {tolerance} s away from this host's clock")
    signed = f"{id}.{sent}.".encode() + (body.encode() if isinstance(body, str) else body)
    found = False
    for secret in [secrets] if isinstance(secrets, str) else secrets:
        key = base64.b64decode(secret[6:] if secret.startswith("whsec_") else secret)
        if not key:
            raise ValueError("secrets must be whsec_ followed by base64")
        want = b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest())
        for signature in values.get("webhook-signature", "").split(" "):
            found |= hmac.compare_digest(signature.encode(), want)
    if not found:
        raise SignatureError("no signature matches: is the topic's secret another one?")


def _release(_):
    raise Released


def _path(topic, id=None):
    path = f"/v1/topics/{urllib.parse.quote(topic, safe='')}/jobs"
    return path if id is None else f"{path}/{_escape(id)}"


def _group_path(name, **options):
    return _query(f"/v1/groups/{_escape(name)}", **options)


def _schedule_path(name, action=""):
    return f"/v1/schedules/{_escape(name)}{action}"


def _query(path, **options):
    query = urllib.parse.urlencode({option: value for option, value in options.items() if value is not None})
    return path + (f"?{query}" if query else "")


def _escape(id):
    # Dots alone would be resolved by a proxy as a relative path.
    return id.replace(".", "%2E") if id in (".", "..") else urllib.parse.quote(id, safe="")


def _push(push):
    """Return a push without its body, and its JSON."""
    push = _local(push)
    job = {name: _wire(name, v) for name, v in push.items() if v is not None and name not in ("body", "json")}
    job.setdefault("id", uuid.uuid4().hex)
    return job, _with_body(job, push)


def _with_body(members, push):
    """Return the JSON of the members and the body. A body given as JSON is not decoded, since that could change it."""
    body = push.get("json")
    if body is None:
        body = _json.dumps(push.get("body"), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    else:
        body = body.decode() if isinstance(body, bytes) else body
        _json.loads(body)
    head = _json.dumps(members, separators=(",", ":"))
    return head[:-1] + ("," if members else "") + '"body":' + body + "}"


def _repeatable(job):
    return job.get("on_duplicate") != "error"


def _local(members):
    """Return the members, with a due_at that is a datetime without a time zone as text if they have a time_zone."""
    due = members.get("due_at")
    if members.get("time_zone") and isinstance(due, datetime.datetime) and due.tzinfo is None:
        return dict(members, due_at=due.isoformat())
    return members


def _wire(name, value):
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.datetime):
        if value.tzinfo is None:
            raise ValueError(f"{name} needs a time zone, as in datetime.now(timezone.utc)")
        # Rounded up to milliseconds, since a job must never be early.
        value = value.astimezone(datetime.timezone.utc) + datetime.timedelta(microseconds=999)
        return value.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    if name == "retry":
        return [_wire("", v) for v in value]
    return value


_UNITS = {"h": 3600, "m": 60, "s": 1, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}


def _seconds(duration):
    """Seconds of a duration in an answer: 1m30s."""
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"([0-9.]+)([a-zµ]+)", duration))


def _cut(reason):
    """The server accepts reasons of up to 512 bytes."""
    return str(reason).encode("utf-8", "replace")[:512].decode("utf-8", "ignore")


def _temporary(error):
    return isinstance(error, UnreachableError) or error.status >= 500 or error.status == 429


def _header(value):
    if re.search(r"[\x00-\x1f\x7f]", value):
        raise ValueError("a token, etag or key has a control character, such as the end of a line")
    return value


def _is_json(content_type):
    return re.fullmatch(r"(|application/json|.*\+json)\s*", content_type.split(";")[0].strip().lower()) is not None


_TOKEN = re.compile(r'("body"\s*:\s*)|"[^"\\]*(?:\\.[^"\\]*)*"|[][{},]')


def _undecoded(text):
    """Return the JSON of an answer in which the body of each job is a string: its JSON. So a body that cannot be
    decoded costs no other job. Jobs, and schedules, are at depth 1 or 3; at 2 and 4 are headers, which may be named
    body."""
    parts, end, depth, level, start = [], 0, 0, 0, None
    for token in _TOKEN.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if start is None and token[1] and depth in (1, 3):
            start, level = token.end(), depth
        elif start is not None and (depth < level or depth == level and token[0] == ","):
            parts += [text[end:start], _json.dumps(text[start : token.start()])]
            end, start = token.start(), None
    return "".join(parts) + text[end:]


def _job(fields):
    """Return a job whose body is decoded, if possible."""
    job = Job(fields)
    text = job.pop("body", None)
    if text is None and "body_base64" in job and _is_json(job.get("content_type", "")):
        text = base64.b64decode(job["body_base64"])
    try:
        if text is not None:
            job["body"] = _json.loads(text)
    except (ValueError, RecursionError) as e:
        job._unreadable = e
        job.setdefault("body_base64", base64.b64encode(str(text).encode()).decode())
    return job


def _parse(text):
    value = _json.loads(_undecoded(text))
    if not isinstance(value, dict):
        return None
    for name in {"jobs", "schedules"} & value.keys():
        value[name] = [_job(job) for job in value[name]]
    return _job(value) if "topic" in value else value


def _answer(response, body):
    request_id = response.getheader("X-Request-Id", "")
    try:
        value = _parse(body.decode()) if body else {}
    except ValueError:
        value = None
    if not isinstance(value, dict):  # of a proxy in between, most likely
        value = {"detail": "unexpected answer: " + " ".join(body.decode("utf-8", "replace").split())[:200]}
    elif 200 <= response.status < 300:
        etag = response.getheader("ETag")
        if etag:
            value["etag"] = etag
        return value
    if response.status // 100 == 3:
        value = {"detail": f"redirected to {response.getheader('Location')}; use the URL of the server itself"}
    after = response.getheader("Retry-After", "")
    raise ApiError(response.status, value, request_id, int(after) if after.isdecimal() else 0)
