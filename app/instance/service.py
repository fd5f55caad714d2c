"""One instance of the service: its parts put together, their order of start and stop, and signals.

Start, so that state on disk is served within moments and Spark is the last to matter:
    1. the stores are opened, the view and the materializer answer from them;
    2. the HTTP server listens;
    3. the service's own topics are created, the group is joined;
    4. whatever tasks the group hands out are taken up: partitions, and perhaps the stream;
    5. as soon as it is ready, the HTTP server listens on the port that it shares with other instances, if there is one.
"""

import asyncio
import logging
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING

import uvloop

from api.cluster.followed import Followed
from api.cluster.left_out import LeftOut
from api.cluster.self_check import SelfCheck
from api.cluster.stream_link import StreamLink
from api.components import Components, Stopping
from api.main import create_app
from api.own import no_own_routes
from app.errors import SetupError
from app.instance.checkpoint_identity import CheckpointWatch
from app.instance.hand_over import HandOver
from app.instance.held_tasks import HeldTasks
from app.instance.measures import InstanceMeasures
from app.instance.stream_task import StreamTask
from app.java.jars import ensure_jars
from app.loading import leave_to_stay, loading
from app.server.http_server import HttpServer
from app.settings import Settings
from app.signals import stop_at_end_of_input, stop_signal
from app.topologies import Application
from runtime.cluster.assignor import Tasks
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.cluster.membership import Membership, MembershipSettings
from runtime.copies.copies import Copies, names_of
from runtime.copies.local_tables import LocalTables
from runtime.copies.materializer import Materializer
from runtime.copies.producer import ResultProducer
from runtime.copies.republisher import Republisher
from runtime.declaration import Topology
from runtime.errors import DeclarationError, LeaderboardError
from runtime.kafka.topics import create_missing, outputs_of
from runtime.serving.views import by_key, parts_of, rankings_of, tables_of, views_of
from runtime.spark.native_libraries import directory_for_libraries
from runtime.stores.directory import StateDirectory

if TYPE_CHECKING:
    from runtime.stream.status import StreamStatus
    from runtime.stream.thread import StreamThread

logger = logging.getLogger(__name__)

_HANDS_OVER_WITHIN_S = 0.0005
"""How long another thread may go on computing when the event loop has something to do; Python's own choice is ten
times as long, and a read would wait for it."""
_LONGEST_WITH_WINDOWS_S = 1_800
"""Half of what a record may be ahead of the clock: the rest is left for producers whose clocks are."""
_RETRY_S = 1.0
_READY_EVERY_S = 0.1


