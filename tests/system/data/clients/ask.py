"""Asks for boards and ranks as one who has generated the client would; mypy refuses it where types are others."""

import json
import sys

from leaderboard_client import Client
from leaderboard_client.api.leaderboard import get_board, list_boards
from leaderboard_client.api.ranks import get_rank, list_ranks
from leaderboard_client.models import Boards, Entry, Problem, Rank


def main(base_url: str, product_id: int, player_id: int) -> None:
    """Print what a board, all boards, a rank, some ranks and a problem are."""
    with Client(base_url) as client:
        board = get_board.sync(product_id, client=client, limit=2)
        boards = list_boards.sync(client=client)
        rank = get_rank.sync(product_id, player_id, client=client)
        ranks = list_ranks.sync(product_id, client=client, ids=f"1,{player_id}")
        problem = get_board.sync(-1, client=client)
    if not (isinstance(board, list) and isinstance(boards, Boards) and isinstance(rank, Rank)):
        raise TypeError(f"{board}, {boards} and {rank} are no answers")
    if not (isinstance(ranks, list) and isinstance(problem, Problem)):
        raise TypeError(f"{ranks} and {problem} are no ranks and no problem")
    names: list[str] = [entry.player_name for entry in board]
    first: Entry = boards.additional_properties[str(product_id)][0]
    said = {
        "board": [entry.to_dict() for entry in board],
        "boards": boards.to_dict(),
        "rank": rank.to_dict(),
        "ranks": [each.to_dict() for each in ranks],
        "problem": problem.to_dict(),
        "names": names,
        "first": first.score,
    }
    json.dump(said, sys.stdout)


main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
