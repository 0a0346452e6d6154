"""Runs commands of clients_test.go with the Python client: a JSON object a line in, its outcome a line out.

driver.py work TOPIC works a pull topic until SIGTERM; a job's body says what its handler does. With
WAKECALL_VARIANT=asyncio it uses AsyncClient.
"""

import asyncio
import datetime
import inspect
import json
import os
import signal
import sys
import threading
import time

import wakecall

ASYNC = os.environ.get("WAKECALL_VARIANT") == "asyncio"
loop = asyncio.new_event_loop() if ASYNC else None
clients = {}


def client(options):
    key = json.dumps(options)
    if key not in clients:
        url, token = options.pop("url"), options.pop("token")
        kind = wakecall.AsyncClient if ASYNC else wakecall.Client
        clients[key] = kind(url, token, **options)
    return clients[key]


def value(result):
    """Return what a call returns, with asyncio or without."""
    if inspect.isawaitable(result):
        return loop.run_until_complete(result)
    if inspect.isasyncgen(result):
        return loop.run_until_complete(collect(result))
    return list(result) if inspect.isgenerator(result) else result


async def collect(generator):
    return [one async for one in generator]


def instant(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def run(c):
    op, k = c["op"], client(c["client"])
    if op == "push":
        push = c["push"]
        if "due" in c:
            push["due_at"] = instant(c["due"])
        return k.push(c["topic"], **push)
    if op == "push_batch":
        return [outcome(r) if isinstance(r, Exception) else r for r in value(k.push_batch(c["pushes"]))]
    if op == "change":
        return k.change(c["topic"], c["id"], etag=c.get("etag"), **c["push"])
    if op == "delete":
        return k.delete(c["topic"], c["id"], etag=c.get("etag"))
    if op in ("get", "run"):
        return getattr(k, op)(c["topic"], c["id"])
    if op == "jobs":
        return k.jobs(c["topic"], c["state"], **c.get("filter", {}))
    if op in ("retry_dead", "delete_dead"):
        return getattr(k, op)(c["topic"], **c["how"])
    if op == "search":
        return k.search(c["id"], topic=c["topic"])
    if op == "topics":
        return k.topics(prefix=c["prefix"], state=c["state"], owner=c["owner"])
    if op == "topic":
        return k.topic(c["name"])
    if op == "put_topic":
        return k.put_topic(c["name"], c["settings"], reason=c.get("reason"), etag=c.get("etag"))
    if op == "patch_topic":
        return k.patch_topic(c["name"], c["patch"], etag=c.get("etag"))
    if op in ("pause_topic", "pause_schedule"):
        until = instant(c["until"]) if "until" in c else datetime.timedelta(seconds=c["for"]) if "for" in c else None
        return getattr(k, op)(c["name"], until=until, **({"reason": c["reason"]} if "reason" in c else {}))
    if op == "resume_topic":
        return k.resume_topic(c["name"])
    if op == "delete_topic":
        return k.delete_topic(c["name"], drop=c.get("drop"))
    if op == "group":
        return k.group(c["name"], limit=c.get("limit"))
    if op == "cancel_group":
        return k.cancel_group(c["name"], close=c.get("close"))
    if op == "move_group":
        move = c["move"]
        if "due" in c:
            move["due_at"] = instant(c["due"])
        return k.move_group(c["name"], idempotency_key=c.get("key"), **move)
    if op == "start_task":
        return k.start_task(idempotency_key=c.get("key"), **c["task"])
    if op in ("task", "cancel_task"):
        return getattr(k, op)(c["name"])
    if op == "tasks":
        return k.tasks(limit=c.get("limit"))
    if op == "schedules":
        return k.schedules(topic=c["topic"])
    if op == "put_schedule":
        return k.put_schedule(c["name"], **c["schedule"])
    if op == "resume_schedule":
        return k.resume_schedule(c["name"], catch_up=c["catch_up"])
    if op == "backfill_schedule":
        period = [instant(c[end]) for end in ("from", "to")]
        return k.backfill_schedule(c["name"], *period, overlap=c.get("overlap"), dry_run=c["dry_run"])
    if op.endswith("schedule"):
        return getattr(k, op)(c["name"])
    if op == "reserve":
        return k.reserve([c["topic"]], max=c["max"], wait=c["wait"], ttr=c.get("ttr"), order=c.get("order"))
    if op == "cancelled_reserve":
        return cancelled(k.reserve(c["topic"], wait=20))
    if op == "drain":
        return drain(k, c["topic"])
    if op == "verify":
        return wakecall.verify(c["secrets"], c["headers"], c["body"].encode())
    return getattr(k, op)(c["lease"], *c["args"])


async def cancelled(call):
    try:
        await asyncio.wait_for(call, 0.5)
    except asyncio.TimeoutError:
        return
    raise AssertionError("it was not cancelled")


def drain(k, topic):
    ids = {"read": [], "unreadable": []}
    for job in value(k.reserve(topic, max=100)):
        try:
            job["body"]
        except wakecall.UnreadableError:
            ids["unreadable"].append(job["id"])
            value(k.release(job["lease"], 3600))
        else:
            ids["read"].append(job["id"])
            value(k.ack(job["lease"]))
    return ids


def outcome(e):
    names = ("status", "code", "title", "detail", "field", "request_id", "outcome_unknown", "id")
    return {"error": {"kind": type(e).__name__, "text": str(e), **{n: getattr(e, n) for n in names if hasattr(e, n)}}}


def handle(job):
    print(json.dumps({"id": job["id"], "attempt": job["attempt"]}), flush=True)
    do = job["body"]
    if do == "fail":
        raise RuntimeError("it failed: ü" + "ü" * 400)
    if do == "release":
        raise wakecall.Released("1h")
    if do == "bury":
        raise wakecall.Buried("never")
    if do == "slow":
        time.sleep(2.5)
    if do == "hang":
        time.sleep(600)


async def async_handle(job):
    if job["body"] in ("slow", "hang"):
        print(json.dumps({"id": job["id"], "attempt": job["attempt"]}), flush=True)
        await asyncio.sleep(2.5 if job["body"] == "slow" else 600)
    else:
        handle(job)


async def async_work(topic):
    stop = asyncio.Event()
    running = asyncio.get_running_loop()
    running.add_signal_handler(signal.SIGTERM, lambda: (print("stopping", flush=True), stop.set()))
    async with wakecall.AsyncClient(os.environ["WAKECALL_URL"], os.environ["WAKECALL_TOKEN"]) as k:
        await k.work(topic, async_handle, stop=stop, wait=1, failed=lambda e: print(repr(e), file=sys.stderr))


if sys.argv[1:2] == ["work"] and ASYNC:
    asyncio.run(async_work(sys.argv[2]))
    sys.exit()
if sys.argv[1:2] == ["work"]:
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: (print("stopping", flush=True), stop.set()))
    url, token = os.environ["WAKECALL_URL"], os.environ["WAKECALL_TOKEN"]
    wakecall.Client(url, token).work(
        [sys.argv[2]], handle, stop=stop, wait=1, failed=lambda e: print(repr(e), file=sys.stderr)
    )
    sys.exit()
for line in sys.stdin:
    try:
        answer = {"value": value(run(json.loads(line)))}
    except Exception as e:
        answer = outcome(e)
    print(json.dumps(answer), flush=True)
