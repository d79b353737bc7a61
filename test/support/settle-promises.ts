/** Lets all promises settle that need nothing from outside. */
export const settlePromises = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
