"""The group: this instance joins it, learns its tasks and the cluster map from it, and leaves it.

Only tasks are decided here. Nothing is fetched, opened or closed in a rebalance, so reads and stores do not notice one.

    OUTSIDE ──── first assignment ───▶ MEMBER ──── stop ────▶ LEFT
       │                                  │                    ▲
       └───────────────── stop ───────────┼────────────────────┘
                                          └── session lost, Kafka gone: stays MEMBER with the map as it was, or as
                                              others tell it (`go_by`), and joins again by itself as soon as Kafka
                                              answers
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.errors import (
    GroupAuthorizationFailedError,
    InconsistentGroupProtocolError,
    InvalidGroupIdError,
    InvalidSessionTimeoutError,
    KafkaError,
    TopicAuthorizationFailedError,
)

from runtime.cluster.assignor import Tasks
from runtime.cluster.group_protocol import Assignment, GroupAssignor
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.cluster.members import Member, Verdict
from runtime.errors import Fix, LeaderboardError
from runtime.kafka.connection import KafkaConnection
from runtime.kafka.errors import unavailable

logger = logging.getLogger(__name__)

# A member learns of a rebalance from the answer to a heartbeat, so this is how long a planned change takes to spread.
_HEARTBEAT_MS = 500
_PROBE_EVERY_S = 2.0
# Until the group hands out partitions that the topic got, nobody answers for their rows.
_METADATA_MAX_AGE_MS = 5_000
_ANSWER_WITHIN_S = 3.0
_STOP_WITHIN_S = 5.0
_RETRY_AFTER_S = 1.0
# Copies that catch up together ask for one rebalance.
_GATHER_S = 0.2
# aiokafka's own clock for consumers that do not poll; this one never does, and has nothing to be late with.
_NEVER_MS = 2**31 - 1


@dataclass(frozen=True, slots=True)
class MembershipSettings:
    """How the instance is a member.

    Attributes:
        topic: the topic whose partitions are handed out.
        session_timeout_ms: how long the group keeps a member that is silent.
        num_standby_replicas: how many warm copies of a partition there are beside the active one.
        stream_standbys: how many other instances keep a Spark driver warm to take the stream over, while this one leads
            the group.
        fingerprint: the settings that have to be the same at every instance, as text that people can compare.
    """

    topic: str
    session_timeout_ms: int = 6000
    num_standby_replicas: int = 1
    stream_standbys: int = 1
    fingerprint: str = ""


class Membership:
    """This instance's part in the group. Everything happens in one event loop.

    Args:
        kafka: how to connect.
        application_id: the group.
        self_info: where peers reach this instance.
        copies: returns the lag in records of each partition's copy on disk, of copies that have been restored.
        has_stream: returns whether this instance runs the stream: from the moment that `on_tasks` has given it the task
            until it has given it up.
        stream_epoch: returns the epoch with which the stream came to this instance, by `Tasks.stream_epoch` or because
            the instance took it over before the group knew; 0 if it never did. Stays when the stream has left.
        has_stream_standby: returns whether this instance keeps a Spark driver warm to take the stream over.
        stream_fails: returns whether the stream has kept failing at this instance, so that another one should try.
        checkpoint: returns the identity of the checkpoint, empty while it is not known; members have to agree on it.
        on_tasks: takes each new assignment, outside of the rebalance; may be called again with the same.
        settings: how to be one.

    All callables but `on_tasks` are called in a rebalance, so they only look something up.
    """

    def __init__(
        self,
        kafka: KafkaConnection,
        application_id: str,
        self_info: HostInfo,
        *,
        copies: Callable[[], Mapping[int, int]],
        has_stream: Callable[[], bool],
        stream_epoch: Callable[[], int],
        has_stream_standby: Callable[[], bool],
        stream_fails: Callable[[], bool],
        checkpoint: Callable[[], str],
        on_tasks: Callable[[Tasks, ClusterMap], None],
        settings: MembershipSettings,
    ) -> None:
        self._kafka = kafka
        self._application_id = application_id
        self._self_info = self_info
        self._copies = copies
        self._has_stream = has_stream
        self._stream_epoch = stream_epoch
        self._has_stream_standby = has_stream_standby
        self._stream_fails = stream_fails
        self._checkpoint = checkpoint
        self._on_tasks = on_tasks
        self._settings = settings
        self._tasks: Tasks | None = None
        self._cluster = ClusterMap((), 0)
        self._verdict = Verdict()
        self._trouble: LeaderboardError | None = None
        self._trouble_since_s = 0.0
        self._left = asyncio.Event()
        self._joined = asyncio.Event()
        self._rebalance_wanted = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Begin to join and return at once; a Kafka that does not answer is tried again until `stop`."""
        self._task = asyncio.create_task(self._run(), name="membership")

    async def stop(self) -> None:
        """Leave the group at once, so that the others take over without waiting for the session to end."""
        self._left.set()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=_STOP_WITHIN_S)
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    def request_rebalance(self) -> None:
        """Ask for a new assignment: what this member says of itself has changed.

        Returns at once. All tasks and the map stay as they are until the new ones have come.
        """
        self._rebalance_wanted.set()

    def current(self) -> ClusterMap:
        """Return the map of the last assignment; without hosts before the first."""
        return self._cluster

    def tasks(self) -> Tasks | None:
        """Return the tasks of the last assignment, None before the first."""
        return self._tasks

    def reason(self) -> str | None:
        """Return why this instance is not ready as a member, None when it is.

        A Kafka that is away is no reason once there are tasks: this instance, or another one, can still answer.
        """
        if self._left.is_set():
            return f"it has left the group {self._application_id}"
        if self._tasks is None or isinstance(self._trouble, Fix):
            return f"not a member of the group {self._application_id} yet" + (
                f": {self._trouble}" if self._trouble else ""
            )
        return self._verdict.reason

    def warning(self) -> str | None:
        """Return what people should know about this instance although it is ready."""
        return str(self._trouble) if self._trouble else self._verdict.warning

    def is_away(self) -> bool:
        """Return whether Kafka does not answer this member, so that the group may have gone on without it."""
        return self._tasks is not None and self._trouble is not None

    def go_by(self, cluster: ClusterMap) -> None:
        """Take the map of others, who say that the group has gone on without this member, until the next assignment."""
        self._cluster = cluster

    # The group's life

    async def _run(self) -> None:
        while not self._left.is_set():
            consumer = self._new_consumer()
            try:
                # Is not cut short: aiokafka would lose the connection that it is making.
                await consumer.start()
                self._join(consumer)
                await self._stay(consumer)
            except (KafkaError, OSError) as error:
                self._in_trouble(await self._translated(error))
            except Exception as error:
                # Whoever is outside and does not know it goes on with tasks that the group has given to others.
                logger.exception("group %s: membership failed", self._application_id)
                self._in_trouble(await self._translated(error))
            finally:
                await self._leave(consumer)
            with suppress(TimeoutError):
                async with asyncio.timeout(_RETRY_AFTER_S):
                    await self._left.wait()

    async def _stay(self, consumer: AIOKafkaConsumer) -> None:
        """Return when it is time to leave.

        Raises:
            KafkaError: aiokafka cannot go on with this consumer.
        """
        tasks = [
            asyncio.create_task(step)
            for step in (self._heed(consumer), self._watch(consumer), self._rejoin(consumer), self._left.wait())
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _new_consumer(self) -> AIOKafkaConsumer:
        assignor = GroupAssignor(
            self._settings.topic,
            num_standby_replicas=self._settings.num_standby_replicas,
            stream_standbys=self._settings.stream_standbys,
            describe=self._describe,
            accept=self._accept,
        )
        session_timeout_ms = self._settings.session_timeout_ms
        return AIOKafkaConsumer(
            **self._kafka.for_aiokafka(),
            client_id=f"{self._application_id}-{self._self_info}",
            group_id=self._application_id,
            partition_assignment_strategy=(assignor,),
            session_timeout_ms=session_timeout_ms,
            heartbeat_interval_ms=min(_HEARTBEAT_MS, session_timeout_ms // 3),
            # A join is answered when every member has joined, or after a session timeout.
            request_timeout_ms=session_timeout_ms + 5000,
            max_poll_interval_ms=_NEVER_MS,
            enable_auto_commit=False,
            metadata_max_age_ms=_METADATA_MAX_AGE_MS,
        )

    def _join(self, consumer: AIOKafkaConsumer) -> None:
        """Join, or join again under the same member id: nobody leaves, and the others are asked to join again too."""
        self._joined.clear()
        consumer.subscribe([self._settings.topic], listener=_Joined(self._joined))

    async def _heed(self, consumer: AIOKafkaConsumer) -> None:
        """Wait for a record. None ever comes, but what aiokafka cannot go on after is raised here and nowhere else."""
        while True:
            await consumer.getone()

    async def _watch(self, consumer: AIOKafkaConsumer) -> None:
        """Notice that Kafka is away and back again; aiokafka tries again by itself and tells nobody."""
        partition = TopicPartition(self._settings.topic, 0)
        while True:
            try:
                async with asyncio.timeout(_ANSWER_WITHIN_S):
                    await consumer.end_offsets([partition])
            except (KafkaError, TimeoutError) as error:
                self._in_trouble(await unavailable(self._kafka, error))
            else:
                # Otherwise Kafka may answer and yet not take this member; an assignment is what ends that.
                if self._joined.is_set():
                    self._out_of_trouble()
            await asyncio.sleep(_PROBE_EVERY_S)

    async def _rejoin(self, consumer: AIOKafkaConsumer) -> None:
        while True:
            await self._rebalance_wanted.wait()
            await asyncio.sleep(_GATHER_S)
            # In the middle of a join, aiokafka would forget the member id that the broker is just about to give it, and
            # the whole group would wait for that member until its session ends.
            await self._joined.wait()
            self._rebalance_wanted.clear()
            self._join(consumer)

    async def _leave(self, consumer: AIOKafkaConsumer) -> None:
        try:
            async with asyncio.timeout(_STOP_WITHIN_S):
                await consumer.stop()
        except (KafkaError, OSError) as error:
            logger.warning("group %s: could not leave it, so it waits out the session: %r", self._application_id, error)
        except Exception:
            # What is wrong with this consumer is no reason not to join by another one.
            logger.exception("group %s: leaving it failed, so it waits out the session", self._application_id)

    # Inside a rebalance: nothing here may be slow

    def _describe(self) -> Member:
        tasks = self._tasks or Tasks()
        return Member(
            id="",
            info=self._self_info,
            copies=self._copies(),
            active=tasks.active,
            standby=tasks.standby,
            warm_up=tasks.warm_up,
            has_stream=self._claims_stream(),
            # Also one that it took by itself and has given up, so that no number comes twice.
            stream_epoch=max(self._cluster.stream_epoch, self._stream_epoch()),
            stream_standby=self._has_stream_standby(),
            stream_place=tasks.stream_standby,
            stream_fails=self._stream_fails(),
            generation=self._cluster.generation,
            checkpoint=self._checkpoint(),
            settings=self._settings.fingerprint,
        )

    def _claims_stream(self) -> bool:
        """Return whether to say that the stream runs here.

        Not while one only ends that the group has given to another member: with that one's epoch it would get it back.
        """
        elsewhere = self._cluster.stream_holder not in (None, self._self_info)
        taken_over_since = self._stream_epoch() > self._cluster.stream_epoch
        return self._has_stream() and (taken_over_since or not elsewhere)

    def _accept(self, answer: Assignment) -> None:
        self._out_of_trouble()
        if answer.verdict != self._verdict:
            self._report(answer.verdict)
        tasks = answer.tasks
        self._tasks, self._verdict, self._cluster = tasks, answer.verdict, answer.cluster
        logger.info(
            "group %s, generation %d: active %s, standby %s, warm-up %s%s",
            self._application_id,
            answer.cluster.generation,
            sorted(tasks.active),
            sorted(tasks.standby),
            sorted(tasks.warm_up),
            ", the stream" if tasks.stream else ", stream standby" if tasks.stream_standby else "",
        )
        asyncio.get_running_loop().call_soon(self._on_tasks, tasks, answer.cluster)

    # Trouble: one line when it begins and one when it ends

    def _report(self, verdict: Verdict) -> None:
        if verdict.reason:
            logger.error("group %s: not ready: %s", self._application_id, verdict.reason)
        if verdict.warning:
            logger.warning("group %s: %s", self._application_id, verdict.warning)
        if verdict == Verdict():
            logger.info("group %s: agrees with the others again", self._application_id)

    def _in_trouble(self, trouble: LeaderboardError) -> None:
        if self._trouble is None:
            self._trouble_since_s = time.monotonic()
        if type(trouble) is not type(self._trouble):
            logger.warning("group %s: %s; tasks and map stay as they are", self._application_id, trouble)
        self._trouble = trouble

    def _out_of_trouble(self) -> None:
        if self._trouble is not None:
            away_s = time.monotonic() - self._trouble_since_s
            logger.info("group %s: a member again after %.1f s", self._application_id, away_s)
            self._trouble = None

    async def _translated(self, error: BaseException) -> LeaderboardError:
        """Return what the caller can do about an error of aiokafka."""
        match error:
            case GroupAuthorizationFailedError() | TopicAuthorizationFailedError():
                return Fix(f"Kafka does not let this user be in the group {self._application_id}: {error}")
            case InvalidSessionTimeoutError():
                return Fix(
                    f"Kafka does not take a session timeout of {self._settings.session_timeout_ms} ms: choose one that"
                    " the broker's group.min.session.timeout.ms and group.max.session.timeout.ms allow"
                )
            case InconsistentGroupProtocolError():
                return Fix(f"another program is in the group {self._application_id}: choose another application id")
            case InvalidGroupIdError():
                return Fix(f"Kafka does not take {self._application_id!r} as a group: choose another application id")
            case _:
                return await unavailable(self._kafka, error, f"is no use now: {error}")


class _Joined(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka has no types
    """Keeps an event set except while a join is under way."""

    def __init__(self, joined: asyncio.Event) -> None:
        self._joined = joined

    def on_partitions_revoked(self, _: Iterable[TopicPartition]) -> None:
        self._joined.clear()

    def on_partitions_assigned(self, _: Iterable[TopicPartition]) -> None:
        self._joined.set()
