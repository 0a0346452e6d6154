"""AsyncClient. Client, in _client.py, is made from it by make_client.py: edit only this file."""

from __future__ import annotations

import asyncio
import datetime
import json as _json
import random
import ssl
import time
import uuid
from types import TracebackType
from typing import Any, AsyncIterator, Awaitable, Callable, Dict, Iterable
from typing import List, Mapping, Optional, Sequence, Type, Union

from ._async_http import AsyncTransport, sleep
from ._async_work import work as _work
from ._errors import ApiError, RateLimitedError, UnavailableError, UnreachableError, WakecallError, api_error
from ._types import (
    Backfilled,
    DeadFilter,
    Duration,
    Extended,
    Found,
    Group,
    GroupCancelled,
    GroupMoved,
    Instant,
    Job,
    LeasedJob,
    Push,
    Schedule,
    ScheduleRun,
    Task,
    TaskChange,
    TaskFilter,
    Topic,
    TopicPatch,
    TopicSettings,
)
from ._wire import (
    LONGEST_SEARCH,
    LONGEST_WAIT,
    UNSET,
    Request,
    cut,
    decode,
    encode_push,
    escape,
    given,
    header,
    job_path,
    jobs_path,
    local,
    pause_end,
    query,
    seconds,
    server_url,
    wire,
    with_body,
)


