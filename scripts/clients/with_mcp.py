"""The official client of the Model Context Protocol: lists the tools, and calls them."""

import asyncio
import os
import urllib.request

import httpx2
from mcp.client.client import Client
from mcp.client.streamable_http import streamable_http_client

URL = os.environ["TIDEGATE_URL"] + "/mcp"
KEY = os.environ["TIDEGATE_API_KEY"]
READ_ONLY_KEY = os.environ["TIDEGATE_READ_ONLY_KEY"]


def say(what):
    print(f"  mcp: {what}")


def gate(word):
    address = f"{os.environ['SERVICE_URL']}/gate/{word}"
    urllib.request.urlopen(urllib.request.Request(address, method="POST", data=b"")).read()


def client(key, mode="auto"):
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {key}"}, timeout=60)
    return Client(streamable_http_client(URL, http_client=http), mode=mode)


async def lists_and_calls(mode):
    async with client(KEY, mode) as it:
        tools = {tool.name: tool for tool in (await it.list_tools()).tools}
        assert sorted(tools) == ["support_draft", "support_echo"], tools
        assert tools["support_echo"].description == "Says again what it is told."
        result = await it.call_tool("support_echo", {"text": "hello"})
        assert not result.is_error, result
        assert result.structured_content == {"echo": {"text": "hello"}, "user": "clients"}, result
        result = await it.call_tool("support_echo", {"text": 7})
        assert result.is_error and result.structured_content["error"] == "bad_input", result
        say(f"mode {mode}: lists {len(tools)} tools, calls one, and is told of a bad input")


async def sees_progress_and_meets_itself():
    async with client(KEY) as it:
        seen, running = [], asyncio.Event()

        async def progress(done, _total, message):
            seen.append((done, message))
            if message.startswith("running"):
                running.set()

        gate("shut")
        try:
            call = asyncio.create_task(it.call_tool("support_draft", {}, progress_callback=progress))
            await asyncio.wait_for(running.wait(), 60)
            busy = await it.call_tool("support_echo", {"text": "meanwhile"})
            assert busy.is_error and busy.structured_content["error"] == "busy", busy
        finally:
            gate("open")
        result = await call
        assert result.content[0].text == "whole", result
        assert [done for done, _ in seen] == sorted({done for done, _ in seen}), seen
        assert [message for _, message in seen][-2:] == ['"one"', '"two"'], seen
        assert busy.structured_content["requestId"] == result.meta["tidegate/requestId"], busy
        say(f"sees {len(seen)} messages of progress, and is told who is in the way")


async def only_looks():
    async with client(READ_ONLY_KEY) as it:
        assert (await it.list_tools()).tools
        try:
            result = await it.call_tool("support_echo", {"text": "no"})
        except Exception as error:  # the client's own error for a 403
            say(f"may look with a read-only key, and not call ({type(error).__name__})")
        else:
            raise AssertionError(f"a read-only key has called a tool: {result}")


async def main():
    for mode in ["auto", "legacy"]:
        await lists_and_calls(mode)
    await sees_progress_and_meets_itself()
    await only_looks()


asyncio.run(main())
