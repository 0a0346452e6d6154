"""Types of what the API takes and returns. At run time they are plain dicts; answers may have more fields."""

from __future__ import annotations

import datetime
from typing import Any, Dict, List, Mapping, Optional, Sequence, TypedDict, Union

Duration = Union[str, int, float, datetime.timedelta]
"""A text such as "90s" or "1h30m", seconds, or a timedelta."""

Instant = Union[str, int, datetime.datetime]
"""RFC 3339, Unix milliseconds, or a datetime with a time zone."""


class _PushRequired(TypedDict):
    topic: str


class Push(_PushRequired, total=False):
    """One job of push_batch: the arguments of push."""

    body: Any
    json: Union[str, bytes]
    id: str
    delay: Duration
    due_at: Instant
    time_zone: str
    priority: str
    ttr: Duration
    max_attempts: int
    on_duplicate: str
    ttl: Duration
    expires_at: Instant
    headers: Mapping[str, str]
    retry: Sequence[Duration]
    group: str
    key: str
    url: str
    traceparent: str


class Attempt(TypedDict):
    n: int
    started_at: str
    took_ms: float
    status: int
    error: str
    answer: str


class _JobRequired(TypedDict):
    topic: str
    id: str
    state: str
    due_at: str
    priority: str
    attempts: int
    created_at: str


class Job(_JobRequired, total=False):
    """A job. Its body is decoded when it is asked for, which may raise UnreadableError."""

    body: Any
    body_base64: str
    content_type: str
    ttr: str
    max_attempts: int
    expires_at: str
    headers: Dict[str, str]
    retry: List[str]
    group: str
    key: str
    url: str
    traceparent: str
    schedule: str
    scheduled_for: str
    next_attempt_at: str
    leased_until: str
    dead_reason: str
    dead_at: str
    finished_at: str
    late_ms: int
    duplicate: bool
    deleted: bool
    result: Any
    truncated: bool
    error: str
    history: List[Attempt]
    waits: List[Dict[str, Any]]
    etag: str


class _LeasedJobRequired(TypedDict):
    lease: str
    leased_until: str
    ttr: str
    topic: str
    id: str
    priority: str
    attempt: int
    max_attempts: int
    due_at: str
    created_at: str
    content_type: str
    headers: Dict[str, str]


class LeasedJob(_LeasedJobRequired, total=False):
    """A job that this worker has reserved. Its body is decoded when it is asked for, as that of Job."""

    body: Any
    body_base64: str
    expires_at: str
    traceparent: str


class Extended(TypedDict):
    leased_until: str


class DeadFilter(TypedDict, total=False):
    """Selects dead jobs, as jobs() does."""

    status: int
    error: str
    prefix: str
    reason: str
    since: Instant
    until: Instant


class TopicSettings(TypedDict, total=False):
    """What put_topic stores. A setting that is missing has its default."""

    title: str
    delivery: str
    callback_url: str
    job_urls: Sequence[str]
    cloudevents: bool
    method: str
    content_type: str
    headers: Mapping[str, str]
    delay: Duration
    ttr: Duration
    priority: str
    max_attempts: int
    retry: Sequence[Duration]
    retry_if: str
    dialect: str
    max_in_flight: int
    per_key: Mapping[str, Any]
    rate_limit: float
    expires_after: Duration
    on_expiry: str
    durability: str
    shard: str
    remember: Duration
    emails: Sequence[str]
    owner: str
    secrets: Sequence[str]
    state: str


