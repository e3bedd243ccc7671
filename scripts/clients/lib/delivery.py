"""Deliveries to a webhook, as another program makes them."""

import json
import os
import urllib.error
import urllib.request

# Beyond the maximum age of a delivery, five minutes.
TOO_OLD = 301


def send(name, headers, body):
    """Posts a body, byte for byte, to a webhook of the flow `hooks`; returns status and answer."""
    address = f"{os.environ['TIDEGATE_URL']}/webhooks/hooks/{name}"
    headers = {"content-type": "application/json", **headers}
    request = urllib.request.Request(address, method="POST", data=body, headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def refused(name, headers, body):
    status, told = send(name, headers, body)
    assert (status, told["error"]) == (401, "bad_signature"), (headers, body, status, told)


def changed(data):
    """Yields all variants of some bytes with one byte changed."""
    for place in range(len(data)):
        yield data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


def taken_once(name, sign, body):
    """Checks that a signed delivery is accepted once, and a changed or outdated one is refused.

    `sign` makes the headers for a body that was signed the given number of seconds ago.
    """
    headers = sign(body)
    status, first = send(name, headers, body)
    assert status == 202 and first["requestId"], (status, first)
    for again in [headers, sign(body, 60)]:
        told = send(name, again, body)
        assert told == (200, {"status": "deduped", "requestId": first["requestId"]}), told
    bodies = list(changed(body))
    for other in bodies:
        refused(name, headers, other)
    for ago in [TOO_OLD + 60, -TOO_OLD - 60]:
        refused(name, sign(body, ago), body)
    refused(name, {}, body)
    print(f"  {name}: takes a delivery once, and none of {len(bodies)} with another byte")
