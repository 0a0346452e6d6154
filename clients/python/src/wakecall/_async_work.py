"""AsyncClient.work"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING, Any, Awaitable, Callable, Iterable, List, NoReturn, Optional, Union

from ._errors import ApiError, Released, UnreachableError, UnreadableError, WakecallError, is_temporary
from ._types import Duration, LeasedJob
from ._wire import given, seconds
from ._work import Ending, ending

if TYPE_CHECKING:
    from ._async_client import AsyncClient


async def work(
    client: AsyncClient,
    topics: Union[str, Iterable[str]],
    handle: Callable[[LeasedJob], Awaitable[Any]],
    stop: Optional[asyncio.Event],
    wait: Duration,
    ttr: Optional[Duration],
    failed: Optional[Callable[[WakecallError], Any]],
) -> None:
    names = topics if isinstance(topics, str) else list(topics)
    stop, failed, pause = stop or asyncio.Event(), failed or (lambda _: None), 0.0
    while not stop.is_set():
        began = time.monotonic()
        jobs: List[LeasedJob] = []
        try:
            jobs = await client.reserve(names, wait=wait, ttr=ttr)
            early = not jobs and time.monotonic() - began < 0.5  # a server that is stopping lets no worker wait
        except (ApiError, UnreachableError) as e:
            if not is_temporary(e):
                raise
            failed(e)
            early = True
        for job in jobs:
            await _work_on(client, job, _release if stop.is_set() else handle, ttr, failed)
        pause = min(max(2 * pause, 0.1), 5) if early else 0
        try:
            await asyncio.wait_for(stop.wait(), pause * random.uniform(0.5, 1))
        except asyncio.TimeoutError:
            pass


async def _release(_: LeasedJob) -> NoReturn:
    raise Released


async def _work_on(
    client: AsyncClient,
    job: LeasedJob,
    handle: Callable[[LeasedJob], Awaitable[Any]],
    ttr: Optional[Duration],
    failed: Callable[[WakecallError], Any],
) -> None:
    extending = asyncio.ensure_future(_extend(client, job, ttr, failed))
    try:
        end = ending(None, await handle(job))
    except asyncio.CancelledError:
        await asyncio.shield(_end(client, job, ("release", {}), failed))
        raise
    except Exception as e:
        if isinstance(e, UnreadableError):
            failed(e)
        end = ending(e, None)
    finally:
        extending.cancel()
    await asyncio.shield(_end(client, job, end, failed))


async def _end(client: AsyncClient, job: LeasedJob, end: Ending, failed: Callable[[WakecallError], Any]) -> None:
    try:
        await client._end(job["lease"], *end, retry_for=max(seconds(job["ttr"]), 10))
    except WakecallError as e:
        failed(e)


async def _extend(
    client: AsyncClient, job: LeasedJob, ttr: Optional[Duration], failed: Callable[[WakecallError], Any]
) -> None:
    while True:
        await asyncio.sleep(seconds(job["ttr"]) / 3)
        try:
            await client._end(job["lease"], "extend", given(ttr=ttr), retry_for=0)
        except WakecallError as e:
            failed(e)
            if not is_temporary(e):  # the lease is lost: another worker may have the job
                return