class Service:
    """One instance, wired.

    Args:
        settings: how it runs.
        application: what it runs.

    Attributes:
        copies: what this instance holds of the stores and tables.

    Raises:
        SetupError: the address cannot be listened on.
        StateUnusable: the state directory cannot be used.
        CheckpointUnusable: the checkpoint's directory cannot be used.
    """

    def __init__(self, settings: Settings, application: Application) -> None:
        topology = application.topology
        settings = settings.named_for(topology.name)
        self._settings, self._topology = settings, topology
        self._host = HostInfo.parse(settings.advertised)
        # First: by default the checkpoint is inside of it, and would take the blame.
        self._stores = StateDirectory(settings.state_dir, settings.application_id, names_of(topology))
        # The stream may come here at any time.
        directory_for_libraries(settings.state_dir)
        self._checkpoint = CheckpointWatch(settings.checkpoint_uri)
        self._stopping = False
        self._join_trouble = ""
        self.copies = Copies(topology, self._stores)
        self._views = views_of(self.copies)
        self._rankings = rankings_of(self.copies)
        self._producer = ResultProducer(settings.kafka)
        self._republisher = Republisher(self.copies, self._producer.publish)
        self._materializer = Materializer(settings.kafka, self.copies, self._republisher)
        self._stream = StreamTask(self._make_stream_thread)
        self._tasks = HeldTasks(self.copies, self._republisher, self._stream)
        self._membership = Membership(
            settings.kafka,
            settings.application_id,
            self._host,
            copies=self._tasks.restored_copies,
            has_stream=lambda: self._stream.held,
            stream_epoch=lambda: self._stream.epoch,
            has_stream_standby=lambda: self._stream.ready,
            stream_fails=self._stream.fails,
            checkpoint=lambda: self._checkpoint.identity,
            on_tasks=self._on_tasks,
            settings=MembershipSettings(
                session_timeout_ms=settings.session_timeout_ms,
                num_standby_replicas=settings.num_standby_replicas,
                stream_standbys=settings.stream_standbys,
                fingerprint=_fingerprint(_alike(settings, application)),
                # The others have as many partitions.
                topic=topology.stores[0].topic,
            ),
        )
        self._measures = InstanceMeasures(settings.kafka, self.copies, self._views, stream=lambda: self._stream.status)
        self._goodbye = Stopping()
        components = Components(
            topology=topology,
            stores={name: by_key(view) for name, view in self._views.items()},
            rankings=self._rankings,
            parts=parts_of(self._views),
            tables=tables_of(self.copies),
            description=application.description,
            cluster=self._membership.current,
            host=self._host,
            ready=self.not_ready,
            measures=self._measures.now,
            followed=Followed(lambda: self._stream.status is not None, self._stream.works),
            stream_trouble=self._stream.trouble,
            nearest=settings.reads == "nearest",
            tokens=settings.tokens,
            sharing=settings.sharing,
            stopping=self._goodbye,
        )
        self._self_check = SelfCheck(components)
        self._left_out = LeftOut(
            components, self._membership.is_away, self._give_up_active, self._membership.request_rebalance
        )
        self._hand_over = HandOver(
            self._stream, self._membership, StreamLink(components), components.followed, settings.checkpoint_uri
        )
        app = create_app(components, application.routes or no_own_routes)
        self._server = HttpServer(app, settings.host, settings.port, shared_port=settings.shared_port)
        self._background: list[asyncio.Task[None]] = []

    @property
    def stream_status(self) -> "StreamStatus | None":
        """What the stream thread says of itself; None while another instance runs the stream."""
        return self._stream.status

    def stream_failures(self) -> tuple[int, str]:
        """Return how often the stream has failed here, and why it does now; empty while it does not."""
        return self._stream.failures()

    async def refused(self) -> DeclarationError:
        """Wait until the stream finds here that the topology cannot run as it is declared; return why."""
        while (error := self.refusal) is None:
            await asyncio.sleep(_READY_EVERY_S)
        return error

    @property
    def refusal(self) -> DeclarationError | None:
        """Why the topology cannot run as it is declared, when the stream has found that here."""
        return self._stream.refused

    def not_ready(self) -> str | None:
        """Return why the instance should get no traffic, or None."""
        if self._stopping:
            return "it is stopping"
        reason = self._join_trouble or self._membership.reason() or self.copies.state_trouble or self._self_check.reason
        if reason is not None:
            return reason
        tasks = self._membership.tasks() or Tasks()
        behind = (p for p in sorted(tasks.active) if not self._tasks.is_caught_up(p))
        return next((self.copies.task_status(p).reason or f"partition {p} is behind" for p in behind), None)

    async def start(self) -> None:
        """Start everything; what needs Kafka goes on trying in the background."""
        await self._materializer.start()
        await self._server.start()
        loop = asyncio.get_running_loop()
        self._checkpoint.start(lambda: loop.call_soon_threadsafe(self._membership.request_rebalance))
        self._background = [
            *(asyncio.create_task(view.keep_warm(), name=f"view of {name}") for name, view in self._views.items()),
            *(
                asyncio.create_task(view.keep_warm(), name=f"ranking of {name}")
                for name, view in self._rankings.items()
            ),
            asyncio.create_task(self._join(), name="join"),
            asyncio.create_task(self._tasks.look_after(self._membership), name="tasks"),
            asyncio.create_task(self._hand_over.run(), name="stream standby"),
            asyncio.create_task(self._hand_over.give_up_without_jvm(), name="hand-over"),
            asyncio.create_task(self._hand_over.give_up_superseded(), name="stream that is superseded"),
            asyncio.create_task(self._self_check.run(), name="self-check"),
            asyncio.create_task(self._left_out.run(), name="left out"),
            asyncio.create_task(self._measures.run(), name="measures"),
        ]
        if self._settings.shared_port:
            self._background.append(asyncio.create_task(self._share(), name="shared port"))
        for task in self._background:
            task.add_done_callback(_log_error)
        leave_to_stay()
        logger.info("listening on %s:%d as %s", self._settings.host, self._settings.port, self._host)

    async def stop(self) -> None:
        """Stop everything, so that nobody who reads notices.

        1. Not ready: a load balancer sends nothing new, and what is new at the shared port goes to the others.
        2. The stream, before another instance is given it; its standby begins at once.
        3. Out of the group: the others take over at once, not when the session times out.
        4. The HTTP server: live updates are ended, their clients find another instance; what is in flight is finished.
        5. The stores, when nothing reads or fills them any more.
        6. A JVM that was just starting, which nobody has waited for until now.
        """
        self._stopping = True
        await self._server.unshare()
        self._checkpoint.stop()
        await self._hand_over.end()
        await self._membership.stop()
        self._goodbye.begin()
        await self._server.stop()
        for task in self._background:
            task.cancel()
        await asyncio.gather(*self._background, return_exceptions=True)
        await self._materializer.stop()
        await self._producer.close()
        self._stores.close()
        await self._stream.end()
        logger.info("stopped")

    async def _share(self) -> None:
        """Listen on the shared port once this instance is ready: who asks there does not ask another one instead."""
        while self.not_ready() is not None:
            await asyncio.sleep(_READY_EVERY_S)
        await self._server.share()
        settings = self._settings
        logger.info("listening on %s:%d with other instances", settings.host, settings.shared_port)

    # Tasks

    async def _join(self) -> None:
        """Create the service's own topics, then join the group, which hands out the partitions of one of them."""
        while True:
            try:
                await create_missing(self._settings.kafka, outputs_of(self._topology))
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
        self._tasks.take(tasks, agrees=self._membership.reason() is None)
        if not self._stopping:
            taken = self._stream.assign(stream=tasks.stream, standby=tasks.stream_standby, epoch=tasks.stream_epoch)
            if not taken:
                self._membership.request_rebalance()

    def _give_up_active(self, cluster: ClusterMap) -> None:
        self._tasks.give_up_active()
        self._membership.go_by(cluster)

    def _make_stream_thread(self) -> "StreamThread":
        # Late, and in a thread: PySpark takes most of a second to load, and boards are served meanwhile.
        with loading():
            from app.java.spark_class_data import spark_class_data
            from runtime.spark.session import SparkSettings
            from runtime.stream.thread import StreamSettings, StreamThread

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
            app_name=self._topology.name,
            driver_flags=tuple(spark_class_data(jars).flags()),
            in_bursts=self._topology.in_bursts,
        )
        stream = StreamSettings(
            topology=self._topology,
            spark=spark,
            application_id=settings.application_id,
            checkpoint_uri=settings.checkpoint_uri,
            checkpoint_interval_s=settings.checkpoint_interval_s,
            tables_refresh_s=settings.tables_refresh_s,
        )
        return StreamThread(stream, LocalTables(self.copies), self.copies.freshness)


