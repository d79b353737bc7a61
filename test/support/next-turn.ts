/** Gives the event loop one turn: promises settle that need nothing from outside, and sockets that are ready are read and written. */
export const nextTurn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
