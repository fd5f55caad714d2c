"""Where log lines go and how they look: standard error, as text or JSON, with thread and request of each.

Everything goes through one handler: what the product logs, what libraries do, Spark's lines that
`runtime.spark.session` passes on, and Python's warnings.
"""

import json
import logging
import os
import sys
from datetime import UTC, datetime

from api.http.request_ids import CURRENT

_TEXT = "%(asctime)s %(levelname)-7s [%(threadName)s] %(name)s: %(message)s"
_QUIET = ("asyncio", "httpcore", "httpx", "uvicorn")
_SILENT = ("aiokafka", "py4j")
"""What these libraries have to say, the product says itself, once and with what to do.

Neither list follows the level that is set: at DEBUG, aiokafka and py4j log requests whole, passwords among them.
"""


def set_up_logging(form: str = "text", level: str = "INFO", instance: str = "") -> None:
    """Send log lines to standard error, of libraries that tell every step those from WARNING on. May be called again.

    Args:
        form: "text" or "json".
        level: the lowest level of lines that are written.
        instance: stands in each line, where several instances write to one log; empty: they do not.
    """
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(handler)
    root.addHandler(_Handler(JsonFormatter(instance) if form == "json" else TextFormatter(_TEXT, instance), level))
    root.setLevel(level)
    logging.captureWarnings(True)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)


class TextFormatter(logging.Formatter):
    """A line that people read; the instance and the request's id stand at its end."""

    def __init__(self, form: str, instance: str = "") -> None:
        super().__init__(form)
        self._instance = f" instance={instance}" if instance else ""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802  # as logging has it
        """Return the line without its exception."""
        line, request_id = f"{super().formatMessage(record)}{self._instance}", _request_id(record)
        return line if request_id is None else f"{line} request_id={request_id}"


class JsonFormatter(logging.Formatter):
    """One JSON object a line."""

    def __init__(self, instance: str = "") -> None:
        super().__init__()
        self._instance = instance or None

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        fields = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "instance": self._instance,
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
            "request_id": _request_id(record),
            "exception": self.formatException(record.exc_info) if record.exc_info else None,
        }
        return json.dumps({name: value for name, value in fields.items() if value is not None}, ensure_ascii=False)


class _Handler(logging.StreamHandler):  # type: ignore[type-arg]  # generic in the stubs only
    """The one handler of this program. Notes the request that a line belongs to where the line is written."""

    def __init__(self, formatter: logging.Formatter, level: str) -> None:
        super().__init__(sys.stderr)
        # Also for the loggers below that have a level of their own.
        self.setLevel(level)
        self.setFormatter(formatter)
        self.addFilter(_is_to_be_told)
        self.addFilter(note_request)


def _is_to_be_told(record: logging.LogRecord) -> bool:
    """Return whether a record is none of py4j's: it tells also in the name of the root of a JVM that was ended."""
    return f"{os.sep}py4j{os.sep}" not in record.pathname


def note_request(record: logging.LogRecord) -> bool:
    """Note the request that is being answered where the record was made; lets every record pass."""
    request_id = CURRENT.get()
    record.request_id = None if request_id is None else request_id.text
    return True


def _request_id(record: logging.LogRecord) -> str | None:
    return getattr(record, "request_id", None)
