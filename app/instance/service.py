"""One instance of the service: its parts put together, their order of start and stop, and signals.

Start, so that state on disk is served within moments and Spark is the last to matter:
    1. the stores are opened, the view and the materializer answer from them;
    2. the HTTP server listens;
    3. the service's own topics are created, the group is joined;
    4. whatever tasks the group hands out are taken up: partitions, and perhaps the stream.
"""

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Iterable
from typing import TYPE_CHECKING

import uvloop
from runtime.serving.queries import Queries
from topology.leaderboard.records import SPARE_FACTOR

from api.cluster.self_check import SelfCheck
from api.components import Components, Stopping
from api.http.parameters import default_limit
from api.main import create_app
from app.instance.checkpoint_identity import CheckpointWatch
from app.instance.measures import InstanceMeasures
from app.instance.stream_task import StreamTask
from app.java.jars import ensure_jars
from app.server.http_server import HttpServer
from app.settings import Settings
from app.signals import stop_signal
from runtime.cluster.assignor import ACCEPTABLE_LAG_RECORDS, Tasks
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.cluster.membership import Membership, MembershipSettings
from runtime.copies.materializer import Materializer
from runtime.copies.producer import BoardProducer
from runtime.copies.status import CopyStatus
from runtime.errors import LeaderboardError, StateUnusable
from runtime.kafka.inspected import Judged
from runtime.kafka.topics import create_missing
from runtime.serving.rendered_view import RenderedView
from runtime.stores.directory import StateDirectory
from runtime.stores.global_table import GlobalTable, TableChanges
from topology.leaderboard.topics import OUTPUTS

if TYPE_CHECKING:
    from runtime.stream.status import StreamStatus
    from runtime.stream.thread import StreamThread

logger = logging.getLogger(__name__)

_HANDS_OVER_WITHIN_S = 0.0005
"""How long another thread may go on computing when the event loop has something to do; Python's own choice is ten
times as long, and a read would wait for it."""
_RETRY_S = 1.0
_LOOK_EVERY_S = 0.2
_DROP_AFTER_S = 600.0
"""How long a copy without a task is kept: a partition that comes back finds it warm."""


