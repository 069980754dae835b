"""A service under uvicorn with both kinds of endpoints."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import redlock
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse
from hold_periods import client, hold_period, lock


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    yield
    await client.as_async().shutdown(5)


app = FastAPI(lifespan=lifespan)


@app.exception_handler(redlock.LockError)
async def refused(request: Request, error: redlock.LockError) -> JSONResponse:
    return JSONResponse({"code": error.code}, status_code=409)


@app.post("/async/{name}")
async def work(name: str) -> None:
    async with lock(name) as lease:
        for pause in hold_period(name, lease):
            await asyncio.sleep(pause)


@app.post("/sync/{name}")
def work_on_a_thread(name: str) -> None:
    with lock(name) as lease:
        for pause in hold_period(name, lease):
            time.sleep(pause)
