"""Parallel steps."""

import datetime

import inngest

from context import define, released, times


async def _three(ctx, work):
    numbers = await ctx.group.parallel(
        tuple(lambda n=n: work(f"part-{n}", lambda: n) for n in (1, 2, 3))
    )
    return await work("sum", lambda: sum(numbers))


define("three")(_three)
define("three-plain")(_three)


async def _chain(work, name):
    first = await work(f"{name}-1", lambda: 1)
    return await work(f"{name}-2", lambda: first + 1)


@define("chains")
async def chains(ctx, work):
    a, b = await ctx.group.parallel((lambda: _chain(work, "a"), lambda: _chain(work, "b")))
    return {"a": a, "b": b}


@define("mixed")
async def mixed(ctx, work):
    match = "event.data.id == async.data.id"
    _, answer, quick = await ctx.group.parallel(
        (
            lambda: ctx.step.sleep("nap", 4000),
            lambda: ctx.step.wait_for_event("answer", event="t/answer", if_exp=match, timeout=60_000),
            lambda: work("quick", lambda: "quick"),
        )
    )
    return {"answer": answer and answer.data["say"], "quick": quick}


@define("one-fails")
async def one_fails(ctx, work):
    def bad():
        if times(ctx.run_id, "bad") < 1:
            raise inngest.RetryAfterError("once", datetime.timedelta(seconds=1))
        return "bad"

    async def long():
        await released(ctx.event.data.get("hold"))
        return "long"

    return await ctx.group.parallel(
        (
            lambda: work("good", lambda: "good"),
            lambda: work("bad", bad),
            lambda: work("long", long),
        )
    )


@define("held-two")
async def held_two(ctx, work):
    def side(name):
        async def body():
            await released(ctx.event.data.get(name))
            return name

        return lambda: work(name, body)

    values = await ctx.group.parallel((side("left"), side("right")))
    return await work("join", lambda: "+".join(values))


@define("storm", retries=20)
async def storm(ctx, work):
    """A run of the storms: every kind of step, with a child."""
    n = ctx.event.data["n"]
    first = await work("first", lambda: n)
    await ctx.step.sleep("nap", 500)
    parts = await ctx.group.parallel(
        tuple(lambda i=i: work(f"part-{i}", lambda: first + i) for i in (1, 2, 3))
    )
    answer = await ctx.step.wait_for_event(
        "answer",
        event="t/storm-answer",
        if_exp="event.data.n == async.data.n",
        timeout=datetime.timedelta(minutes=10),
    )
    child = await ctx.step.invoke_by_id("child", function_id="storm-child", data={"n": n})
    return await work("last", lambda: sum(parts) + child + answer.data["plus"])


@define("storm-child", retries=20)
async def storm_child(ctx, work):
    return await work("double", lambda: ctx.event.data["n"] * 2)
