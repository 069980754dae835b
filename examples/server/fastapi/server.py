"""Runs one job at a time, for all callers and all servers.

pip install -r requirements.txt && uvicorn server:app, then: curl -X POST localhost:8000/job
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import redlock
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

WORK = 0.9

redis = redlock.Redlock(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379"))


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Waits for requests in progress, which release their locks."""
    async with redis.as_async():
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(redlock.LockTimeout)
async def running(request: Request, error: redlock.LockTimeout) -> PlainTextResponse:
    """Responds immediately with 409 if the job is already running on this or another server. Other errors are a 500."""
    return PlainTextResponse("running already\n", 409)


@app.post("/job")
async def job() -> PlainTextResponse:
    async with redis.lock("job", ttl=1, wait=0):
        await asyncio.sleep(WORK)
    return PlainTextResponse("done\n")


@app.post("/report")
def report() -> PlainTextResponse:
    """The same in a thread, because FastAPI runs a plain function in one."""
    with redis.lock("report", ttl=1, wait=0):
        time.sleep(WORK)
    return PlainTextResponse("done\n")