class Service:
    """One instance, wired.

    Args:
        settings: how it runs.

    Raises:
        SetupError: the address cannot be listened on.
        StateUnusable: the state directory cannot be used.
        CheckpointUnusable: the checkpoint's directory cannot be used.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._host = HostInfo.parse(settings.advertised)
        # First: by default the checkpoint is inside of it, and would take the blame.
        self._stores = StateDirectory(settings.state_dir, settings.application_id)
        self._checkpoint = CheckpointWatch(settings.checkpoint_uri)
        self._stopping = False
        self._join_trouble = ""
        self._unheld_since: dict[int, float] = {}
        self._asked_for: ClusterMap | None = None
        self._stream_failed = False
        opened = self._stores.opened
        self._view = RenderedView(
            opened("leader-boards"),
            opened("players"),
            opened("products"),
            default_limit(settings.depth),
            settings.depth,
        )
        self._producer = BoardProducer(settings.kafka)
        self.materializer = Materializer(
            settings.kafka,
            self._stores,
            self._view,
            places=settings.depth * SPARE_FACTOR,
            republish=self._producer.publish,
        )
        self._queries = Queries(self._view, self.materializer)
        self._stream = StreamTask(self._make_stream_thread)
        self._membership = Membership(
            settings.kafka,
            settings.application_id,
            self._host,
            copies=self._restored_copies,
            has_stream=lambda: self._stream.held,
            stream_fails=self._stream.fails,
            checkpoint=lambda: self._checkpoint.identity,
            on_tasks=self._on_tasks,
            settings=MembershipSettings(
                session_timeout_ms=settings.session_timeout_ms,
                num_standby_replicas=settings.num_standby_replicas,
                fingerprint=f"DEPTH={settings.depth}, NUM_STANDBY_REPLICAS={settings.num_standby_replicas}",
            ),
        )
        self._measures = InstanceMeasures(
            settings.kafka, self.materializer, self._view, stream=lambda: self._stream.status
        )
        self._goodbye = Stopping()
        components = Components(
            queries=self._queries,
            cluster=self._membership.current,
            host=self._host,
            depth=settings.depth,
            ready=self.not_ready,
            measures=self._measures.now,
            tokens=settings.tokens,
            sharing=settings.sharing,
            stopping=self._goodbye,
        )
        self._self_check = SelfCheck(components)
        self._server = HttpServer(create_app(components), settings.host, settings.port)
        self._background: list[asyncio.Task[None]] = []

    @property
    def stream_status(self) -> "StreamStatus | None":
        """What the stream thread says of itself; None while another instance runs the stream."""
        return self._stream.status

    def not_ready(self) -> str | None:
        """Return why the instance should get no traffic, or None."""
        if self._stopping:
            return "it is stopping"
        reason = (
            self._join_trouble
            or self._membership.reason()
            or self.materializer.state_trouble
            or self._self_check.reason
        )
        if reason is not None:
            return reason
        tasks = self._membership.tasks() or Tasks()
        behind = (p for p in sorted(tasks.active) if not self._is_caught_up(p))
        return next((self._queries.status(p).reason or f"partition {p} is behind" for p in behind), None)

    async def start(self) -> None:
        """Start everything; what needs Kafka goes on trying in the background."""
        await self.materializer.start()
        await self._server.start()
        loop = asyncio.get_running_loop()
        self._checkpoint.start(lambda: loop.call_soon_threadsafe(self._membership.request_rebalance))
        self._background = [
            asyncio.create_task(self._view.keep_warm(), name="view"),
            asyncio.create_task(self._join(), name="join"),
            asyncio.create_task(self._look_after_tasks(), name="tasks"),
            asyncio.create_task(self._self_check.run(), name="self-check"),
            asyncio.create_task(self._measures.run(), name="measures"),
        ]
        for task in self._background:
            task.add_done_callback(_log_error)
        _leave_to_stay()
        logger.info("listening on %s:%d as %s", self._settings.host, self._settings.port, self._host)

    async def stop(self) -> None:
        """Stop everything, so that nobody who reads notices.

        1. Not ready: a load balancer sends nothing new.
        2. The stream, before another instance is given it.
        3. Out of the group: the others take over at once, not when the session times out.
        4. The HTTP server: live updates are ended, their clients find another instance; what is in flight is finished.
        5. The stores, when nothing reads or fills them any more.
        6. A JVM that was just starting, which nobody has waited for until now.
        """
        self._stopping = True
        self._checkpoint.stop()
        await self._stream.stop()
        await self._membership.stop()
        self._goodbye.begin()
        await self._server.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self.materializer.stop()
        await self._producer.close()
        self._stores.close()
        await self._stream.end()
        logger.info("stopped")

    # Tasks

    async def _join(self) -> None:
        """Create the service's own topics, then join the group, which hands out the partitions of one of them."""
        while True:
            try:
                await create_missing(self._settings.kafka, OUTPUTS)
            except LeaderboardError as error:
                # Also what Kafka refuses: rights and quotas are mended while this process runs.
                if str(error) != self._join_trouble:
                    self._join_trouble = str(error)
                    logger.warning("waiting for Kafka: %s", error)
                await asyncio.sleep(_RETRY_S)
            else:
                self._join_trouble = ""
                return await self._membership.start()

    def _on_tasks(self, tasks: Tasks, _: ClusterMap) -> None:
        self._queries.set_active(tasks.active)
        # With another DEPTH than the others, it would publish what it has cut.
        self.materializer.set_active(tasks.active if self._membership.reason() is None else ())
        self.materializer.assign(tasks.copies)
        self._stream.set(tasks.stream and not self._stopping)

    async def _look_after_tasks(self) -> None:
        """Tell the group when a warm-up copy has caught up or the stream fails; drop copies without a task for long."""
        while True:
            await asyncio.sleep(_LOOK_EVERY_S)
            self._tell_if_stream_fails()
            tasks, cluster = self._membership.tasks(), self._membership.current()
            if tasks is None:
                continue
            if cluster is not self._asked_for and any(self._is_caught_up(p) for p in tasks.warm_up):
                self._asked_for = cluster
                self._membership.request_rebalance()
            self._drop_unheld(tasks.copies, time.monotonic())

    def _tell_if_stream_fails(self) -> None:
        """Ask for another assignment when the stream begins to keep failing here, and when it is worth a try again."""
        fails = self._stream.fails()
        if fails != self._stream_failed:
            self._stream_failed = fails
            if fails:
                logger.warning("the stream keeps failing here: another instance may take it over")
            self._membership.request_rebalance()

    def _drop_unheld(self, wanted: Iterable[int], now_s: float) -> None:
        unheld = self.materializer.held.keys() - set(wanted)
        self._unheld_since = {p: self._unheld_since.get(p, now_s) for p in unheld}
        for partition, since in self._unheld_since.items():
            if now_s - since > _DROP_AFTER_S:
                logger.info(
                    "dropping the copy of partition %d: it has had no task for %.0f s", partition, now_s - since
                )
                try:
                    self.materializer.drop(partition)
                except StateUnusable as error:
                    logger.warning("the copy of partition %d was not deleted: %s", partition, error)

    def _is_caught_up(self, partition: int) -> bool:
        status = self.materializer.copy_status(partition)
        return status.can_answer and _lag_to_go_by(status) <= ACCEPTABLE_LAG_RECORDS

    def _restored_copies(self) -> dict[int, int]:
        return {p: _lag_to_go_by(status) for p, status in self.materializer.held.items() if status.can_answer}

    def _make_stream_thread(self) -> "StreamThread":
        # Late, and in a thread: PySpark takes most of a second to load, and boards are served meanwhile.
        from app.java.spark_class_data import spark_class_data
        from runtime.spark.session import SparkSettings
        from runtime.stream.thread import StreamSettings, StreamThread

        _leave_to_stay()
        settings = self._settings
        state_dir = settings.state_dir.absolute() / settings.application_id
        jars = ensure_jars()
        spark = SparkSettings(
            kafka=settings.kafka,
            jars=jars.spark,
            work_dir=state_dir / "spark",
            log_file=state_dir / "spark.log",
            master=settings.spark_master,
            driver_memory=settings.driver_memory,
            conf=settings.further_spark_conf,
            driver_flags=tuple(spark_class_data(jars).flags()),
        )
        stream = StreamSettings(
            spark=spark,
            application_id=settings.application_id,
            checkpoint_uri=settings.checkpoint_uri,
            depth=settings.depth,
            checkpoint_interval_s=settings.checkpoint_interval_s,
            tables_refresh_s=settings.tables_refresh_s,
        )
        tables = _LocalTables(self.materializer, self._stores)
        return StreamThread(stream, tables, self.materializer.freshness)


