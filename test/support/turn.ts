/** Lets all promises go as far as they go without anybody from outside. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
