/**
 * Preloaded into a service that does not live long (`NODE_OPTIONS=--import …/hasten.ts`): what it does every five seconds, which is retention and the
 * cleaning of the log, it does all the time.
 */
const EVERY_MS = 5000
const INSTEAD_MS = 60

const { setInterval: every } = globalThis
const often = (run: () => void, ms?: number): NodeJS.Timeout => every(run, ms === EVERY_MS ? INSTEAD_MS : ms)
globalThis.setInterval = Object.assign(often, every)
