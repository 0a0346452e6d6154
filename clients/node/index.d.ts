/** "90s", "1h30m", or seconds. */
export type Duration = string | number;
/** RFC 3339, Unix milliseconds, or a Date. */
export type Instant = string | number | Date;
export type Priority = "high" | "normal" | "low";

export interface Push {
  id?: string;
  body?: unknown;
  json?: string;
  delay?: Duration;
  /** Without an offset from UTC, a local time in time_zone. */
  due_at?: Instant;
  time_zone?: string;
  priority?: Priority;
  ttr?: Duration;
  max_attempts?: number;
  on_duplicate?: "keep" | "replace" | "error";
  ttl?: Duration;
  expires_at?: Instant;
  headers?: Record<string, string>;
  retry?: Duration[];
  group?: string;
  traceparent?: string;
  key?: string;
  url?: string;
  /** Up to 60 s: push resolves when the job has ended. */
  wait?: Duration;
  on_timeout?: "keep" | "delete";
}

/** A job in the API's answers; GET /docs on the server describes every field. */
export interface Job {
  topic: string;
  id: string;
  group?: string;
  key?: string;
  url?: string;
  schedule?: string;
  scheduled_for?: string;
  state: "delayed" | "ready" | "running" | "dead" | "done" | "spooled";
  due_at: string;
  priority: Priority;
  attempts: number;
  created_at: string;
  content_type?: string;
  ttr?: string;
  max_attempts?: number;
  expires_at?: string;
  headers?: Record<string, string>;
  retry?: string[];
  traceparent?: string;
  next_attempt_at?: string;
  leased_until?: string;
  dead_reason?: string;
  dead_at?: string;
  finished_at?: string;
  late_ms?: number;
  waits?: { reason: string; until?: string; [field: string]: unknown }[];
  duplicate?: boolean;
  deleted?: boolean;
  error?: string;
  /** Of a push that waited, and for two minutes of get. */
  result?: any;
  truncated?: boolean;
  body?: unknown;
  body_base64?: string;
  history?: { n: number; started_at: string; took_ms: number; status: number; error: string; answer: string }[];
  etag?: string;
  [field: string]: unknown;
}

/** Selects dead jobs. */
export interface DeadFilter {
  /** Beginning of the id. */
  prefix?: string;
  /** Of the last answer. */
  status?: number;
  /** Text in the last error. */
  error?: string;
  reason?: string;
  since?: Instant;
  until?: Instant;
}

/** What putTopic stores. A setting that is missing has its default. */
export interface TopicSettings {
  title?: string;
  delivery?: "push" | "pull";
  callback_url?: string;
  job_urls?: string[];
  cloudevents?: boolean;
  method?: "POST" | "PUT" | "GET";
  content_type?: string;
  headers?: Record<string, string>;
  delay?: Duration;
  ttr?: Duration;
  priority?: Priority;
  max_attempts?: number;
  retry?: Duration[];
  retry_if?: string;
  dialect?: "wakecall" | "phpdq";
  max_in_flight?: number;
  per_key?: { max_in_flight?: number; rate_limit?: number; skip_retrying?: boolean };
  rate_limit?: number;
  expires_after?: Duration;
  on_expiry?: "dead" | "drop";
  durability?: "memory" | "replica";
  shard?: string;
  remember?: Duration;
  emails?: string[];
  owner?: string;
  secrets?: string[];
  state?: "active" | "paused" | "offline";
  [field: string]: unknown;
}

type MergePatch<T> = T extends unknown[] ? T : T extends object ? { [K in keyof T]?: MergePatch<T[K]> | null } : T;

/** What patchTopic changes. null resets a setting to its default, and removes a header. */
export type TopicPatch = MergePatch<TopicSettings>;

/** A topic in the API's answers, which never have its secrets. */
export interface Topic extends TopicSettings {
  name: string;
  created_at: string;
  updated_at: string;
  pause_reason?: string;
  paused_until?: string;
  etag?: string;
}

/** Selects dead jobs: those of ids, or the oldest up to limit that the filter selects. */
export type DeadSelection = { ids: string[] } | { limit: number; filter?: DeadFilter; dryRun?: boolean };

/** What the shards have (stored), what the journals say (jobs), and how far these were read (hosts). */
export interface Found {
  stored: { topic: string; id: string; state: string }[];
  jobs: { topic: string; id: string; created_at?: string; ended?: string; events: Record<string, unknown>[] }[];
  hosts: Record<string, unknown>[];
  cut?: boolean;
  done?: boolean;
  [field: string]: unknown;
}

export interface Group {
  group: string;
  counts: { delayed: number; ready: number; running: number; dead: number };
  closed_until?: string;
  jobs: Job[];
}