def _check_interval(settings: Settings, topology: Topology) -> None:
    """Raise when batches are so long that what comes at the end of one is of the future at its begin."""
    is_judged_by_batch = topology.has_windows and topology.every_s is None
    if is_judged_by_batch and settings.checkpoint_interval_s > _LONGEST_WITH_WINDOWS_S:
        raise SetupError(
            f"LEADERBOARD_CHECKPOINT_INTERVAL_S={settings.checkpoint_interval_s} is too long for windows",
            f"set {_LONGEST_WITH_WINDOWS_S} or less: by the clock at the begin of a batch it is told which records are "
            "of the future",
        )


def run_service(settings: Settings, application: Application, *, ends_with_input: bool = False) -> None:
    """Run one instance until SIGTERM, SIGINT or SIGHUP.

    Args:
        settings: how it runs.
        application: what it runs.
        ends_with_input: the end of standard input ends it as well.

    Raises:
        Fix: it cannot run like this; the message says what to change.
    """
    _check_interval(settings, application.topology)
    # Before anything listens: the first fetch takes half a minute, and its errors end the program.
    ensure_jars()
    sys.setswitchinterval(_HANDS_OVER_WITHIN_S)
    uvloop.run(_serve(settings, application, ends_with_input=ends_with_input))


def _alike(settings: Settings, application: Application) -> dict[str, object]:
    """Return the settings that have to be the same at every instance.

    Not how many keep a driver warm: the group's leader decides that by its own, nothing is wrong while others differ,
    and an earlier version, which cannot say it, would seem to differ.
    """
    ranks = {"RANKS": "true"} if application.has_boards and settings.ranks else {}
    of_stores = {name: value for store in application.topology.stores for name, value in store.settings.items()}
    return {
        **application.topology.settings,
        **of_stores,
        **ranks,
        "NUM_STANDBY_REPLICAS": settings.num_standby_replicas,
    }


def _fingerprint(settings: Mapping[str, object]) -> str:
    """Return settings as text that people can compare."""
    return ", ".join(f"{name}={value}" for name, value in settings.items())


def _log_error(task: asyncio.Task[None]) -> None:
    """Log what has ended a task that nobody waits for before the instance stops."""
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.error("the task %r has ended with an error", task.get_name(), exc_info=error)


async def _serve(settings: Settings, application: Application, *, ends_with_input: bool) -> None:
    service = Service(settings, application)
    stop = stop_signal()
    if ends_with_input:
        stop_at_end_of_input(stop)
    stopped, refused = asyncio.create_task(stop.wait()), asyncio.create_task(service.refused())
    try:
        await service.start()
        await asyncio.wait((stopped, refused), return_when=asyncio.FIRST_COMPLETED)
    finally:
        await service.stop()
        stopped.cancel()
        refused.cancel()
    if refused.done() and not refused.cancelled():
        raise refused.result()
