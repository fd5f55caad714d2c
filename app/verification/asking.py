"""Asking instances over HTTP, as any reader would."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Self

import httpx

from app.errors import NotComparable, SetupError

_TIMEOUT_S: Final = 30.0
_SHOWN: Final = 200
_FIXES: Final = {
    401: "give LEADERBOARD_API_TOKEN the value that the instances have",
    403: "give LEADERBOARD_API_TOKEN the value that the instances have",
}


class Asking:
    """A client of instances; a context manager.

    Args:
        token: what a reader has to show, when the routes want it.
        fixes: what to do about a status that says that the question was wrong.
    """

    def __init__(self, token: str, fixes: Mapping[int, str]) -> None:
        self._fixes = {**_FIXES, **fixes}
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        # A proxy of the environment's is for others: the instances are asked, and nobody between.
        self._client = httpx.Client(timeout=_TIMEOUT_S, trust_env=False, headers=headers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def get(self, url: str, path: str, none: int = 200) -> httpx.Response:
        """Return the answer of an instance.

        Args:
            url: of the instance.
            path: what is asked for.
            none: a further status that is an answer.

        Raises:
            NotComparable: it does not answer, or says that it cannot answer now.
            SetupError: it refuses.
        """
        try:
            answer = self._client.get(f"{url}{path}")
        except (httpx.InvalidURL, httpx.UnsupportedProtocol, UnicodeError) as error:
            raise SetupError(f"{url} is not a URL that can be asked", "give it as http://host:port") from error
        except httpx.HTTPError as error:
            raise NotComparable(f"{url} does not answer ({type(error).__name__} {error})") from error
        if answer.status_code in (200, none):
            return answer
        problem = f"{url}{path} answers {answer.status_code}: {_detail(answer)}"
        if answer.status_code < 500:
            raise SetupError(problem, self._fixes.get(answer.status_code, "see what it is"))
        raise NotComparable(problem)


def _detail(answer: httpx.Response) -> str:
    """Return what a problem says of itself, or the beginning of an answer that is none."""
    try:
        return str(answer.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return answer.text[:_SHOWN]
