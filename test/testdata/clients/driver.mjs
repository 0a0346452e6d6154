// Runs commands of clients_test.go with the client for Node: a JSON object a line in, its outcome a line out.
// driver.mjs work TOPIC works a pull topic until SIGTERM; a job's body says what its handler does.

import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { Buried, Client, Released, UnreadableError, verify } from "wakecall";

const clients = {};

function client({ url, token, timeout, retry_for }) {
  const key = JSON.stringify([url, token, timeout, retry_for]);
  return (clients[key] ??= new Client({ url, token, timeout, retryFor: retry_for }));
}

async function run(c) {
  const k = client(c.client);
  switch (c.op) {
    case "push": return k.push(c.topic, c.due ? { ...c.push, due_at: new Date(c.due) } : c.push);
    case "push_batch": return (await k.pushBatch(c.pushes)).map((r) => (r instanceof Error ? outcome(r) : r));
    case "change": return k.change(c.topic, c.id, { ...c.push, etag: c.etag });
    case "delete": return k.delete(c.topic, c.id, { etag: c.etag });
    case "get":
    case "run": return k[c.op](c.topic, c.id);
    case "jobs": return all(k.jobs(c.topic, c.state, c.filter));
    case "retry_dead": return k.retryDead(c.topic, { ...c.how, dryRun: c.how.dry_run });
    case "delete_dead": return k.deleteDead(c.topic, { ...c.how, dryRun: c.how.dry_run });
    case "search": return k.search(c.id, { topic: c.topic });
    case "topics": return all(k.topics({ prefix: c.prefix, state: c.state, owner: c.owner }));
    case "topic": return k.topic(c.name);
    case "put_topic": return k.putTopic(c.name, c.settings, { reason: c.reason, etag: c.etag });
    case "patch_topic": return k.patchTopic(c.name, c.patch, { etag: c.etag });
    case "pause_topic": return k.pauseTopic(c.name, { reason: c.reason, until: until(c) });
    case "resume_topic": return k.resumeTopic(c.name);
    case "delete_topic": return k.deleteTopic(c.name, { drop: c.drop });
    case "group": return k.group(c.name, { limit: c.limit });
    case "cancel_group": return k.cancelGroup(c.name, { close: c.close });
    case "move_group":
      return k.moveGroup(c.name, { ...c.move, due_at: c.due && new Date(c.due), idempotencyKey: c.key });
    case "start_task": return k.startTask({ ...c.task, idempotencyKey: c.key });
    case "task": return k.task(c.name);
    case "tasks": return k.tasks({ limit: c.limit });
    case "cancel_task": return k.cancelTask(c.name);
    case "schedules": return all(k.schedules({ topic: c.topic }));
    case "schedule": return k.schedule(c.name);
    case "put_schedule": return k.putSchedule(c.name, c.schedule);
    case "delete_schedule": return k.deleteSchedule(c.name);
    case "pause_schedule": return k.pauseSchedule(c.name, { until: until(c) });
    case "resume_schedule": return k.resumeSchedule(c.name, { catchUp: c.catch_up });
    case "run_schedule": return k.runSchedule(c.name);
    case "backfill_schedule": return k.backfillSchedule(c.name, {
      from: new Date(c.from), to: new Date(c.to), overlap: c.overlap, dryRun: c.dry_run,
    });
    case "reserve": return k.reserve([c.topic], { max: c.max, wait: c.wait, ttr: c.ttr, order: c.order });
    case "cancelled_reserve": return cancelledReserve(k, c.topic);
    case "drain": return drain(k, c.topic);
    case "verify": return verify(c.secrets, c.headers, Buffer.from(c.body));
    default: return k[c.op](c.lease, ...c.args);
  }
}

function until(c) {
  return c.for ? `${c.for}s` : c.until && new Date(c.until);
}

async function all(items) {
  const list = [];
  for await (const item of items) list.push(item);
  return list;
}

async function cancelledReserve(k, topic) {
  const signal = AbortSignal.timeout(500);
  const error = await k.reserve(topic, { wait: 20, signal }).catch((e) => e);
  if (error !== signal.reason) throw new Error(`it was not cancelled: ${error}`);
}

async function drain(k, topic) {
  const ids = { read: [], unreadable: [] };
  for (const job of await k.reserve(topic, { max: 100 })) {
    try {
      if (job.body === undefined) throw new Error(`${job.id} has no body`);
      ids.read.push(job.id);
      await k.ack(job.lease);
    } catch (e) {
      if (!(e instanceof UnreadableError)) throw e;
      ids.unreadable.push(job.id);
      await k.release(job.lease, 3600);
    }
  }
  return ids;
}

function outcome(e) {
  const { status, code, title, detail, field, requestId: request_id, outcomeUnknown: outcome_unknown, id } = e;
  return { error: { kind: e.name, text: e.message, status, code, title, detail, field, request_id, outcome_unknown, id } };
}

async function handle(job) {
  console.log(JSON.stringify({ id: job.id, attempt: job.attempt }));
  switch (job.body) {
    case "fail": throw new Error("it failed: ü" + "ü".repeat(400));
    case "release": throw new Released("1h");
    case "bury": throw new Buried("never");
    case "slow": return sleep(2500);
    case "hang": return sleep(600_000);
  }
}

if (process.argv[2] === "work") {
  const stop = new AbortController();
  process.on("SIGTERM", () => {
    console.log("stopping");
    stop.abort();
  });
  const k = client({ url: process.env.WAKECALL_URL, token: process.env.WAKECALL_TOKEN });
  await k.work([process.argv[3]], handle, { signal: stop.signal, wait: 1, failed: console.error });
  process.exit();
}
for await (const line of createInterface({ input: process.stdin })) {
  const answer = await run(JSON.parse(line)).then((value) => ({ value: value ?? null }), outcome);
  console.log(JSON.stringify(answer));
}
