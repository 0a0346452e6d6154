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
  duplicate?: boolean;
  /** Of a push that waited, and for two minutes of get. */
  result?: any;
  truncated?: boolean;
  body?: unknown;
  body_base64?: string;
  history?: { n: number; started_at: string; took_ms: number; status: number; error: string; answer: string }[];
  etag?: string;
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
  content_type: string;
  headers: Record<string, string>;
  body?: any;
  body_base64?: string;
}

export class WakecallError extends Error {}

export class ApiError extends WakecallError {
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

export class UnreachableError extends WakecallError {
  outcomeUnknown: boolean;
  id: string;
}

export class UnreadableError extends WakecallError {}

export class SignatureError extends WakecallError {}

export class Released extends Error {
  constructor(delay?: Duration);
}

export class Buried extends Error {}

export class Client {
  constructor(options: { url: string; token?: string; timeout?: number; retryFor?: number; tls?: object });
  close(): void;
  push(topic: string, push: Push): Promise<Job>;
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
  group(name: string, options?: { limit?: number }): Promise<Group>;
  cancelGroup(
    name: string,
    options?: { close?: Duration },
  ): Promise<{ deleted: number; running: number; pending?: string[] }>;
  moveGroup(
    name: string,
    move: { delay: Duration } | { due_at: Instant; time_zone?: string } | { shift: Duration; key: string },
  ): Promise<{ moved: number; skipped: number }>;
  schedules(options?: { topic?: string }): AsyncGenerator<Schedule, void, void>;
  schedule(name: string): Promise<Schedule>;
  putSchedule(name: string, schedule: ScheduleOptions): Promise<Schedule>;
  deleteSchedule(name: string): Promise<void>;
  pauseSchedule(name: string, options?: { until?: Instant }): Promise<Schedule>;
  resumeSchedule(name: string, options?: { catchUp?: boolean }): Promise<Schedule>;
  runSchedule(name: string): Promise<{ topic: string; id: string }>;
  backfillSchedule(
    name: string,
    backfill: { from: Instant; to: Instant; overlap?: "skip" | "replace" | "allow"; dryRun?: boolean },
  ): Promise<{ occurrences: string[]; pushed: number; existing: number; left_out: number }>;
  startTask(task: TaskOptions & { key?: string }): Promise<Task>;
  task(id: string): Promise<Task>;
  tasks(options?: { limit?: number }): Promise<Task[]>;
  cancelTask(id: string): Promise<Task>;
  reserve(
    topics: string | string[],
    options?: { max?: number; wait?: number; ttr?: Duration; order?: "fair" | "listed" },
  ): Promise<LeasedJob[]>;
  ack(lease: string, result?: unknown): Promise<void>;
  release(lease: string, delay?: Duration): Promise<void>;
  fail(lease: string, reason?: string): Promise<void>;
  bury(lease: string, reason?: string): Promise<void>;
  extend(lease: string, ttr?: Duration): Promise<{ leased_until: string }>;
  work(
    topics: string | string[],
    handle: (job: LeasedJob) => unknown,
    options?: { signal?: AbortSignal; wait?: number; ttr?: Duration; failed?: (error: WakecallError) => void },
  ): Promise<void>;
}

type HeaderSource = { get(name: string): string | null } | Record<string, string | string[] | undefined>;

export function verify(
  secrets: string | string[],
  headers: HeaderSource,
  body: Uint8Array | string,
  options?: { tolerance?: number },
): void;
