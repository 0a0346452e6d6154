"""Client.work"""

from __future__ import annotations

import json
import random
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Dict, Iterable, List, NoReturn, Optional, Tuple, Union

from ._errors import ApiError, Buried, Released, UnreachableError, UnreadableError, WakecallError, is_temporary
from ._types import Duration, LeasedJob
from ._wire import cut, given, seconds

if TYPE_CHECKING:
    from ._client import Client

Ending = Tuple[str, Dict[str, Any]]


def ending(error: Optional[Exception], result: Any) -> Ending:
    """Return how the lease of a job ends whose handler raised error, or returned result."""
    if error is None:
        json.dumps(result)  # another value fails the attempt
        return "ack", {} if result is None else {"result": result}
    if isinstance(error, Released):
        return "release", given(delay=error.delay)
    if isinstance(error, UnreadableError):
        return "release", {"delay": 60}
    if isinstance(error, Buried):
        return "bury", {"reason": cut(error)}
    return "fail", {"reason": cut(str(error) or repr(error))}


def work(
    client: Client,
    topics: Union[str, Iterable[str]],
    handle: Callable[[LeasedJob], Any],
    stop: Optional[threading.Event],
    wait: Duration,
    ttr: Optional[Duration],
    failed: Optional[Callable[[WakecallError], Any]],
) -> None:
    names = topics if isinstance(topics, str) else list(topics)
    stop, failed, pause = stop or threading.Event(), failed or (lambda _: None), 0.0
    while not stop.is_set():
        began = time.monotonic()
        jobs: List[LeasedJob] = []
        try:
            jobs = client.reserve(names, wait=wait, ttr=ttr)
            early = not jobs and time.monotonic() - began < 0.5  # a server that is stopping lets no worker wait
        except (ApiError, UnreachableError) as e:
            if not is_temporary(e):
                raise
            failed(e)
            early = True
        for job in jobs:
            _work_on(client, job, _release if stop.is_set() else handle, ttr, failed)
        pause = min(max(2 * pause, 0.1), 5) if early else 0
        stop.wait(pause * random.uniform(0.5, 1))


def _release(_: LeasedJob) -> NoReturn:
    raise Released


def _work_on(
    client: Client,
    job: LeasedJob,
    handle: Callable[[LeasedJob], Any],
    ttr: Optional[Duration],
    failed: Callable[[WakecallError], Any],
) -> None:
    done = threading.Event()
    extending = threading.Thread(target=_extend, args=(client, job, ttr, done, failed), daemon=True)
    extending.start()
    end: Ending = ("release", {})  # if the process ends in the middle
    try:
        end = ending(None, handle(job))
    except Exception as e:
        if isinstance(e, UnreadableError):
            failed(e)
        end = ending(e, None)
    finally:
        done.set()
        extending.join()
        try:
            client._end(job["lease"], *end, retry_for=max(seconds(job["ttr"]), 10))
        except WakecallError as e:
            failed(e)


def _extend(
    client: Client,
    job: LeasedJob,
    ttr: Optional[Duration],
    done: threading.Event,
    failed: Callable[[WakecallError], Any],
) -> None:
    while not done.wait(seconds(job["ttr"]) / 3):
        try:
            client._end(job["lease"], "extend", given(ttr=ttr), retry_for=0)
        except WakecallError as e:
            failed(e)
            if not is_temporary(e):  # the lease is lost: another worker may have the job
                return