/** What a task does to all jobs that match its filter. */
export interface TaskOptions {
  action: "run" | "retry" | "delete" | "shift" | "change";
  filter: {
    topic: string;
    state?: "delayed" | "ready" | "dead";
    id_prefix?: string;
    error?: string;
    status?: number;
    reason?: string;
    due_after?: Instant;
    due_before?: Instant;
    since?: Instant;
    until?: Instant;
  };
  by?: Duration;
  change?: { due_at?: Instant; priority?: string };
  rate?: number;
  stop_above?: number;
  dry_run?: boolean;
}

export interface Task {
  id: string;
  action: string;
  state: "queued" | "running" | "done" | "failed" | "stopped" | "cancelled";
  matched: number;
  done: number;
  skipped: { running: number; gone: number; changed: number };
  failed: number;
  error?: string;
  [field: string]: unknown;
}

/** What a recurring job is; one of cron and every is required. */
export interface ScheduleOptions {
  topic: string;
  cron?: string;
  every?: Duration;
  time_zone?: string;
  start_at?: Instant;
  end_at?: Instant;
  body?: unknown;
  json?: string;
  priority?: Priority;
  headers?: Record<string, string>;
  jitter?: Duration;
  missed?: "last" | "skip" | "all";
  max_late?: Duration;
  overlap?: "skip" | "replace" | "allow";
  state?: "active" | "paused";
  paused_until?: Instant;
}

/** A schedule in the API's answers; last and left_out are absent while its shard, in unavailable, does not answer. */
export interface Schedule extends Omit<ScheduleOptions, "json"> {
  name: string;
  time_zone: string;
  state: "active" | "paused";
  paused_until?: string;
  shard: string;
  created_at: string;
  updated_at: string;
  next: string[];
  last?: { id: string; scheduled_for: string; state: string }[];
  left_out?: { late: number; overlap: number; paused: number; limit: number; edited: number };
  unavailable?: string[];
}

export interface LeasedJob {
  lease: string;
  leased_until: string;
  ttr: string;
  topic: string;
  id: string;
  priority: Priority;
  attempt: number;
  max_attempts: number;
  due_at: string;
  created_at: string;
  expires_at?: string;
  traceparent?: string;
  content_type: string;
  headers: Record<string, string>;
  body?: any;
  body_base64?: string;
}

export class WakecallError extends Error {}

/** The server refused a request; its subclasses say what to do about it. */
export class ApiError extends WakecallError {
  constructor(
    status: number,
    problem: { code?: string; title?: string; detail?: string; field?: string; id?: string },
    more?: { requestId?: string; retryAfter?: number; id?: string },
  );
  status: number;
  /** What kind of problem it is, such as "job_exists"; the API page lists them. */
  code: string;
  title: string;
  detail: string;
  field: string;
  requestId: string;
  retryAfter: number;
  id: string;
}

/** The request is malformed, out of range or too large. Correct it; `field` names the field. */
export class InvalidError extends ApiError {}

/** The token is missing, unknown, revoked or expired. Use another one. */
export class UnauthorizedError extends ApiError {}

/** The token lacks a right, which `detail` names. Ask for it. */
export class ForbiddenError extends ApiError {}

/** There is no such topic, job, schedule or task; `code` says which. */
export class NotFoundError extends ApiError {}

/** The state of the topic or job does not allow it; `code` says why. */
export class ConflictError extends ApiError {}

/** The group of the job is closed: what it is about has ended. Leave the job out. */
export class GroupClosedError extends ConflictError {}

/** The lease expired or already ended. Drop the work: another worker may have the job. */
export class LeaseOverError extends ConflictError {}

/** The job or topic has changed since its etag was read. Read it again. */
export class ChangedError extends ApiError {}

/** A limit or quota is reached, and nothing was done. Try again after `retryAfter` seconds. */
export class RateLimitedError extends ApiError {}

/** It cannot be done now. Try again after `retryAfter` seconds; a push with the same id. */
export class UnavailableError extends ApiError {}

/** There was no answer. */
export class UnreachableError extends WakecallError {
  constructor(text: string, outcomeUnknown: boolean, cause?: unknown);
  /** The request may have been carried out: push again with the same id. */
  outcomeUnknown: boolean;
  id: string;
}

/** The body of a job cannot be decoded; its bytes are in body_base64. A worker releases the job for a minute. */
export class UnreadableError extends WakecallError {}

/** A callback does not have a valid signature: answer 401. */
export class SignatureError extends WakecallError {}

/** Thrown by a handler that cannot do a job now: it is ready again after `delay`; the attempt is not counted. */
export class Released extends Error {
  constructor(delay?: Duration);
}

/** Thrown by a handler that can never do a job: it is dead at once. */
export class Buried extends Error {}

