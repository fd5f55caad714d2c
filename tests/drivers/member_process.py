"""A member of the group in a process of its own, so that it can be killed or frozen; a line for each assignment.

python tests/drivers/member_process.py BOOTSTRAP_SERVERS APPLICATION_ID HOST:PORT TOPIC SESSION_TIMEOUT_MS
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from runtime.cluster.assignor import Tasks
from runtime.cluster.host_metadata import ClusterMap, HostInfo
from runtime.cluster.membership import Membership, MembershipSettings
from runtime.kafka.connection import KafkaConnection


async def main(bootstrap_servers: str, application_id: str, address: str, topic: str, session_timeout_ms: str) -> None:
    runs_stream, epoch = False, 0

    def on_tasks(tasks: Tasks, cluster: ClusterMap) -> None:
        nonlocal runs_stream, epoch
        runs_stream = tasks.stream
        epoch = tasks.stream_epoch if tasks.stream else epoch
        sys.stdout.write(f"generation {cluster.generation}, {len(cluster.hosts)} hosts, stream {tasks.stream}\n")
        sys.stdout.flush()

    membership = Membership(
        KafkaConnection(bootstrap_servers),
        application_id,
        HostInfo.parse(address),
        copies=dict,
        has_stream=lambda: runs_stream,
        stream_epoch=lambda: epoch,
        has_stream_standby=lambda: False,
        stream_fails=lambda: False,
        checkpoint=str,
        on_tasks=on_tasks,
        settings=MembershipSettings(session_timeout_ms=int(session_timeout_ms), topic=topic),
    )
    await membership.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
