/**
 * Copies the log of another node before this node opens its own. A thread asks the known nodes one after the other, again and again, until one serves it.
 */
import type { ClusterSettings } from '../../config/cluster.ts'
import { StoreError, messageOf } from '../../errors.ts'
import { nodeFiles } from '../../log/node-files.ts'
import { JobPool } from '../../pipeline/jobs.ts'
import { workerFile } from '../../pipeline/worker-file.ts'
import { writeAnchor } from '../lane/anchor-file.ts'
import type { LogCopy } from '../member/parts.ts'
import { commitCopy, finishCopy } from './commit.ts'
import type { Listing, LogLocation } from './listing.ts'

export interface CopyTask extends LogLocation {
  readonly service: string
  readonly url: string
  readonly secret: string
  readonly ca: string | null
}

/** Result of a task. A failure is a value, so that its kind reaches main. */
export type CopyOutcome = {
  /** Bytes that came from the other node, also of a task that failed. */
  readonly bytes: number
} & (
  | { readonly listing: Listing }
  | { readonly kind: StoreError['kind']; readonly code: string; readonly problem: string }
)

export interface LogCopyOptions extends LogLocation {
  readonly service: string
  readonly settings: Pick<ClusterSettings, 'authorities' | 'listener'>
  readonly logger: Readonly<Record<'info' | 'warn', (details: object, message: string) => void>>
  readonly after: (delayMs: number, run: () => void) => void
}

const AGAIN_MS = 1000

export function logCopyOf({ service, settings, logger, after, ...log }: LogCopyOptions): LogCopy {
  const parts = { ...log, files: nodeFiles, replicas: [], writeAnchor }
  const task = { ...log, service, secret: settings.listener.secret }
  return {
    completeEarlier: () => finishCopy(parts),
    async run(from) {
      const pool = new JobPool<CopyTask, CopyOutcome>({
        name: `copy of the ${service}`,
        filename: workerFile('copy-log'),
        threads: 1,
        queueMax: 0,
      })
      let copiedBytes = 0
      let said = ''
      const say = (reason: string): void => {
        if (reason !== said) logger.warn({ reason }, 'the log of another node cannot be copied yet')
        said = reason
      }
      try {
        for (let listing: Listing | null = null; listing === null;) {
          const urls = from()
          if (urls.length === 0) say('this node knows no other node whose log it can copy')
          for (const url of urls) {
            logger.info(
              { from: url },
              'copying the log of another node, because the stream no longer has its beginning',
            )
            const outcome = await pool.run({ ...task, url, ca: settings.authorities?.pem ?? null })
            copiedBytes += outcome.bytes
            if ('listing' in outcome) {
              listing = outcome.listing
              break
            }
            if (outcome.kind !== 'unavailable') throw new StoreError(outcome.kind, outcome.code, outcome.problem)
            say(outcome.problem)
          }
          if (listing === null) await new Promise<void>((resolve) => after(AGAIN_MS, resolve))
          else commitCopy(parts, listing)
        }
        logger.info({}, 'the log of another node was copied')
        return copiedBytes
      } catch (error) {
        if (error instanceof StoreError) throw error
        const message = `${log.directory}: the log of another node cannot be copied: ${messageOf(error)}`
        throw new StoreError('unavailable', 'catch_up_failed', message, { cause: error })
      } finally {
        await pool.close({ withinMs: 0 })
      }
    },
  }
}
