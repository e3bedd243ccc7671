"""Acceptance application on the Python SDK: every feature that the SDK has, in small functions.

    LOG=FILE [PORT=0] [APP_ID=acceptance] python app.py

Prints its port. The log has one JSON line for each function body and each execution of a step.
The rig controls the application at /rig and lets it send events at /send.
"""

import os
import socket

import fastapi
import inngest.fast_api
import uvicorn

import controls  # noqa: F401  defines functions
import errors  # noqa: F401
import parallel  # noqa: F401
import waiting  # noqa: F401
from context import call_number, client, functions, knobs
from steps import send

app = fastapi.FastAPI()
inngest.fast_api.serve(app, client, functions)


class NumberedCalls:
    """Middleware that keeps the number of the call for the log."""

    def __init__(self, inner):
        self.inner = inner

    async def __call__(self, scope, receive, send):
        number = dict(scope.get("headers", [])).get(b"x-rig-call")
        call_number.set(int(number) if number else None)
        await self.inner(scope, receive, send)


app.add_middleware(NumberedCalls)


@app.post("/rig")
async def rig(request: fastapi.Request):
    knobs.update(await request.json())
    return knobs


@app.post("/send")
async def send_events(request: fastapi.Request):
    try:
        return {"ids": await send(await request.json())}
    except Exception as error:
        return fastapi.responses.JSONResponse({"error": str(error)}, status_code=500)


if __name__ == "__main__":
    listener = socket.create_server(("127.0.0.1", int(os.environ.get("PORT", "0"))))
    print(f"listening on {listener.getsockname()[1]}", flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_keep_alive=60)
    uvicorn.Server(config).run(sockets=[listener])
