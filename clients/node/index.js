"use strict";

// Client of Wakecall, a delayed-callback dispatcher, for Node.js 18 and later, with fetch and Node's own modules only.
//
//   const client = new Client({ url: "http://127.0.0.1:6789", token });
//   const job = await client.push("order.close", { id: "order-42", body: { order: 42 }, delay: "30m" });
//
// A refusal by the server throws a subclass of ApiError that says what to do, a lost or impossible connection an
// UnreachableError.

const { createHmac, randomUUID, timingSafeEqual } = require("node:crypto");
const { setTimeout: sleep } = require("node:timers/promises");

/** Every error of this module. */
class WakecallError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/** The server refused a request: RFC 9457's problem details. `code` is a fixed word; the API page lists them. */
class ApiError extends WakecallError {
  constructor(status, problem, { requestId = "", retryAfter = 0, id = "" } = {}) {
    const { code = "", title = "", detail = "", field = "" } = problem;
    const text = detail || title || `status ${status}`;
    super(text.includes(field) ? text : `${field}: ${text}`);
    Object.assign(this, { status, code, title, detail, field, requestId, retryAfter, id: problem.id || id });
  }
}

/** The request is malformed, out of range or too large. Correct it; `field` names the field. */
class InvalidError extends ApiError {}

/** The token is missing, unknown, revoked or expired. Use another one. */
class UnauthorizedError extends ApiError {}

/** The token lacks a right, which `detail` names. Ask for it. */
class ForbiddenError extends ApiError {}

/** There is no such topic, job, schedule or task; `code` says which. */
class NotFoundError extends ApiError {}

/** The state of the topic or job does not allow it; `code` says why. */
class ConflictError extends ApiError {}

/** The group of the job is closed: what it is about has ended. Leave the job out. */
class GroupClosedError extends ConflictError {}

/** The lease expired or already ended. Drop the work: another worker may have the job. */
class LeaseOverError extends ConflictError {}

/** The job or topic has changed since its etag was read. Read it again. */
class ChangedError extends ApiError {}

/** A limit or quota is reached, and nothing was done. Try again after `retryAfter` seconds. */
class RateLimitedError extends ApiError {}

/** It cannot be done now. Try again after `retryAfter` seconds; a push with the same id. */
class UnavailableError extends ApiError {}

const errorsByCode = { group_closed: GroupClosedError, lease_over: LeaseOverError };
const errorsByStatus = {
  400: InvalidError, 401: UnauthorizedError, 403: ForbiddenError, 404: NotFoundError, 405: InvalidError,
  408: UnavailableError, 409: ConflictError, 412: ChangedError, 413: InvalidError, 415: InvalidError, 422: InvalidError,
  429: RateLimitedError, 502: UnavailableError, 503: UnavailableError, 504: UnavailableError,
};

function apiError(status, problem, more) {
  const Kind = errorsByCode[problem.code] ?? errorsByStatus[status] ?? ApiError;
  return new Kind(status, problem, more);
}

/**
 * There was no answer. If outcomeUnknown is true, the request may have been carried out: push again with the same id,
 * which is in `id`.
 */
class UnreachableError extends WakecallError {
  constructor(text, outcomeUnknown, cause) {
    super(text, { cause });
    Object.assign(this, { outcomeUnknown, id: "" });
  }
}

/** The body of a job cannot be decoded. A worker whose handler throws this releases the job for a minute. */
class UnreadableError extends WakecallError {}

/** A callback does not have a valid signature: answer 401. */
class SignatureError extends WakecallError {}

/** Thrown by a handler that cannot do a job now: it is ready again after `delay`; the attempt is not counted. */
class Released extends Error {
  constructor(delay = 0) {
    super(`released for ${delay}`);
    this.delay = delay;
  }
}

/** Thrown by a handler that can never do a job: it is dead at once. */
class Buried extends Error {}

const LONGEST_WAIT = 60; // seconds, of a push

const LONGEST_SEARCH = 600; // seconds

class Client {
  #base;
  #headers;
  #timeout;
  #retryFor;
  #fetch;

