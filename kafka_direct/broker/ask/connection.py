"""`Connection`: the driver's connection to Kafka, and how long it asks for an answer."""

from __future__ import annotations

import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from kafka_direct.broker.deadline import Deadline, ask_again
from kafka_direct.broker.diagnosis import diagnose
from kafka_direct.broker.failure import build_client, is_passing, servers_of, translate
from kafka_direct.errors import BrokerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from kafka_direct.options import ClientParams

    T = TypeVar("T")
    Question = Callable[[AdminClient, float], T]

# A client that never had an answer has most likely a wrong address; one that had an answer is seeing a restart.
FIRST_ANSWER_SECONDS = 20.0
LATER_ANSWER_SECONDS = 60.0
# A question to a leader that has died waits for it to come back. After this time it is asked again, of the next leader.
ATTEMPT_SECONDS = 5.0
FIRST_ATTEMPT_SECONDS = 2.0  # of a client that has had no answer: what is wrong with its login is known by then
MIN_ATTEMPT_SECONDS = 0.1  # the last attempt before a deadline must be able to succeed


class Connection:
    """Made at the first question, and kept until `close`."""

    def __init__(self, params: ClientParams) -> None:
        self.servers = servers_of(params)
        self._params = params
        self._admin: AdminClient | None = None
        self._files = params.state_of_files()
        self._events = _ClientEvents()
        self._answered = False
        self._stopped = threading.Event()
        self._is_closed = False

    def stop(self) -> None:
        """Ask no question a second time from now on, so that nobody waits for brokers that are away."""
        self._stopped.set()

    def close(self) -> None:
        """Release the client: it would try for ever to reach brokers that are gone, and use a core for that."""
        self._is_closed = True
        self._admin = None

    def deadline(self) -> Deadline:
        """For one question, which may consist of several requests."""
        return Deadline(LATER_ANSWER_SECONDS if self._answered else FIRST_ANSWER_SECONDS)

    def ask(self, question: Question[T], asking: str, deadline: Deadline | None = None) -> T:
        """The answer to a question, which is asked again while its error may pass.

        `question` is given the client, and the seconds that one request may take.
        """
        deadline = self.deadline() if deadline is None else deadline
        self._client().poll(0)
        try:
            attempt = partial(self._attempt, question, deadline)
            answer = ask_again(attempt, deadline, wait=self._stopped.wait, may_pass=self._may_pass)
        except KafkaException as failure:
            raise translate(failure.args[0], asking, self._params, self._events.complaint) from None
        self._client().poll(0)
        self._answered = True
        return answer

    def list_topics(self, deadline: Deadline | None = None) -> dict[str, Any]:
        """The metadata of all topics, by name."""
        return self.ask(lambda admin, seconds: admin.list_topics(timeout=seconds).topics, "listing topics", deadline)

    def _attempt(self, question: Question[T], deadline: Deadline) -> T:
        admin = self._client()
        longest = ATTEMPT_SECONDS if self._answered else FIRST_ATTEMPT_SECONDS
        seconds = min(max(deadline.left(), MIN_ATTEMPT_SECONDS), longest)
        try:
            if not self._events.knows_brokers:
                # Have the client learn who leads now: it would wait for a dead controller for minutes, and busily.
                admin.list_topics(timeout=seconds)
                self._events.knows_brokers = True
            return question(admin, seconds)
        except KafkaException:
            self._events.knows_brokers = False
            admin.poll(0)  # lets the client's own complaint arrive
            if self._files != self._params.state_of_files():
                self._admin = None  # a new client reads the certificates that are there now
            raise

    def _may_pass(self, error: KafkaError) -> bool:
        """A client that has never had an answer, and whose login is wrong, will not have one."""
        if not is_passing(error) or self._answered:
            return is_passing(error)
        found = diagnose(self._params, self._events.complaint)
        return found is None or not found.is_final

    def _client(self) -> AdminClient:
        if self._is_closed:
            raise BrokerUnavailable(f"the connection to Kafka at {self.servers} is closed.", servers=self.servers)
        if self._admin is None:
            self._files = self._params.state_of_files()
            self._admin = build_client(AdminClient, self._params.for_admin(), error_cb=self._events)
        return self._admin


class _ClientEvents:
    """A client's `error_cb`: its last complaint, and whether it still knows the brokers.

    An object of its own: if it were a method of `Connection`, both would live until Python looks for cycles, and the
    client would go on trying to reach brokers that are gone.
    """

    def __init__(self) -> None:
        self.complaint = ""
        self.knows_brokers = True  # until one of them goes away

    def __call__(self, error: KafkaError) -> None:
        self.knows_brokers = False
        if error.code() != KafkaError._ALL_BROKERS_DOWN:  # noqa: SLF001  underscored by name
            self.complaint = error.str()