class _LocalTables:
    """The global tables of this instance, for the stream thread."""

    def __init__(self, materializer: Materializer, stores: StateDirectory) -> None:
        self._materializer = materializer
        self._stores = stores

    def caught_up(self) -> bool:
        return self._materializer.tables_caught_up

    def player_ids(self) -> Iterable[int]:
        return GlobalTable(dict(self._stores.opened("players"))).ids()

    def product_ids(self) -> Iterable[int]:
        return GlobalTable(dict(self._stores.opened("products"))).ids()

    def changes(self) -> TableChanges:
        players, products = (self._materializer.table_changes(name) for name in ("players", "products"))
        return TableChanges(players.added + products.added, players.deleted + products.deleted)

    def judged(self) -> Iterable[Judged]:
        return self._materializer.tables_judged()


def run_service(settings: Settings) -> None:
    """Run one instance until SIGTERM, SIGINT or SIGHUP.

    Raises:
        Fix: it cannot run like this; the message says what to change.
    """
    # Before anything listens: the first fetch takes half a minute, and its errors end the program.
    ensure_jars()
    sys.setswitchinterval(_HANDS_OVER_WITHIN_S)
    uvloop.run(_serve(settings))


def _log_error(task: asyncio.Task[None]) -> None:
    """Log what has ended a task that nobody waits for before the instance stops."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the task %r has ended with an error", task.get_name(), exc_info=error)


def _leave_to_stay() -> None:
    """Have no collection of garbage look at what is loaded by now: a full one would stop the instance for 40 ms."""
    gc.freeze()


def _lag_to_go_by(status: CopyStatus) -> int:
    """Return a copy's lag; one that is not known could be any, so it has not caught up."""
    return status.lag if status.lag_is_known else ACCEPTABLE_LAG_RECORDS + 1


async def _serve(settings: Settings) -> None:
    service = Service(settings)
    stop = stop_signal()
    try:
        await service.start()
        await stop.wait()
    finally:
        await service.stop()
