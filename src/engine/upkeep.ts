/** Periodic work of a service on its log, as long as it is open. */
import type { Log } from '../log/log.ts'

export interface Upkeep {
  /** Does everything that is due. Does nothing while a round is under way. */
  enforce(): Promise<void>
  /** Does what gives space back. */
  reclaim(): Promise<void>
  /** Resolves when the round under way has ended. */
  close(): Promise<void>
}

export interface UpkeepParts {
  readonly running: { open(part: () => { close(): Promise<void> }): Promise<unknown> }
  readonly clock: { every(intervalMs: number, task: () => void): () => void }
  readonly log: Pick<Log, 'onSealed'>
  /** Resolves when what has to be written after a seal, such as a checkpoint, is written. */
  readonly written: () => Promise<unknown>
  readonly everyMs: number
}

/** Reclaims space also after each segment: between two rounds fast writers would fill more segments than the log is to have. */
export async function keepUp(upkeep: Upkeep, { running, clock, log, written, everyMs }: UpkeepParts): Promise<void> {
  const stop = clock.every(everyMs, () => void upkeep.enforce())
  log.onSealed(() => void written().then(() => upkeep.reclaim()))
  await running.open(() => ({
    close() {
      stop()
      return upkeep.close()
    },
  }))
}