export class Client {
  /**
   * timeout: seconds for a whole request; retryFor: seconds for which requests that are safe to repeat are repeated
   * after 429, 503 or a lost connection, 0: never; fetch: instead of the global one, for a proxy or certificates.
   */
  constructor(options: { url: string; token?: string; timeout?: number; retryFor?: number; fetch?: typeof fetch });
  /** Without an id, the client makes one, so that the push is safe to repeat. */
  push(topic: string, push: Push, options?: { signal?: AbortSignal }): Promise<Job>;
  pushBatch(pushes: (Push & { topic: string })[]): Promise<(Job | ApiError)[]>;
  get(topic: string, id: string): Promise<Job>;
  change(
    topic: string,
    id: string,
    changes: Pick<Push, "due_at" | "time_zone" | "delay" | "priority" | "body" | "json"> & {
      url?: string | null;
      etag?: string;
    },
  ): Promise<Job>;
  delete(topic: string, id: string, options?: { etag?: string }): Promise<void>;
  run(topic: string, id: string): Promise<Job>;
  /** prefix is for dead and done jobs, the other filters are for dead ones. */
  jobs(
    topic: string,
    state: "delayed" | "ready" | "running" | "dead" | "done",
    filter?: DeadFilter,
  ): AsyncGenerator<Job, void, void>;
  /** Resolves to the number of jobs. */
  retryDead(topic: string, selection: DeadSelection): Promise<number>;
  /** Resolves to the number of jobs. */
  deleteDead(topic: string, selection: DeadSelection): Promise<number>;
  search(id: string, options?: { topic?: string; signal?: AbortSignal }): Promise<Found>;
  topics(options?: { prefix?: string; state?: string; owner?: string }): AsyncGenerator<Topic, void, void>;
  topic(name: string): Promise<Topic>;
  putTopic(name: string, settings: TopicSettings, options?: { reason?: string; etag?: string }): Promise<Topic>;
  patchTopic(name: string, patch: TopicPatch, options?: { etag?: string }): Promise<Topic>;
  /** until may be a duration in text ("2h"). */
  pauseTopic(name: string, options?: { reason?: string; until?: Instant }): Promise<Topic>;
  resumeTopic(name: string): Promise<Topic>;
  /** drop also deletes its jobs, force the schedules that use it. */
  deleteTopic(name: string, options?: { drop?: boolean; force?: boolean; etag?: string }): Promise<void>;
  group(name: string, options?: { limit?: number }): Promise<Group>;
  cancelGroup(
    name: string,
    options?: { close?: Duration; topics?: string | string[] },
  ): Promise<{ deleted: number; running: number; pending?: string[] }>;
  moveGroup(
    name: string,
    move: { delay: Duration } | { due_at: Instant; time_zone?: string } | { shift: Duration; idempotencyKey?: string },
  ): Promise<{ moved: number; skipped: number }>;
  schedules(options?: { topic?: string }): AsyncGenerator<Schedule, void, void>;
  schedule(name: string): Promise<Schedule>;
  putSchedule(name: string, schedule: ScheduleOptions): Promise<Schedule>;
  deleteSchedule(name: string): Promise<void>;
  /** until may be a duration in text ("2h"). */
  pauseSchedule(name: string, options?: { until?: Instant }): Promise<Schedule>;
  resumeSchedule(name: string, options?: { catchUp?: boolean }): Promise<Schedule>;
  runSchedule(name: string): Promise<{ topic: string; id: string }>;
  backfillSchedule(
    name: string,
    backfill: { from: Instant; to: Instant; overlap?: "skip" | "replace" | "allow"; dryRun?: boolean },
  ): Promise<{ occurrences: string[]; pushed: number; existing: number; left_out: number }>;
  startTask(task: TaskOptions & { idempotencyKey?: string }): Promise<Task>;
  task(id: string): Promise<Task>;
  tasks(options?: { limit?: number }): Promise<Task[]>;
  cancelTask(id: string): Promise<Task>;
  reserve(
    topics: string | string[],
    options?: { max?: number; wait?: Duration; ttr?: Duration; order?: "fair" | "listed"; signal?: AbortSignal },
  ): Promise<LeasedJob[]>;
  ack(lease: string, result?: unknown): Promise<void>;
  release(lease: string, delay?: Duration): Promise<void>;
  fail(lease: string, reason?: string): Promise<void>;
  bury(lease: string, reason?: string): Promise<void>;
  extend(lease: string, ttr?: Duration): Promise<{ leased_until: string }>;
  work(
    topics: string | string[],
    handle: (job: LeasedJob) => unknown,
    options?: { signal?: AbortSignal; wait?: Duration; ttr?: Duration; failed?: (error: WakecallError) => void },
  ): Promise<void>;
}

type HeaderSource = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

export function verify(
  secrets: string | string[],
  headers: HeaderSource,
  body: Uint8Array | string,
  options?: { tolerance?: number },
): void;
