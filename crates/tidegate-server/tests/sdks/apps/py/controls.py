"""Controls: each function has one, and logs when its work begins and ends."""

import asyncio
import datetime
import os

import inngest

from context import define, released
from waiting import milliseconds

SECOND = datetime.timedelta(seconds=1)
MINUTE, HOUR = 60 * SECOND, 3600 * SECOND


def _work(seconds):
    async def body(ctx, work):
        async def step():
            await released(ctx.event.data.get("hold"))
            await asyncio.sleep(seconds)

        await work("work", step)
        return ctx.event.data.get("n")

    return body


async def _number(ctx, work):
    return ctx.event.data.get("n")


@define("batched", batch_events=inngest.Batch(max_size=3, timeout=2 * SECOND, key="event.data.key"))
async def batched(ctx, work):
    return [event.data["n"] for event in ctx.events]


define(
    "debounced",
    debounce=inngest.Debounce(period=SECOND, key="event.data.key", timeout=3 * SECOND),
)(_number)
define("limited", rate_limit=inngest.RateLimit(limit=10, period=MINUTE, key="event.data.key"))(
    _number
)
define("once", idempotency="event.data.key")(_number)

SWITCHED = "event.data.on ? event.data.key : false"
define("single-skip", singleton=inngest.Singleton(key=SWITCHED, mode="skip"))(_work(0))


@define("single-cancel", singleton=inngest.Singleton(key=SWITCHED, mode="cancel"))
async def single_cancel(ctx, work):
    await ctx.step.sleep("nap", milliseconds(ctx.event.data["time"]))
    return ctx.event.data["n"]


define("exclusive", concurrency=[inngest.Concurrency(limit=1, key="event.data.accountId")])(
    _work(0.05)
)
define("pair", concurrency=[inngest.Concurrency(limit=2, key="event.data.key")])(_work(0.05))
define("throttled", throttle=inngest.Throttle(limit=1, period=SECOND, burst=0, key="event.data.key"))(
    _work(0)
)
define(
    "ranked",
    concurrency=[inngest.Concurrency(limit=1, key="event.data.key")],
    priority=inngest.Priority(run="event.data.urgent ? 120 : 0"),
)(_work(0))


@define(
    "cancellable",
    cancel=[inngest.Cancel(event="t/cancel", if_exp="event.data.id == async.data.id")],
)
async def cancellable(ctx, work):
    await ctx.step.sleep("long", milliseconds(ctx.event.data["time"]))
    return "not cancelled"


define(
    "slow-start",
    concurrency=[inngest.Concurrency(limit=1, key="event.data.key")],
    timeouts=inngest.Timeouts(start=SECOND),
)(_work(0))


@define("slow-finish", timeouts=inngest.Timeouts(finish=SECOND))
async def slow_finish(ctx, work):
    await ctx.step.sleep("long", HOUR)


define(
    "wild",
    [inngest.TriggerEvent(event="t/wild/*"), inngest.TriggerEvent(event="t/wild/both")],
)(_number)
define(
    "filtered",
    inngest.TriggerEvent(event="t/filtered", expression='event.data.n > 5 && event.data.kind == "x"'),
)(_number)


@define("cron", inngest.TriggerCron(cron="TZ=Europe/Paris * * * * *"))
async def cron(ctx, work):
    return "ticked"


@define(
    "everything",
    retries=7,
    concurrency=[
        inngest.Concurrency(limit=4, key="event.data.account.id"),
        inngest.Concurrency(limit=9, scope="env", key='"shared"'),
    ],
    throttle=inngest.Throttle(limit=3, period=MINUTE, burst=2, key="event.data.key"),
    rate_limit=inngest.RateLimit(limit=100, period=HOUR, key="event.data.key"),
    priority=inngest.Priority(run="event.data.rank * 10"),
    timeouts=inngest.Timeouts(start=10 * MINUTE, finish=2 * HOUR),
    cancel=[
        inngest.Cancel(event="t/cancel", if_exp="event.data.id == async.data.id", timeout=HOUR)
    ],
)
async def everything(ctx, work):
    """Every control that may stand beside the others, for a comparison of the definitions."""
    return "everything"


# A control that no server accepts, for the test of refusals.
if os.environ.get("REFUSED"):
    define("refused", concurrency=[inngest.Concurrency(limit=1, key="event.data.(")])(_number)