class TopicPatch(TypedDict, total=False):
    """What patch_topic changes. None resets a setting to its default, and removes a header."""

    title: Optional[str]
    delivery: Optional[str]
    callback_url: Optional[str]
    job_urls: Optional[Sequence[str]]
    cloudevents: Optional[bool]
    method: Optional[str]
    content_type: Optional[str]
    headers: Optional[Mapping[str, Optional[str]]]
    delay: Optional[Duration]
    ttr: Optional[Duration]
    priority: Optional[str]
    max_attempts: Optional[int]
    retry: Optional[Sequence[Duration]]
    retry_if: Optional[str]
    dialect: Optional[str]
    max_in_flight: Optional[int]
    per_key: Optional[Mapping[str, Any]]
    rate_limit: Optional[float]
    expires_after: Optional[Duration]
    on_expiry: Optional[str]
    durability: Optional[str]
    shard: Optional[str]
    remember: Optional[Duration]
    emails: Optional[Sequence[str]]
    owner: Optional[str]
    secrets: Optional[Sequence[str]]
    state: Optional[str]


class _TopicRequired(TypedDict):
    name: str
    title: str
    delivery: str
    callback_url: str
    job_urls: List[str]
    cloudevents: bool
    method: str
    content_type: str
    headers: Dict[str, str]
    delay: str
    ttr: str
    priority: str
    max_attempts: int
    retry: List[str]
    retry_if: str
    dialect: str
    max_in_flight: int
    rate_limit: float
    expires_after: str
    on_expiry: str
    durability: str
    remember: str
    emails: List[str]
    owner: str
    state: str
    created_at: str
    updated_at: str


class Topic(_TopicRequired, total=False):
    """A topic. Its secrets are never shown."""

    per_key: Dict[str, Any]
    shard: str
    pause_reason: str
    paused_until: str
    etag: str


class Counts(TypedDict):
    delayed: int
    ready: int
    running: int
    dead: int


class _GroupRequired(TypedDict):
    group: str
    counts: Counts
    jobs: List[Job]


class Group(_GroupRequired, total=False):
    closed_until: str


class _CancelledRequired(TypedDict):
    deleted: int
    running: int


class GroupCancelled(_CancelledRequired, total=False):
    pending: List[str]


class GroupMoved(TypedDict):
    moved: int
    skipped: int


class Occurrence(TypedDict):
    id: str
    scheduled_for: str
    state: str


class _ScheduleRequired(TypedDict):
    name: str
    topic: str
    time_zone: str
    body: Any
    jitter: str
    missed: str
    overlap: str
    state: str
    shard: str
    created_at: str
    updated_at: str
    next: List[str]


class Schedule(_ScheduleRequired, total=False):
    """A schedule; last and left_out are missing while its shard, in unavailable, does not answer."""

    cron: str
    every: str
    start_at: str
    end_at: str
    priority: str
    headers: Dict[str, str]
    max_late: str
    paused_until: str
    last: List[Occurrence]
    left_out: Dict[str, int]
    unavailable: List[str]


class ScheduleRun(TypedDict):
    topic: str
    id: str


class Backfilled(TypedDict):
    occurrences: List[str]
    pushed: int
    existing: int
    left_out: int


class _TaskFilterRequired(TypedDict):
    topic: str


class TaskFilter(_TaskFilterRequired, total=False):
    state: str
    id_prefix: str
    error: str
    status: int
    reason: str
    due_after: Instant
    due_before: Instant
    since: Instant
    until: Instant


class TaskChange(TypedDict, total=False):
    due_at: Instant
    priority: str


class _TaskRequired(TypedDict):
    id: str
    action: str
    filter: Dict[str, Any]
    state: str
    matched: int
    done: int
    skipped: Dict[str, int]
    failed: int
    started_by: str
    created_at: str
    updated_at: str


class Task(_TaskRequired, total=False):
    by: str
    change: Dict[str, Any]
    rate: float
    stop_above: float
    dry_run: bool
    failed_again: int
    error: str
    cancel_requested: bool


class Found(TypedDict, total=False):
    """What the shards have (stored), what the journals say (jobs), and how far these were read (hosts)."""

    stored: List[Dict[str, Any]]
    jobs: List[Dict[str, Any]]
    hosts: List[Dict[str, Any]]
    cut: bool
    done: bool
