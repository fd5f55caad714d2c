"""Where log lines go and how they look: text on standard error, with the thread that wrote each."""

import logging
import sys

_FORMAT = "%(asctime)s %(levelname)-7s [%(threadName)s] %(name)s: %(message)s"
_QUIET = ("asyncio", "httpcore", "httpx", "py4j", "uvicorn")
_SILENT = ("aiokafka",)
"""What these libraries have to say, the product says itself, once and with what to do."""


def set_up_logging() -> None:
    """Send log lines of level INFO and above to standard error, libraries that tell every step from WARNING on."""
    logging.basicConfig(level=logging.INFO, format=_FORMAT, stream=sys.stderr)
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name in _SILENT:
        logging.getLogger(name).setLevel(logging.CRITICAL)
