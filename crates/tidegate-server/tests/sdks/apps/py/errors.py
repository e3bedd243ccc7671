"""Errors: in steps and outside, retried and final, caught and not."""

import datetime

import inngest

from context import define, knobs, log, times

SECOND = datetime.timedelta(seconds=1)


def _raise(error):
    raise error


def _named(error):
    name = error.name if isinstance(error, inngest.StepError) else type(error).__name__
    return {"name": name, "message": str(error)}


@define("flaky")
async def flaky(ctx, work):
    await work("before", lambda: 1)

    def body():
        if times(ctx.run_id, "flaky") < 2:
            raise inngest.RetryAfterError("not yet", SECOND)
        return "third"

    return await work("flaky", body)


@define("attempts")
async def attempts(ctx, work):
    for step in ("first", "second"):

        def body():
            if times(ctx.run_id, step) < 1:
                raise inngest.RetryAfterError("once", SECOND)

        await work(step, body)
    return await work("third", lambda: "done")


@define("always", retries=1)
async def always(ctx, work):
    caught = None
    try:
        await work("always", lambda: _raise(ValueError("never works")))
    except inngest.StepError as error:
        caught = _named(error)
    after = await work("after", lambda: "went on")
    return {"caught": caught, "after": after}


async def _on_failure(ctx: inngest.Context):
    data = ctx.event.data
    error = data["error"]
    log(
        what="failure",
        run=data["run_id"],
        fn=data["function_id"],
        error={"name": error["name"], "message": error["message"]},
        data=data["event"]["data"],
    )


@define("uncaught", retries=0, on_failure=_on_failure)
async def uncaught(ctx, work):
    await work("fails", lambda: _raise(ValueError("nobody catches this")))


@define("fatal-step")
async def fatal_step(ctx, work):
    try:
        return await work("fatal", lambda: _raise(inngest.NonRetriableError("give up")))
    except inngest.StepError as error:
        return {"caught": _named(error)}


def _after(mode):
    wait = datetime.timedelta(seconds=2)
    return datetime.datetime.now(datetime.timezone.utc) + wait if mode == "date" else wait


@define("retry-after-step")
async def retry_after_step(ctx, work):
    def body():
        if times(ctx.run_id, "later") < 1:
            raise inngest.RetryAfterError("later", _after(ctx.event.data["mode"]))
        return "later"

    return await work("later", body)


@define("retry-after-body")
async def retry_after_body(ctx, work):
    if times(ctx.run_id, "later") < 1:
        raise inngest.RetryAfterError("later", _after(ctx.event.data["mode"]))
    return "later"


@define("body-error")
async def body_error(ctx, work):
    first = await work("first", lambda: 1)
    if times(ctx.run_id, "body") < 1:
        raise inngest.RetryAfterError("outside of steps", SECOND)
    second = await work("second", lambda: first + 1)
    return {"second": second}


@define("fatal-body")
async def fatal_body(ctx, work):
    await work("first", lambda: 1)
    raise inngest.NonRetriableError("final")


class Declined(Exception):
    pass


@define("described", retries=0)
async def described(ctx, work):
    def body():
        raise Declined("card declined") from TypeError("no funds")

    try:
        return await work("declines", body)
    except inngest.StepError as error:
        return {**_named(error), "stack": error.stack}


@define("changed", retries=1)
async def changed(ctx, work):
    """With `revision` 2 the code has other steps in its group than at revision 1."""

    def step(name):
        def body():
            if name == "goes" and times(ctx.run_id, name) < 1:
                raise inngest.RetryAfterError("once", 3 * SECOND)
            return name

        return lambda: work(name, body)

    names = ["stays", "goes"] if knobs["revision"] == 1 else ["stays"]
    return await ctx.group.parallel(tuple(step(name) for name in names))
