"""Stages what confluentinc/librdkafka#5423 describes: an EndTxn that arrives in the transaction after its own.

hold = commit_with_late_copy(proxy, producer.commit_transaction)
...  # begin the next transaction, and write half of it
answer = deliver(hold)
"""

from __future__ import annotations

import threading

from confluent_kafka import KafkaError

from kafka_direct.testing import ApiKey


def commit_with_late_copy(proxy, commit, seconds=30):
    """Run `commit`, whose EndTxn is held and its connection cut, so that it is sent again; the hold is the result.

    `commit` is called in a thread of its own; what it raises comes out here.
    """
    hold, errors = proxy.hold(ApiKey.END_TXN), []

    def run():
        try:
            commit()
        except BaseException as error:  # noqa: BLE001  raised again below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    hold.wait(seconds)
    proxy.cut()
    thread.join(seconds)
    assert not thread.is_alive(), "the commit does not end"
    if errors:
        raise errors[0]
    return hold


def deliver(hold, seconds=30):
    """Let the held EndTxn reach the broker; its answer, as an error code of Kafka's (0: it was done)."""
    hold.release()
    hold.wait_answered(seconds)
    is_flexible = hold.requests[0].api_version >= 3  # a byte of tags behind the correlation id
    start = 4 + is_flexible + 4  # and the throttle time
    return KafkaError(int.from_bytes(hold.answers[0][start : start + 2], signed=True)).name()
