"""Runs commands of clients_test.go with the Python client: a JSON object a line in, its outcome a line out.

driver.py work TOPIC works a pull topic until SIGTERM; a job's body says what its handler does.
"""

import datetime
import json
import os
import signal
import sys
import threading
import time

import wakecall

clients = {}


def client(options):
    key = json.dumps(options)
    if key not in clients:
        url, token = options.pop("url"), options.pop("token")
        clients[key] = wakecall.Client(url, token, **options)
    return clients[key]


def run(c):
    op, k = c["op"], client(c["client"])
    if op == "push":
        push = c["push"]
        if "due" in c:
            push["due_at"] = datetime.datetime.fromisoformat(c["due"].replace("Z", "+00:00"))
        return k.push(c["topic"], **push)
    if op == "push_batch":
        return [outcome(r) if isinstance(r, Exception) else r for r in k.push_batch(c["pushes"])]
    if op == "change":
        return k.change(c["topic"], c["id"], etag=c.get("etag"), **c["push"])
    if op == "delete":
        return k.delete(c["topic"], c["id"], etag=c.get("etag"))
    if op in ("get", "run"):
        return getattr(k, op)(c["topic"], c["id"])
    if op == "group":
        return k.group(c["name"], limit=c.get("limit"))
    if op == "cancel_group":
        return k.cancel_group(c["name"], close=c.get("close"))
    if op == "move_group":
        move = c["move"]
        if "due" in c:
            move["due_at"] = datetime.datetime.fromisoformat(c["due"].replace("Z", "+00:00"))
        return k.move_group(c["name"], key=c.get("key"), **move)
    if op == "start_task":
        return k.start_task(key=c.get("key"), **c["task"])
    if op in ("task", "cancel_task"):
        return getattr(k, op)(c["name"])
    if op == "tasks":
        return k.tasks(limit=c.get("limit"))
    if op == "schedules":
        return list(k.schedules(topic=c["topic"]))
    if op == "put_schedule":
        return k.put_schedule(c["name"], **c["schedule"])
    if op == "pause_schedule":
        until = datetime.datetime.fromisoformat(c["until"].replace("Z", "+00:00")) if "until" in c else None
        return k.pause_schedule(c["name"], until=until)
    if op == "resume_schedule":
        return k.resume_schedule(c["name"], catch_up=c["catch_up"])
    if op == "backfill_schedule":
        period = [datetime.datetime.fromisoformat(c[end].replace("Z", "+00:00")) for end in ("from", "to")]
        return k.backfill_schedule(c["name"], *period, overlap=c.get("overlap"), dry_run=c["dry_run"])
    if op.endswith("schedule"):
        return getattr(k, op)(c["name"])
    if op == "reserve":
        return k.reserve([c["topic"]], max=c["max"], wait=c["wait"], ttr=c.get("ttr"))
    if op == "drain":
        return drain(k, c["topic"])
    if op == "verify":
        return wakecall.verify(c["secrets"], c["headers"], c["body"].encode())
    return getattr(k, op)(c["lease"], *c["args"])


def drain(k, topic):
    ids = {"read": [], "unreadable": []}
    for job in k.reserve(topic, max=100):
        try:
            job["body"]
        except wakecall.UnreadableError:
            ids["unreadable"].append(job["id"])
            k.release(job["lease"], 3600)
        else:
            ids["read"].append(job["id"])
            k.ack(job["lease"])
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
        answer = {"value": run(json.loads(line))}
    except Exception as e:
        answer = outcome(e)
    print(json.dumps(answer), flush=True)