  /**
   * timeout: seconds for a whole request; retryFor: seconds for which requests that are safe to repeat are repeated
   * after 429, 503 or a lost connection, 0: never; fetch: instead of the global one, for a proxy or certificates.
   */
  constructor({ url, token = "", timeout = 30, retryFor = 10, fetch = globalThis.fetch }) {
    if (!["http:", "https:"].includes(new URL(url).protocol)) {
      throw new TypeError("server URL must be http://HOST:PORT or https://HOST");
    }
    this.#base = url.replace(/\/+$/, "");
    this.#headers = { Accept: "application/json, application/problem+json", "User-Agent": "wakecall-node" };
    if (token) this.#headers.Authorization = headerValue(`Bearer ${token}`);
    this.#timeout = timeout;
    this.#retryFor = retryFor;
    this.#fetch = fetch;
  }

  // Jobs

  /**
   * Pushes a job, and resolves to it as the server stored it. `body` is any value that JSON has, or `json` a text that
   * is sent byte for byte. Without an id, the client makes one, so that the push is safe to repeat. With `wait`, it
   * resolves when the job has ended.
   */
  async push(topic, push, { signal } = {}) {
    const [job, text] = encodePush(push);
    try {
      const waits = job.wait ? LONGEST_WAIT : 0;
      return await this.#do("POST", jobPath(topic), text, { repeatable: isRepeatable(job), waits, signal });
    } catch (e) {
      if (e instanceof WakecallError) e.id ||= job.id;
      throw e;
    }
  }

  /**
   * Pushes up to 1,000 jobs, each with its topic. Resolves to an array in their order, of jobs or, where one was
   * refused, an ApiError. A refused job does not fail the others.
   */
  async pushBatch(pushes) {
    const jobs = pushes.map(encodePush);
    const text = `{"jobs":[${jobs.map(([, t]) => t).join(",")}]}`;
    const { results } = await this.#do("POST", "/v1/jobs", text, { repeatable: jobs.every(([j]) => isRepeatable(j)) });
    if (results.length !== jobs.length) {
      throw new WakecallError(`got ${results.length} results for ${jobs.length} jobs`);
    }
    return results.map((r, i) => (r.error ? apiError(r.error.status, r.error, { id: jobs[i][0].id }) : r));
  }

