/**
 * Turns of the event loop for work that would hold the main thread too long in one piece.
 *
 * All work waits in one queue, and each turn of the event loop serves one entry. So many long bodies at once hold the thread no longer at a time than
 * one body does.
 */
const waiting: (() => void)[] = []

/** Resolves in a later turn of the event loop, after those that were asked for before. */
export function nextTurn(): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  waiting.push(resolve)
  if (waiting.length === 1) setImmediate(serve)
  return promise
}

function serve(): void {
  waiting.shift()?.()
  if (waiting.length > 0) setImmediate(serve)
}

/** Items that one turn may take. */
const ITEMS_PER_TURN = 64

/** `items.map(convert)`; a promise for so many that they take more than one turn. */
export function mapInTurns<Item, Result>(
  items: readonly Item[],
  convert: (item: Item, number: number) => Result,
): Result[] | Promise<Result[]> {
  return items.length <= ITEMS_PER_TURN ? items.map(convert) : mapLater(items, convert)
}

async function mapLater<Item, Result>(
  items: readonly Item[],
  convert: (item: Item, number: number) => Result,
): Promise<Result[]> {
  const results: Result[] = []
  for (const item of items) {
    if (results.length % ITEMS_PER_TURN === 0) await nextTurn()
    results.push(convert(item, results.length))
  }
  return results
}
