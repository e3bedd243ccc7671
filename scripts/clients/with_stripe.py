"""Stripe's library signs deliveries."""

import os
import time

from lib.delivery import taken_once
from stripe import WebhookSignature


def signer(secret):
    def sign(body, ago=0):
        at = int(time.time()) - ago
        header = WebhookSignature.generate_signature_header(body.decode(), secret, at)
        return {"stripe-signature": header}

    return sign


for n, secret in enumerate(os.environ["STRIPE_SECRETS"].split(",")):
    body = b'{"id": "evt_%d", "object": "event", "type": "invoice.paid"}' % n
    taken_once("stripe", signer(secret), body)