class AsyncClient:
    """A client of one server, for asyncio. Tasks may share it.

    timeout: seconds that a connection or an answer may take; retry_for: seconds for which requests that are safe to
    repeat are repeated after 429, 503 or a lost connection, 0: never; ssl_context: for https.

    Durations are texts such as "90s", seconds or a timedelta; times RFC 3339, Unix milliseconds or a datetime with a
    time zone. Arguments that are None are not sent.
    """

    def __init__(
        self,
        url: str,
        token: str = "",
        *,
        timeout: float = 30,
        retry_for: float = 10,
        ssl_context: Optional[ssl.SSLContext] = None,
    ) -> None:
        self._transport = AsyncTransport(server_url(url), timeout, ssl_context)
        self._retry_for = retry_for
        self._headers = {"Accept": "application/json, application/problem+json", "User-Agent": "wakecall-python"}
        if token:
            self._headers["Authorization"] = "Bearer " + header(token)

    async def close(self) -> None:
        """Close idle connections."""
        await self._transport.close()

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        await self.close()

    # Jobs

    async def push(
        self,
        topic: str,
        body: Any = None,
        *,
        json: Union[str, bytes, None] = None,
        id: Optional[str] = None,
        delay: Optional[Duration] = None,
        due_at: Optional[Instant] = None,
        time_zone: Optional[str] = None,
        priority: Optional[str] = None,
        ttr: Optional[Duration] = None,
        max_attempts: Optional[int] = None,
        on_duplicate: Optional[str] = None,
        ttl: Optional[Duration] = None,
        expires_at: Optional[Instant] = None,
        headers: Optional[Mapping[str, str]] = None,
        retry: Optional[Sequence[Duration]] = None,
        group: Optional[str] = None,
        key: Optional[str] = None,
        url: Optional[str] = None,
        traceparent: Optional[str] = None,
        wait: Optional[Duration] = None,
        on_timeout: Optional[str] = None,
    ) -> Job:
        """Push a job, and return it as the server stored it.

        body: any value that JSON has, or json: a text that is sent byte for byte. id: without one, the client makes
        one, so that the push is safe to repeat. due_at: without a time zone, as text or a datetime, a local time in
        time_zone, such as "Europe/Berlin". on_duplicate: "keep", "replace" or "error". wait: up to 60 s, to return when
        the job has ended ("done" with its result, or "dead"); on_timeout: "keep" or "delete".
        """
        push = dict(
            body=body,
            json=json,
            id=id,
            delay=delay,
            due_at=due_at,
            time_zone=time_zone,
            priority=priority,
            ttr=ttr,
            max_attempts=max_attempts,
            on_duplicate=on_duplicate,
            ttl=ttl,
            expires_at=expires_at,
            headers=headers,
            retry=retry,
            group=group,
            key=key,
            url=url,
            traceparent=traceparent,
            wait=wait,
            on_timeout=on_timeout,
        )
        job, text = encode_push(push, uuid.uuid4().hex)
        repeatable, waits = on_duplicate != "error", LONGEST_WAIT if wait else 0
        try:
            pushed: Job = await self._do(Request("POST", jobs_path(topic), text, repeatable, waits=waits))
        except (ApiError, UnreachableError) as e:
            e.id = e.id or job["id"]
            raise
        return pushed

    async def push_batch(self, pushes: Iterable[Push]) -> List[Union[Job, ApiError]]:
        """Push up to 1,000 jobs: dicts with topic, body or json, and the options of push. Return a list in their order,
        of jobs or, where one was refused, an ApiError. A refused job does not fail the others."""
        jobs = [encode_push(push, uuid.uuid4().hex) for push in pushes]
        text = '{"jobs":[' + ",".join(text for _, text in jobs) + "]}"
        repeatable = all(job.get("on_duplicate") != "error" for job, _ in jobs)
        results = (await self._do(Request("POST", "/v1/jobs", text, repeatable)))["results"]
        if len(results) != len(jobs):
            raise WakecallError(f"got {len(results)} results for {len(jobs)} jobs")
        return [
            api_error(r["error"]["status"], r["error"], id=job["id"]) if "error" in r else r
            for r, (job, _) in zip(results, jobs)
        ]

    async def get(self, topic: str, id: str) -> Job:
        """Return a job with its attempts (history), what it waits for (waits) and its etag."""
        job: Job = await self._do(Request("GET", job_path(topic, id), repeatable=True))
        return job

    async def jobs(
        self,
        topic: str,
        state: str,
        *,
        prefix: Optional[str] = None,
        status: Optional[int] = None,
        error: Optional[str] = None,
        reason: Optional[str] = None,
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
    ) -> AsyncIterator[Job]:
        """Iterate over the jobs of a state: "delayed", "ready", "running", "dead" or "done". prefix, of the ids, is for
        dead and done jobs; the other filters are for dead ones. Listed jobs have neither body nor history."""
        filters = given(
            state=state, prefix=prefix, status=status, error=error, reason=reason, since=since, until=until, limit=1000
        )
        async for job in self._pages(jobs_path(topic), "jobs", filters):
            yield job

    async def change(
        self,
        topic: str,
        id: str,
        *,
        delay: Optional[Duration] = None,
        due_at: Optional[Instant] = None,
        time_zone: Optional[str] = None,
        priority: Optional[str] = None,
        url: Optional[str] = UNSET,
        body: Any = UNSET,
        json: Union[str, bytes, None] = None,
        etag: Optional[str] = None,
    ) -> Job:
        """Change a delayed or ready job, with etag only if it has not changed since. url None: the topic's."""
        members = local({"delay": delay, "due_at": due_at, "time_zone": time_zone, "priority": priority})
        change = given(**members)
        if url is not UNSET:
            change["url"] = url
        text = _json.dumps(change)
        if body is not UNSET or json is not None:
            text = with_body(change, None if body is UNSET else body, json)
        # A delay counts from its arrival, so repeating it would move the job again.
        repeatable = delay is None and not etag
        job: Job = await self._do(
            Request("PATCH", job_path(topic, id), text, repeatable, header={"If-Match": etag})
        )
        return job

    async def delete(self, topic: str, id: str, *, etag: Optional[str] = None) -> None:
        """Delete a job. No callback starts after this has returned."""
        await self._do(Request("DELETE", job_path(topic, id), header={"If-Match": etag}))

    async def run(self, topic: str, id: str) -> Job:
        """Make a job due now; a dead job starts again at attempt 1."""
        job: Job = await self._do(Request("POST", job_path(topic, id) + "/run"))
        return job

    async def retry_dead(
        self,
        topic: str,
        *,
        ids: Optional[Sequence[str]] = None,
        limit: Optional[int] = None,
        filter: Optional[DeadFilter] = None,
        dry_run: Optional[bool] = None,
    ) -> int:
        """Make dead jobs ready again, with no attempts made: those of ids, or the oldest up to limit that the filter
        selects. dry_run only counts them. Return their number."""
        return await self._dead(topic, "retry", given(ids=ids, limit=limit, filter=filter, dry_run=dry_run))

    async def delete_dead(
        self,
        topic: str,
        *,
        ids: Optional[Sequence[str]] = None,
        limit: Optional[int] = None,
        filter: Optional[DeadFilter] = None,
        dry_run: Optional[bool] = None,
    ) -> int:
        """Delete dead jobs, selected as by retry_dead. Return their number."""
        return await self._dead(topic, "delete", given(ids=ids, limit=limit, filter=filter, dry_run=dry_run))

    async def _dead(self, topic: str, action: str, ask: Dict[str, Any]) -> int:
        path, dry_run = f"/v1/topics/{escape(topic)}/dead/{action}", bool(ask.get("dry_run"))
        count: int = (await self._do(Request("POST", path, _json.dumps(ask), dry_run)))["count"]
        return count

    async def search(self, id: str, *, topic: Optional[str] = None) -> Found:
        """Return what the shards and the journals of all hosts have of an id. Large journals take minutes."""
        path = query("/v1/search", id=id, topic=topic)
        found: Found = await self._do(Request("GET", path, repeatable=True, waits=LONGEST_SEARCH))
        return found

    # Topics

    async def topics(
        self, *, prefix: Optional[str] = None, state: Optional[str] = None, owner: Optional[str] = None
    ) -> AsyncIterator[Topic]:
        """Iterate over the topics that the token may manage, by name."""
        async for topic in self._pages("/v1/topics", "topics", given(prefix=prefix, state=state, owner=owner)):
            yield topic

    async def topic(self, name: str) -> Topic:
        """Return a topic with its etag."""
        topic: Topic = await self._do(Request("GET", f"/v1/topics/{escape(name)}", repeatable=True))
        return topic

    async def put_topic(
        self,
        name: str,
        settings: Union[TopicSettings, Topic],
        *,
        reason: Optional[str] = None,
        etag: Optional[str] = None,
    ) -> Topic:
        """Create a topic, or replace it as a whole: a setting that is missing takes its default, but the secrets, which
        stay. With etag, only if it has not changed since. reason: why it is paused or offline. Return it."""
        members = {setting: wire(setting, value) for setting, value in settings.items() if setting != "etag"}
        path = query(f"/v1/topics/{escape(name)}", reason=reason)
        topic: Topic = await self._do(
            Request("PUT", path, _json.dumps(members), not etag, header={"If-Match": etag})
        )
        return topic

    async def patch_topic(self, name: str, patch: TopicPatch, *, etag: Optional[str] = None) -> Topic:
        """Change the settings that the patch has (a JSON merge patch): None resets one to its default; headers and
        per_key are merged. With etag, only if the topic has not changed since. Return it."""
        members = {setting: wire(setting, value) for setting, value in patch.items()}
        path = f"/v1/topics/{escape(name)}"
        topic: Topic = await self._do(
            Request("PATCH", path, _json.dumps(members), not etag, header={"If-Match": etag})
        )
        return topic

    async def pause_topic(
        self, name: str, *, reason: Optional[str] = None, until: Union[Instant, datetime.timedelta, None] = None
    ) -> Topic:
        """Pause a topic, until a time, for a duration ("2h" or a timedelta), or until it is resumed. Return it. reason:
        for the others on call. If it is paused already, this replaces its reason and until."""
        return await self._topic(name, "pause", given(reason=reason, until=pause_end(until)))

    async def resume_topic(self, name: str) -> Topic:
        """Make a paused or offline topic active. Return it."""
        return await self._topic(name, "resume", {})

    async def _topic(self, name: str, action: str, ask: Dict[str, Any]) -> Topic:
        path = f"/v1/topics/{escape(name)}/{action}"
        topic: Topic = await self._do(Request("POST", path, _json.dumps(ask), True))
        return topic

    async def delete_topic(
        self, name: str, *, drop: Optional[bool] = None, force: Optional[bool] = None, etag: Optional[str] = None
    ) -> None:
        """Delete a topic. One that has jobs is refused without drop, one that schedules use without force: these delete
        them, too."""
        path = query(f"/v1/topics/{escape(name)}", drop=drop, force=force)
        await self._do(Request("DELETE", path, header={"If-Match": etag}))

    # Groups

    async def group(self, name: str, *, limit: Optional[int] = None) -> Group:
        """Return a group: its counts by state, the first jobs by due time, and closed_until while it is closed."""
        group: Group = await self._do(Request("GET", query(_group_path(name), limit=limit), repeatable=True))
        return group

    async def cancel_group(
        self, name: str, *, close: Optional[Duration] = None, topics: Union[str, Sequence[str], None] = None
    ) -> GroupCancelled:
        """Delete the waiting and dead jobs of a group, in all topics that the token may push to, or those of the
        patterns. No callback of them starts after this has returned. With close, pushes into the group are refused for
        that time (GroupClosedError). Return how many jobs are deleted, and how many running, which end and are not
        retried; pending has the shards that do not answer, which delete their jobs before they are used again, or
        within 2 s."""
        patterns = topics if topics is None or isinstance(topics, str) else ",".join(topics)
        path = query(_group_path(name), close=close, topics=patterns)
        cancelled: GroupCancelled = await self._do(Request("DELETE", path, repeatable=True))
        return cancelled

    async def move_group(
        self,
        name: str,
        *,
        delay: Optional[Duration] = None,
        due_at: Optional[Instant] = None,
        time_zone: Optional[str] = None,
        shift: Optional[Duration] = None,
        idempotency_key: Optional[str] = None,
    ) -> GroupMoved:
        """Move the delayed and ready jobs of a group to one due time, by delay or due_at, or each by shift. Within a
        day, calls with the same idempotency_key shift each job once; without one, the client makes one for its own
        retries. Return how many jobs are moved and skipped (running, dead, or expiring before)."""
        move = given(**local({"delay": delay, "due_at": due_at, "time_zone": time_zone, "shift": shift}))
        if shift is not None:
            idempotency_key = idempotency_key or uuid.uuid4().hex
        # A delay counts from its arrival, so repeating it would move the jobs again.
        moved: GroupMoved = await self._do(
            Request(
                "PATCH",
                _group_path(name),
                _json.dumps(move),
                delay is None,
                header={"Idempotency-Key": idempotency_key},
            )
        )
        return moved

    # Schedules

    async def schedules(self, *, topic: Optional[str] = None) -> AsyncIterator[Schedule]:
        """Iterate over the schedules of a topic, or of all topics that the token may read, by name."""
        async for schedule in self._pages("/v1/schedules", "schedules", given(topic=topic, limit=1000)):
            yield schedule

    async def schedule(self, name: str) -> Schedule:
        """Return a schedule with its next occurrences (next), its last jobs (last), and how many occurrences were left
        out, by reason (left_out)."""
        schedule: Schedule = await self._do(Request("GET", _schedule_path(name), repeatable=True))
        return schedule

    async def put_schedule(
        self,
        name: str,
        topic: str,
        body: Any = None,
        *,
        json: Union[str, bytes, None] = None,
        cron: Optional[str] = None,
        every: Optional[Duration] = None,
        time_zone: Optional[str] = None,
        start_at: Optional[Instant] = None,
        end_at: Optional[Instant] = None,
        priority: Optional[str] = None,
        headers: Optional[Mapping[str, str]] = None,
        jitter: Optional[Duration] = None,
        missed: Optional[str] = None,
        max_late: Optional[Duration] = None,
        overlap: Optional[str] = None,
        state: Optional[str] = None,
        paused_until: Optional[Instant] = None,
    ) -> Schedule:
        """Create a schedule, or replace it as a whole. Return it as schedule does.

        body: of its jobs, any value that JSON has, or json: a text that is sent byte for byte. cron: "0 8 * * 1-5", in
        time_zone; or every. missed: "last", "skip" or "all". overlap: "skip", "replace" or "allow".
        """
        members = given(
            topic=topic,
            cron=cron,
            every=every,
            time_zone=time_zone,
            start_at=start_at,
            end_at=end_at,
            priority=priority,
            headers=headers,
            jitter=jitter,
            missed=missed,
            max_late=max_late,
            overlap=overlap,
            state=state,
            paused_until=paused_until,
        )
        schedule: Schedule = await self._do(
            Request("PUT", _schedule_path(name), with_body(members, body, json), True)
        )
        return schedule

    async def delete_schedule(self, name: str) -> None:
        """Delete a schedule. Its jobs stay."""
        await self._do(Request("DELETE", _schedule_path(name)))

    async def pause_schedule(
        self, name: str, *, until: Union[Instant, datetime.timedelta, None] = None
    ) -> Schedule:
        """Pause a schedule, until a time, for a duration ("2h" or a timedelta), or until it is resumed. Return it."""
        schedule: Schedule = await self._schedule(name, "pause", given(until=pause_end(until)))
        return schedule

    async def resume_schedule(self, name: str, *, catch_up: Optional[bool] = None) -> Schedule:
        """End a pause. The occurrences of the pause are left out, or with catch_up pushed as `missed` says."""
        schedule: Schedule = await self._schedule(name, "resume", given(catch_up=catch_up))
        return schedule

    async def run_schedule(self, name: str) -> ScheduleRun:
        """Push a job of a schedule now, and return its topic and id. The next occurrence is pushed nevertheless."""
        run: ScheduleRun = await self._do(Request("POST", _schedule_path(name, "/run")))
        return run

    async def backfill_schedule(
        self,
        name: str,
        start: Instant,
        end: Instant,
        *,
        overlap: Optional[str] = None,
        dry_run: Optional[bool] = None,
    ) -> Backfilled:
        """Push the occurrences from start on, before end, that have no job; at most 1,000. overlap: "allow" if it is
        not given. Return the occurrences, and how many are pushed, existing and left_out."""
        ask = given(**{"from": start, "to": end, "overlap": overlap, "dry_run": dry_run})
        filled: Backfilled = await self._schedule(name, "backfill", ask)
        return filled

    async def _schedule(self, name: str, action: str, ask: Dict[str, Any]) -> Any:
        return await self._do(Request("POST", _schedule_path(name, "/" + action), _json.dumps(ask), True))

    # Tasks

    async def start_task(
        self,
        action: str,
        filter: TaskFilter,
        *,
        by: Optional[Duration] = None,
        change: Optional[TaskChange] = None,
        rate: Optional[float] = None,
        stop_above: Optional[float] = None,
        dry_run: Optional[bool] = None,
        idempotency_key: Optional[str] = None,
    ) -> Task:
        """Start a task, which does one thing to all jobs that match a filter, and return it. It goes on by itself.

        action: "run", "retry", "delete", "shift" (by) or "change". Calls with the same idempotency_key start one task;
        without one, the client makes one for its own retries.
        """
        ask = given(
            action=action, filter=filter, by=by, change=change, rate=rate, stop_above=stop_above, dry_run=dry_run
        )
        key = {"Idempotency-Key": idempotency_key or uuid.uuid4().hex}
        task: Task = await self._do(Request("POST", "/v1/tasks", _json.dumps(ask), True, header=key))
        return task

    async def task(self, id: str) -> Task:
        """Return a task: its state, and how many jobs matched, are done, skipped by reason, and failed."""
        task: Task = await self._do(Request("GET", f"/v1/tasks/{escape(id)}", repeatable=True))
        return task

    async def tasks(self, *, limit: Optional[int] = None) -> List[Task]:
        """Return the tasks that the token may see, newest first."""
        tasks: List[Task] = (await self._do(Request("GET", query("/v1/tasks", limit=limit), repeatable=True)))["tasks"]
        return tasks

    async def cancel_task(self, id: str) -> Task:
        """Ask a task to end, and return it. What it has done stays."""
        task: Task = await self._do(Request("DELETE", f"/v1/tasks/{escape(id)}", repeatable=True))
        return task

    # Pull topics

    async def reserve(
        self,
        topics: Union[str, Iterable[str]],
        *,
        max: int = 1,
        wait: Duration = 0,
        ttr: Optional[Duration] = None,
        order: Optional[str] = None,
    ) -> List[LeasedJob]:
        """Reserve up to `max` ready jobs of pull topics; wait up to `wait` for the first one. order: "fair" or
        "listed"."""
        names = [topics] if isinstance(topics, str) else list(topics)
        text = _json.dumps(given(topics=names, max=max, wait=wait, ttr=ttr, order=order))
        jobs: List[LeasedJob] = (await self._do(Request("POST", "/v1/reserve", text, waits=seconds(wait))))["jobs"]
        return jobs

    async def ack(self, lease: str, result: Any = None) -> None:
        """End the lease of a job that is done; the result is any value, and is kept with the finished job."""
        await self._end(lease, "ack", {} if result is None else {"result": result})

    async def release(self, lease: str, delay: Duration = 0) -> None:
        """Make a job ready again after a delay; the attempt is not counted."""
        await self._end(lease, "release", given(delay=delay))

    async def fail(self, lease: str, reason: str = "") -> None:
        """End a failed attempt: the job is retried by its schedule, or dead after its last attempt."""
        await self._end(lease, "fail", {"reason": cut(reason)})

    async def bury(self, lease: str, reason: str = "") -> None:
        """Make a job dead."""
        await self._end(lease, "bury", {"reason": cut(reason)})

    async def extend(self, lease: str, ttr: Optional[Duration] = None) -> Extended:
        """Make a lease last for ttr from now; None: the TTR of the job, or of its topic."""
        extended: Extended = await self._end(lease, "extend", given(ttr=ttr))
        return extended

    async def _end(self, lease: str, verb: str, ask: Dict[str, Any], retry_for: Optional[float] = None) -> Any:
        path = f"/v1/leases/{escape(lease)}/{verb}"
        return await self._do(Request("POST", path, _json.dumps(ask), True, retry_for=retry_for))

    async def work(
        self,
        topics: Union[str, Iterable[str]],
        handle: Callable[[LeasedJob], Awaitable[Any]],
        *,
        stop: Optional[asyncio.Event] = None,
        wait: Duration = 5,
        ttr: Optional[Duration] = None,
        failed: Optional[Callable[[WakecallError], Any]] = None,
    ) -> None:
        """Reserve jobs of pull topics one after the other, and call handle(job) for each.

        When handle returns, the job is done; what it returns is the result, a value that JSON has. Released and Buried
        mean what their names say; any other exception fails the attempt. The lease is extended while handle runs. Set
        `stop` to end: a running job is finished first, and waiting for jobs ends within `wait`. failed(error) gets the
        errors that are repeated, and those of leases that could not be ended. For several jobs at once, call work
        several times.
        """
        await _work(self, topics, handle, stop, wait, ttr, failed)

    # Requests

    async def _pages(self, path: str, name: str, options: Dict[str, Any]) -> AsyncIterator[Any]:
        cursor = None
        while True:
            page = await self._do(Request("GET", query(path, cursor=cursor, **options), repeatable=True))
            for one in page[name]:
                yield one
            cursor = page.get("next")
            if not cursor:
                return

    async def _do(self, request: Request) -> Any:
        deadline = time.monotonic() + (self._retry_for if request.retry_for is None else request.retry_for)
        pause = 0.05
        while True:
            error: Union[ApiError, UnreachableError]
            try:
                return await self._once(request)
            except UnreachableError as e:
                wait, again, error = pause, request.repeatable or not e.outcome_unknown, e
            except RateLimitedError as e:  # nothing was done
                wait, again, error = max(pause, e.retry_after), True, e
            except UnavailableError as e:
                wait, again, error = max(pause, e.retry_after), request.repeatable, e
            if not again or time.monotonic() + wait > deadline:
                raise error
            await sleep(wait * random.uniform(1, 1.1))
            pause = min(2 * pause, 1.6)

    async def _once(self, request: Request) -> Any:
        headers = dict(self._headers)
        headers.update({name: header(value) for name, value in request.header.items() if value})
        body = None if request.text is None else request.text.encode()
        if body is not None:
            headers["Content-Type"] = "application/json"
        return decode(await self._transport.send(request.method, request.path, headers, body, request.waits))


def _group_path(name: str) -> str:
    return f"/v1/groups/{escape(name)}"


def _schedule_path(name: str, action: str = "") -> str:
    return f"/v1/schedules/{escape(name)}{action}"
