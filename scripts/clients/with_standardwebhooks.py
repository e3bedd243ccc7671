"""The library of Standard Webhooks signs deliveries."""

import os
from datetime import datetime, timedelta, timezone

from lib.delivery import changed, refused, taken_once
from standardwebhooks import Webhook


def signer(secret, delivery):
    def sign(body, ago=0):
        at = datetime.now(timezone.utc) - timedelta(seconds=ago)
        signature = Webhook(secret).sign(delivery, at, body.decode())
        return {
            "webhook-id": delivery,
            "webhook-timestamp": str(int(at.timestamp())),
            "webhook-signature": signature,
        }

    return sign


for n, secret in enumerate(os.environ["STANDARD_SECRETS"].split(",")):
    sign = signer(secret, f"msg_{n}")
    body = b'{"type": "invoice.paid", "data": {"id": "in_%d", "name": "gr\xc3\xbcn"}}' % n
    taken_once("standard", sign, body)
    headers = sign(body)
    for header in ["webhook-id", "webhook-timestamp"]:
        for value in changed(headers[header].encode()):
            refused("standard", {**headers, header: value.decode()}, body)
