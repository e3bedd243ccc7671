"""Waiting: sleeps, events, called functions."""

import datetime

import inngest

from context import define

MATCH = "event.data.id == async.data.id"


@define("sleeps")
async def sleeps(ctx, work):
    await ctx.step.sleep("delta", datetime.timedelta(seconds=1))
    await work("between", lambda: 1)
    await ctx.step.sleep("number", 1000)
    now = datetime.datetime.now
    wait = datetime.timedelta(seconds=1.5)
    until = await work("until", lambda: (now(datetime.timezone.utc) + wait).isoformat())
    await ctx.step.sleep_until("date", datetime.datetime.fromisoformat(until))
    return {"until": until}


def milliseconds(text):
    return int(text[:-1]) * {"s": 1000, "m": 60_000, "h": 3_600_000}[text[-1]]


@define("nap")
async def nap(ctx, work):
    await ctx.step.sleep("nap", milliseconds(ctx.event.data["time"]))
    return "rested"


@define("waits")
async def waits(ctx, work):
    answer = await ctx.step.wait_for_event(
        "answer",
        event="t/answer",
        if_exp=MATCH,
        timeout=milliseconds(ctx.event.data["timeout"]),
    )
    return {"answer": answer and answer.model_dump()}


@define("caller", retries=0)
async def caller(ctx, work):
    data = ctx.event.data
    timeout = data.get("timeout")
    try:
        value = await ctx.step.invoke_by_id(
            "call",
            function_id=data["target"],
            data=data.get("data", {}),
            timeout=milliseconds(timeout) if timeout else None,
        )
        await work("after", lambda: 1)
        return {"value": value}
    except inngest.StepError as error:
        return {"error": {"name": error.name, "message": error.message}}


@define("callee")
async def callee(ctx, work):
    return await work("double", lambda: {"doubled": ctx.event.data["n"] * 2})


@define("callee-fails", retries=0)
async def callee_fails(ctx, work):
    raise inngest.NonRetriableError("callee is broken")


async def _sleeps_long(ctx, work):
    await ctx.step.sleep("long", datetime.timedelta(hours=1))


define("callee-sleeps")(_sleeps_long)
define("callee-single", singleton=inngest.Singleton(key="event.data.key", mode="skip"))(_sleeps_long)


@define(
    "callee-limited",
    rate_limit=inngest.RateLimit(limit=1, period=datetime.timedelta(hours=1), key="event.data.key"),
)
async def callee_limited(ctx, work):
    return "limited"
