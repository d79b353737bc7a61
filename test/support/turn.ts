/** Lets all promises settle that need nothing from outside. */
export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))
