"""The errors that end the program, each with what to do about it.

runtime.errors.Fix
└── SetupError           the user fixes it: Java, jars, ports, directories, settings, input files
    └── BrokerFailed     the embedded broker died or never answered; its log says why
runtime.errors.Retry
└── NotComparable        boards cannot be compared now: an instance does not answer, or a topic was created anew

The command line prints one as a single line and exits with status 2, or 1 for what may work when tried again.
"""

from runtime.errors import Fix, Retry


class SetupError(Fix):
    """Something outside the program must be put right before it can run.

    Args:
        problem: what is wrong, naming the offending value.
        fix: what the user can do about it.
    """

    def __init__(self, problem: str, fix: str) -> None:
        super().__init__(f"{problem}: {fix}")


class BrokerFailed(SetupError):
    """The embedded broker ended by itself or did not become ready in time."""


class NotComparable(Retry):
    """The boards that are served cannot be compared with those that have to be, at this moment."""
