"""Steps: values, order, repeated ids, large memos."""

import asyncio

import inngest

from context import client, define, log, released


@define("plain")
async def plain(ctx, work):
    return {"echo": ctx.event.data}


async def _two_steps(ctx, work):
    first = await work("first", lambda: 2 + ctx.event.data.get("add", 0))
    second = await work("second", lambda: first * 10)
    return {"first": first, "second": second}


define("two-steps")(_two_steps)
define("two-steps-plain")(_two_steps)


@define("void-step")
async def void_step(ctx, work):
    nothing = await work("nothing", lambda: None)
    after = await work("after", lambda: "done")
    return {"nothing": nothing, "after": after}


@define("loop")
async def loop(ctx, work):
    return [await work("item", lambda: i) for i in range(3)]


@define("held")
async def held(ctx, work):
    async def hold():
        await released(ctx.event.data.get("hold"))
        return 2

    before = await work("before", lambda: 1)
    middle = await work("held", hold)
    return before + middle + await work("after", lambda: 3)


@define("many")
async def many(ctx, work):
    """A function of as many steps as the event says, each of as many bytes."""
    length = 0
    for i in range(ctx.event.data["steps"]):
        text = await work(f"part-{i}", lambda: str(i).ljust(ctx.event.data["bytes"], "x"))
        length += len(text)
    return {"length": length}


TRICKY = {
    "floats": [0.1, 1e21, 1e-7, -1.5, 5e-324, 1.7976931348623157e308, 100],
    "integers": [9007199254740991, -9007199254740991, 0],
    "clé 鍵 🔑": {"ö": "ü", "\u0001": "\u2028", "z": None, "a": [None, {"b": None}]},
    "empty": [{}, [], "", None],
}


@define("values")
async def values(ctx, work):
    tricky = await work("tricky", lambda: TRICKY)
    return await work("echo", lambda: {"data": ctx.event.data, "tricky": tricky})


@define("sender")
async def sender(ctx, work):
    key = ctx.event.data["key"]
    events = [inngest.Event(name="t/sent", data={"n": n, "of": key}) for n in (1, 2)]
    ids = await ctx.step.send_event("send", events)
    await work("after", lambda: len(ids))
    await ctx.step.sleep("nap", 1000)
    return {"sent": len(ids)}


@define("receiver", inngest.TriggerEvent(event="t/sent"))
async def receiver(ctx, work):
    return ctx.event.data


async def send(events):
    """Sends by the client, outside of steps, as a web handler does."""
    fields = ("id", "name", "data", "ts", "user", "v")
    ids = await client.send(
        [inngest.Event(**{k: e[k] for k in fields if k in e}) for e in events]
    )
    log(what="sent", ids=ids)
    return ids


@define("slow")
async def slow(ctx, work):
    await work("slow", lambda: asyncio.sleep(ctx.event.data["ms"] / 1000))
    return "slow"