  /** Resolves to a job with its attempts (history), what it waits for (waits) and its etag. */
  async get(topic, id) {
    return readable(await this.#do("GET", jobPath(topic, id), null, { repeatable: true }));
  }

  /**
   * Iterates over the jobs of a state: "delayed", "ready", "running", "dead" or "done". prefix, of the ids, is for dead
   * and done jobs; the other filters are for dead ones. Listed jobs have neither body nor history.
   */
  jobs(topic, state, filter = {}) {
    return this.#pages(jobPath(topic), "jobs", { ...filter, state, limit: 1000 });
  }

  /**
   * Changes due_at or delay, priority, url (null: the topic's), body or json of a delayed or ready job; with etag, only
   * if it is the same.
   */
  change(topic, id, { etag, ...changes }) {
    const members = wireOf(changes);
    const text = "body" in changes || "json" in changes ? withBody(members, changes) : JSON.stringify(members);
    // A delay counts from its arrival, so repeating it would move the job again.
    const repeatable = changes.delay === undefined && !etag;
    return this.#do("PATCH", jobPath(topic, id), text, { repeatable, header: { "If-Match": etag } });
  }

  /** Deletes a job. No callback starts after it has resolved. */
  async delete(topic, id, { etag } = {}) {
    await this.#do("DELETE", jobPath(topic, id), null, { header: { "If-Match": etag } });
  }

  /** Makes a job due now; a dead job starts again at attempt 1. */
  run(topic, id) {
    return this.#do("POST", `${jobPath(topic, id)}/run`, null, {});
  }

  /**
   * Makes dead jobs ready again, with no attempts made: those of ids, or the oldest up to limit that the filter
   * selects. dryRun only counts them. Resolves to their number.
   */
  retryDead(topic, selection) {
    return this.#dead(topic, "retry", selection);
  }

  /** Deletes dead jobs, selected as by retryDead. Resolves to their number. */
  deleteDead(topic, selection) {
    return this.#dead(topic, "delete", selection);
  }

  async #dead(topic, action, { ids, limit, filter, dryRun }) {
    const text = JSON.stringify({ ids, limit, filter, dry_run: dryRun });
    return (await this.#do("POST", `${topicPath(topic)}/dead/${action}`, text, { repeatable: dryRun === true })).count;
  }

  /** Resolves to what the shards and the journals of all hosts have of an id. Large journals take minutes. */
  search(id, { topic, signal } = {}) {
    const path = `/v1/search${queryOf({ id, topic })}`;
    return this.#do("GET", path, null, { repeatable: true, waits: LONGEST_SEARCH, signal });
  }

  // Topics

  /** Iterates over the topics that the token may manage, by name. */
  topics({ prefix, state, owner } = {}) {
    return this.#pages("/v1/topics", "topics", { prefix, state, owner });
  }

  /** Resolves to a topic with its etag. */
  topic(name) {
    return this.#do("GET", topicPath(name), null, { repeatable: true });
  }

  /**
   * Creates a topic, or replaces it as a whole, and resolves to it. A setting that is missing takes its default, but
   * the secrets, which stay. With etag, only if it has not changed since. reason: why it is paused or offline.
   */
  putTopic(name, { etag: _, ...settings }, { reason, etag } = {}) {
    const options = { repeatable: !etag, header: { "If-Match": etag } };
    return this.#do("PUT", topicPath(name) + queryOf({ reason }), JSON.stringify(settings), options);
  }

  /**
   * Changes the settings that the patch has (a JSON merge patch), and resolves to the topic. null resets a setting to
   * its default; headers and per_key are merged. With etag, only if the topic has not changed since.
   */
  patchTopic(name, patch, { etag } = {}) {
    const options = { repeatable: !etag, header: { "If-Match": etag } };
    return this.#do("PATCH", topicPath(name), JSON.stringify(patch), options);
  }

  /**
   * Pauses a topic, until a time, for a duration in text ("2h"), or until it is resumed, and resolves to it. reason:
   * for the others on call. If it is paused already, this replaces its reason and until.
   */
  pauseTopic(name, { reason, until } = {}) {
    return this.#do("POST", `${topicPath(name)}/pause`, JSON.stringify({ reason, until }), { repeatable: true });
  }

  /** Makes a paused or offline topic active, and resolves to it. */
  resumeTopic(name) {
    return this.#do("POST", `${topicPath(name)}/resume`, null, { repeatable: true });
  }

  /**
   * Deletes a topic. One that has jobs is refused without drop, one that schedules use without force: these delete
   * them, too.
   */
  async deleteTopic(name, { drop, force, etag } = {}) {
    await this.#do("DELETE", topicPath(name) + queryOf({ drop, force }), null, { header: { "If-Match": etag } });
  }

  // Groups

  /** Resolves to a group: its counts by state, the first jobs by due time, and closed_until while it is closed. */
  group(name, { limit } = {}) {
    return this.#do("GET", groupPath(name, { limit }), null, { repeatable: true });
  }

  /**
   * Deletes the waiting and dead jobs of a group, in all topics that the token may push to. No callback of them starts
   * after it has resolved. With close, a duration, pushes into the group are refused for that time, with the code
   * "group_closed". Resolves to how many jobs are deleted, and how many running, which end and are not retried;
   * pending has the shards that do not answer, which delete their jobs before they are used again, or within 2 s.
   */
  cancelGroup(name, { close, topics } = {}) {
    return this.#do("DELETE", groupPath(name, { close, topics }), null, { repeatable: true });
  }

  /**
   * Moves the delayed and ready jobs of a group to one due time, by delay or due_at, or each by shift. Within a day,
   * calls with the same idempotencyKey shift each job once; without one, the client makes one for its own retries.
   * Resolves to how many jobs are moved and skipped (running, dead, or expiring before).
   */
  moveGroup(name, { idempotencyKey, ...move }) {
    const key = idempotencyKey ?? (move.shift === undefined ? undefined : randomUUID());
    // A delay counts from its arrival, so repeating it would move the jobs again.
    const options = { repeatable: move.delay === undefined, header: { "Idempotency-Key": key } };
    return this.#do("PATCH", groupPath(name), JSON.stringify(move), options);
  }

  // Schedules

  /** Iterates over the schedules of a topic, or of all topics that the token may read, by name. */
  schedules({ topic } = {}) {
    return this.#pages("/v1/schedules", "schedules", { topic, limit: 1000 });
  }

  /**
   * Resolves to a schedule with its next occurrences (next), its last jobs (last), and how many occurrences were left
   * out, by reason (left_out).
   */
  schedule(name) {
    return this.#do("GET", schedulePath(name), null, { repeatable: true });
  }

  /**
   * Creates a schedule, or replaces it as a whole, and resolves to it. `body`, of its jobs, is any value that JSON has,
   * or `json` a text that is sent byte for byte.
   */
  putSchedule(name, schedule) {
    return this.#do("PUT", schedulePath(name), withBody(wireOf(schedule), schedule), { repeatable: true });
  }

  /** Deletes a schedule. Its jobs stay. */
  async deleteSchedule(name) {
    await this.#do("DELETE", schedulePath(name), null, {});
  }

  /** Pauses a schedule, until a time, for a duration in text ("2h"), or until it is resumed, and resolves to it. */
  pauseSchedule(name, { until } = {}) {
    return this.#do("POST", schedulePath(name, "/pause"), JSON.stringify({ until }), { repeatable: true });
  }

  /** Ends a pause. The occurrences of the pause are left out, or with catchUp pushed as `missed` says. */
  resumeSchedule(name, { catchUp } = {}) {
    const text = JSON.stringify({ catch_up: catchUp });
    return this.#do("POST", schedulePath(name, "/resume"), text, { repeatable: true });
  }

  /** Pushes a job of a schedule now; resolves to its topic and id. The next occurrence is pushed nevertheless. */
  runSchedule(name) {
    return this.#do("POST", schedulePath(name, "/run"), null, {});
  }

  /**
   * Pushes the occurrences from `from` on, before `to`, that have no job; at most 1,000. overlap: "allow" if it is not
   * given. Resolves to the occurrences, and how many are pushed, existing and left_out.
   */
  backfillSchedule(name, { from, to, overlap, dryRun }) {
    const text = JSON.stringify({ from, to, overlap, dry_run: dryRun });
    return this.#do("POST", schedulePath(name, "/backfill"), text, { repeatable: true });
  }

  // Tasks

  /**
   * Starts a task, which does one thing to all jobs that match a filter, and resolves to it. It goes on by itself.
   * Calls with the same idempotencyKey start one task; without one, the client makes one for its own retries.
   */
  startTask({ idempotencyKey = randomUUID(), ...task }) {
    const options = { repeatable: true, header: { "Idempotency-Key": idempotencyKey } };
    return this.#do("POST", "/v1/tasks", JSON.stringify(task), options);
  }

  /** Resolves to a task: its state, and how many jobs matched, are done, skipped by reason, and failed. */
  task(id) {
    return this.#do("GET", `/v1/tasks/${escapeId(id)}`, null, { repeatable: true });
  }

  /** Resolves to the tasks that the token may see, newest first. */
  async tasks({ limit } = {}) {
    return (await this.#do("GET", `/v1/tasks${queryOf({ limit })}`, null, { repeatable: true })).tasks;
  }

  /** Asks a task to end, and resolves to it. What it has done stays. */
  cancelTask(id) {
    return this.#do("DELETE", `/v1/tasks/${escapeId(id)}`, null, { repeatable: true });
  }

  // Pull topics

  /** Reserves up to max ready jobs of pull topics; waits up to `wait` for the first one. order: "fair" or "listed". */
  async reserve(topics, { max = 1, wait = 0, ttr, order, signal } = {}) {
    const ask = JSON.stringify({ topics: [topics].flat(), max, wait, ttr, order });
    return (await this.#do("POST", "/v1/reserve", ask, { waits: seconds(wait), signal })).jobs.map(readable);
  }

  /** Ends the lease of a job that is done; the result is any value, and is kept with the finished job. */
  async ack(lease, result) {
    await this.#end(lease, "ack", { result });
  }

  /** Makes a job ready again after a delay; the attempt is not counted. */
  async release(lease, delay = 0) {
    await this.#end(lease, "release", { delay });
  }

  /** Ends a failed attempt: the job is retried by its schedule, or dead after its last attempt. */
  async fail(lease, reason = "") {
    await this.#end(lease, "fail", { reason: cut(reason) });
  }

  /** Makes a job dead. */
  async bury(lease, reason = "") {
    await this.#end(lease, "bury", { reason: cut(reason) });
  }

  /** Makes a lease last for ttr from now; without one: for the TTR of the job, or of its topic. */
  extend(lease, ttr) {
    return this.#end(lease, "extend", { ttr });
  }

  #end(lease, verb, ask, retryFor) {
    const path = `/v1/leases/${encodeURIComponent(lease)}/${verb}`;
    return this.#do("POST", path, JSON.stringify(ask), { repeatable: true, retryFor });
  }

  /**
   * Reserves jobs of pull topics one after the other, and calls handle(job) for each. When handle resolves, the job is
   * done; what it resolves to is the result. Released and Buried mean what their names say; any other error fails the
   * attempt. The lease is extended meanwhile. Abort `signal` to end: a running job is finished first, and waiting for
   * jobs ends within `wait` seconds. failed(error) gets the errors that are repeated, and those of leases that could
   * not be ended. For several jobs at once, call work several times.
   */
  async work(topics, handle, { signal, wait = 5, ttr, failed = () => {} } = {}) {
    let pause = 0;
    while (!signal?.aborted) {
      const began = performance.now();
      let jobs = [];
      let early = true;
      try {
        jobs = await this.reserve(topics, { wait, ttr });
        // A server that is stopping lets no worker wait.
        early = jobs.length === 0 && performance.now() - began < 500;
      } catch (e) {
        if (!isTemporary(e)) throw e;
        failed(e);
      }
      for (const job of jobs) await this.#work(job, signal?.aborted ? release : handle, ttr, failed);
      pause = early ? Math.min(Math.max(2 * pause, 0.1), 5) : 0;
      if (pause) await sleep(pause * (500 + 500 * Math.random()), undefined, { signal }).catch(() => {});
    }
  }

  async #work(job, handle, ttr, failed) {
    const length = seconds(job.ttr);
    let extending;
    const timer = setInterval(() => {
      extending = this.#end(job.lease, "extend", { ttr }, 0).catch((e) => {
        failed(e);
        if (!isTemporary(e)) clearInterval(timer); // the lease is lost: another worker may have the job
      });
    }, Math.max((length * 1000) / 3, 20));
    let end;
    try {
      const result = await handle(job);
      JSON.stringify(result); // a value that JSON cannot have fails the attempt
      end = ["ack", { result }];
    } catch (e) {
      if (e instanceof UnreadableError) failed(e);
      if (e instanceof Released) end = ["release", { delay: e.delay }];
      else if (e instanceof UnreadableError) end = ["release", { delay: 60 }];
      else end = [e instanceof Buried ? "bury" : "fail", { reason: cut(e?.message || e) }];
    }
    clearInterval(timer);
    await extending;
    await this.#end(job.lease, ...end, Math.max(length, 10)).catch(failed);
  }

  // Requests

  async *#pages(path, name, options) {
    for (let cursor; ; ) {
      const page = await this.#do("GET", path + queryOf({ ...options, cursor }), null, { repeatable: true });
      yield* page[name];
      if (!page.next) return;
      cursor = page.next;
    }
  }

  async #do(method, path, text, { repeatable = false, header = {}, waits = 0, retryFor = this.#retryFor, signal }) {
    const deadline = performance.now() + retryFor * 1000;
    for (let pause = 0.05; ; pause = Math.min(2 * pause, 1.6)) {
      try {
        return await this.#once(method, path, text, header, waits, signal);
      } catch (e) {
        let again = repeatable && e instanceof UnavailableError;
        if (e instanceof UnreachableError) again = repeatable || !e.outcomeUnknown;
        if (e instanceof RateLimitedError) again = true; // nothing was done
        const wait = Math.max(pause, e.retryAfter ?? 0);
        if (!again || performance.now() + wait * 1000 > deadline) throw e;
        await sleep(wait * (1000 + 100 * Math.random()), undefined, { signal });
      }
    }
  }

  async #once(method, path, text, header, waits, signal) {
    const headers = { ...this.#headers };
    for (const [name, value] of Object.entries(header)) if (value) headers[name] = headerValue(value);
    if (text !== null) headers["Content-Type"] = "application/json";
    signal?.throwIfAborted();
    const stop = new AbortController(); // Node.js 18 has no AbortSignal.any
    const timer = setTimeout(() => stop.abort(), (this.#timeout + waits) * 1000);
    const abort = () => stop.abort();
    signal?.addEventListener("abort", abort);
    try {
      const options = { method, headers, body: text ?? undefined, redirect: "manual", signal: stop.signal };
      const response = await this.#fetch(this.#base + path, options);
      return answerOf(response, await response.text());
    } catch (e) {
      signal?.throwIfAborted();
      if (e instanceof WakecallError) throw e;
      const sent = !["ECONNREFUSED", "ENOTFOUND", "EAI_AGAIN", "UND_ERR_CONNECT_TIMEOUT"].includes(e.cause?.code);
      const why = e.name === "AbortError" ? "timed out" : e.cause?.message || e.cause?.code || e.message;
      throw new UnreachableError(`no answer from ${new URL(this.#base).host}: ${why}`, sent, e);
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    }
  }
}

/**
 * Checks the signature of a callback (Standard Webhooks), or throws a SignatureError. secrets: the topic's, whsec_…; an
 * array while one is being rotated. headers: those of node:http or of fetch. body: the bytes as received. tolerance:
 * seconds that the callback's time may differ from this host's clock.
 */
function verify(secrets, headers, body, { tolerance = 300 } = {}) {
  const header = (name) => String((headers.get ? headers.get(name) : headers[name]) ?? "");
  const id = header("webhook-id");
  const sent = header("webhook-timestamp");
  if (!id || !/^[0-9]{1,12}$/.test(sent)) {
    throw new SignatureError("the callback has no webhook-id or no valid webhook-timestamp");
  }
  if (Math.abs(Date.now() / 1000 - Number(sent)) > tolerance) {
    throw new SignatureError(`webhook-timestamp ${sent} is more than ${tolerance} s away from this host's clock`);
  }
  let found = false;
  for (const secret of [secrets].flat()) {
    const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
    if (key.length === 0) throw new TypeError("secrets must be whsec_ followed by base64");
    const want = Buffer.from("v1," + createHmac("sha256", key).update(`${id}.${sent}.`).update(body).digest("base64"));
    for (const signature of header("webhook-signature").split(" ")) {
      const got = Buffer.from(signature);
      if (got.length === want.length && timingSafeEqual(got, want)) found = true;
    }
  }
  if (!found) throw new SignatureError("no signature matches: is the topic's secret another one?");
}

function release() {
  throw new Released();
}

function topicPath(name) {
  return `/v1/topics/${escapeId(name)}`;
}

function jobPath(topic, id) {
  const path = `${topicPath(topic)}/jobs`;
  return id === undefined ? path : `${path}/${escapeId(id)}`;
}

function groupPath(name, options = {}) {
  return `/v1/groups/${escapeId(name)}${queryOf(options)}`;
}

function schedulePath(name, action = "") {
  return `/v1/schedules/${escapeId(name)}${action}`;
}

function queryOf(options) {
  const given = Object.entries(options).filter(([, value]) => value !== undefined);
  const text = (value) => (value instanceof Date ? value.toISOString() : String(value));
  const query = new URLSearchParams(given.map(([name, value]) => [name, text(value)])).toString();
  return query && `?${query}`;
}

function escapeId(id) {
  if (id === "." || id === "..") throw new RangeError(`fetch cannot send "${id}" in a path: it resolves it`);
  return encodeURIComponent(id);
}

function headerValue(value) {
  if (/[\x00-\x1f\x7f]/.test(value)) throw new TypeError("a token, etag or key has a control character");
  return value;
}

/** The members of a push but its body, and its JSON. */
function encodePush(push) {
  const job = { ...wireOf(push), id: push.id ?? randomUUID().replaceAll("-", "") };
  return [job, withBody(job, push)];
}

function wireOf({ body, json, ...members }) {
  return members; // JSON.stringify writes a Date as RFC 3339, and leaves out what is undefined
}

/** The JSON of the members and the body. A body given as JSON is not decoded, since that could change it. */
function withBody(members, { body, json }) {
  const head = JSON.stringify(members);
  const text = json === undefined ? JSON.stringify(body ?? null) : String(json);
  if (json !== undefined) JSON.parse(text);
  return `${head.slice(0, -1)}${head === "{}" ? "" : ","}"body":${text}}`;
}

function isRepeatable(job) {
  return job.on_duplicate !== "error";
}

function isTemporary(e) {
  return e instanceof UnreachableError || e.status >= 500 || e.status === 408 || e.status === 429;
}

const units = { h: 3600, m: 60, s: 1, ms: 1e-3, us: 1e-6, "µs": 1e-6, ns: 1e-9 };

/** Seconds of a duration: 1m30s. */
function seconds(duration) {
  if (typeof duration === "number") return duration;
  return [...duration.matchAll(/([0-9.]+)([a-zµ]+)/g)].reduce((sum, [, n, unit]) => sum + n * units[unit], 0);
}

/** The server accepts reasons of up to 512 bytes. */
function cut(reason) {
  return Buffer.from(String(reason)).subarray(0, 512).toString().replace(/\uFFFD+$/, "");
}

/** Gives a job with JSON in body_base64 a body, which is decoded when it is asked for. */
function readable(job) {
  if (job.body_base64 === undefined || !/^(application\/json|[^;]*\+json)?\s*(;|$)/i.test(job.content_type)) return job;
  const body = () => {
    try {
      return JSON.parse(Buffer.from(job.body_base64, "base64").toString());
    } catch (e) {
      throw new UnreadableError(`the body of ${job.topic}/${job.id}: ${e.message}`, { cause: e });
    }
  };
  return Object.defineProperty(job, "body", { get: body, enumerable: true, configurable: true });
}

function answerOf(response, text) {
  const { status, headers } = response;
  const lines = headers.get("content-type")?.startsWith("application/x-ndjson");
  let value;
  try {
    value = JSON.parse((lines ? text.trimEnd().split("\n").pop() : text) || "{}"); // the last line has all
  } catch {} // of a proxy in between, most likely
  if (typeof value !== "object" || value === null) {
    value = { detail: `unexpected answer: ${text.replace(/\s+/g, " ").slice(0, 200)}` };
  } else if (status >= 200 && status < 300) {
    return headers.has("etag") ? { ...value, etag: headers.get("etag") } : value;
  }
  if (status >= 300 && status < 400) {
    value = { detail: `redirected to ${headers.get("location")}; use the URL of the server itself` };
  }
  const after = headers.get("retry-after");
  const retryAfter = /^[0-9]+$/.test(after) ? Number(after) : 0;
  throw apiError(status, value, { requestId: headers.get("x-request-id") ?? "", retryAfter });
}

module.exports = {
  ApiError, Buried, ChangedError, Client, ConflictError, ForbiddenError, GroupClosedError, InvalidError, LeaseOverError,
  NotFoundError, RateLimitedError, Released, SignatureError, UnauthorizedError, UnavailableError, UnreachableError,
  UnreadableError, WakecallError, verify,
};
