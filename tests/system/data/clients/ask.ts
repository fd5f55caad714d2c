// Asks for boards and ranks as one who has generated the client would. tsc refuses it where a type is not what is said here.
import { getBoard, getRank, listBoards, listRanks, watchBoard } from './client';
import type { Boards, Entry, Problem, Rank } from './client';
import { client } from './client/client.gen';

declare const process: { argv: string[]; exit(): never };

async function main(baseUrl: string, productId: number, playerId: number): Promise<void> {
  client.setConfig({ baseUrl });
  const path = { productId };
  const board: Entry[] | undefined = (await getBoard({ path, query: { limit: 2 } })).data;
  const boards: Boards | undefined = (await listBoards()).data;
  const rank: Rank | Rank[] | undefined = (await getRank({ path: { productId, playerId } })).data;
  const ranks: Rank[] | undefined = (await listRanks({ path, query: { ids: `1,${playerId}` } })).data;
  const problem: Problem | undefined = (await getBoard({ path: { productId: -1 } })).error;
  const names: string[] | undefined = board?.map((entry) => entry.playerName);
  for await (const live of (await watchBoard({ path })).stream) {
    console.log(JSON.stringify({ board, boards, rank, ranks, problem, names, live }));
    process.exit();
  }
}

main(process.argv[2], Number(process.argv[3]), Number(process.argv[4]));
