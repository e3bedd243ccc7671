"""What all functions of the application share: the client of the SDK, and the log."""

import asyncio
import contextvars
import json
import logging
import os
import time
import typing

import inngest

client = inngest.Inngest(
    app_id=os.environ.get("APP_ID", "acceptance"), logger=logging.getLogger("app")
)

# All functions of the application, in the order of their definition.
functions: list[inngest.Function[typing.Any]] = []

# Values that the rig sets while the application runs: `released` has the keys of held steps.
knobs: dict[str, typing.Any] = {"released": [], "revision": 1}

# Number of the call in progress, which the rig's proxy has given it.
call_number = contextvars.ContextVar("call_number", default=None)

_file = os.open(os.environ["LOG"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)


def log(**line):
    """Appends a line to the log in one write, so that `kill -9` loses nothing."""
    line = {"at": int(time.time() * 1000), "call": call_number.get(), **line}
    os.write(_file, (json.dumps(line) + "\n").encode())


class Work:
    """Steps whose executions are in the log, with their begin and end."""

    def __init__(self, fn, ctx):
        self._fn, self._ctx = fn, ctx

    async def __call__(self, step, body):
        ctx, line = self._ctx, {"fn": self._fn, "run": self._ctx.run_id, "step": step}
        line["attempt"] = ctx.attempt

        async def logged():
            log(what="begin", **line)
            try:
                result = body()
                if asyncio.iscoroutine(result):
                    result = await result
            except Exception as error:
                log(what="fail", **line, message=str(error))
                raise
            log(what="end", **line)
            return result

        return await ctx.step.run(step, logged)


def define(fn_id, trigger=None, **options):
    """Defines a function; its usual trigger is the event of its name."""
    trigger = trigger or inngest.TriggerEvent(event=f"t/{fn_id}")

    def decorator(handler):
        @client.create_function(fn_id=fn_id, trigger=trigger, **options)
        async def logged(ctx: inngest.Context):
            log(what="body", fn=fn_id, run=ctx.run_id, attempt=ctx.attempt, data=dict(ctx.event.data))
            return await handler(ctx, Work(fn_id, ctx))

        functions.append(logged)
        return logged

    return decorator


_counts: dict[tuple[str, str], int] = {}


def times(run, name):
    """Number of earlier calls with this name in this run, in this process."""
    count = _counts.get((run, name), -1) + 1
    _counts[(run, name)] = count
    return count


async def released(key):
    """Waits until the rig releases the key; at once if there is none."""
    while key and key not in knobs["released"]:
        await asyncio.sleep(0.01)
