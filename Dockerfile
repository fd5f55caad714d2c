# The service as an image: `docker build --tag leaderboard .`
# Debian 12 with its own Java 17; the state volume and the cache of jars belong to the user `leaderboard` (10001).

FROM python:3.11-slim-bookworm AS build
WORKDIR /build
# The lock holds the tools of the developers too. Only what the program needs is taken from these wheels below, and
# nothing but these files, whose hashes have been checked, can be.
COPY requirements.lock .
RUN python3 -m pip wheel --quiet --disable-pip-version-check --no-cache-dir --use-pep517 --require-hashes \
    --wheel-dir wheels --requirement requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY app app
COPY api api
COPY topology topology
COPY runtime runtime
RUN python3 -m venv /opt/leaderboard \
    && /opt/leaderboard/bin/pip install --quiet --disable-pip-version-check --no-cache-dir \
    --no-index --find-links wheels .

FROM python:3.11-slim-bookworm
# Java's package links its manual pages into a directory that slim images leave out.
RUN mkdir -p /usr/share/man/man1 \
    && apt-get update \
    && apt-get install --yes --no-install-recommends openjdk-17-jre-headless \
    && rm -rf /var/lib/apt/lists/*
# A new volume takes over the owner of the directory it is mounted on.
RUN useradd --uid 10001 --create-home leaderboard \
    && install --directory --owner leaderboard --group leaderboard \
    /var/lib/leaderboard /var/lib/leaderboard/state /var/lib/leaderboard/checkpoint
COPY --from=build /opt/leaderboard /opt/leaderboard
# The cache is named, since HOME is another directory for another user.
ENV PATH=/opt/leaderboard/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    XDG_CACHE_HOME=/home/leaderboard/.cache \
    LEADERBOARD_STATE_DIR=/var/lib/leaderboard/state
USER leaderboard
WORKDIR /home/leaderboard
# Before the jars: the archive that Spark's driver starts faster with is made from a run on the sample data.
COPY data data
RUN leaderboard jars
VOLUME /var/lib/leaderboard/state
EXPOSE 7000
# Live, not ready: whoever restarts unhealthy containers would begin a long restore again and again. Without the proxies
# of the environment, which would be asked for 127.0.0.1 as well.
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s --retries=3 \
    CMD python3 -c "import os, urllib.request as u; port = os.environ.get('LEADERBOARD_PORT', '7000'); \
    u.build_opener(u.ProxyHandler({})).open(f'http://127.0.0.1:{port}/health/live', timeout=2)"
STOPSIGNAL SIGTERM
ENTRYPOINT ["leaderboard"]
CMD ["serve"]
