/**
 * The custom endpoint helper of a service: keeps the last objects that were posted for each activation id. Its log is opened when
 * there is one from before, else with the first object: an unused helper costs no directory and no thread.
 */
import { StoreError } from '../errors.ts'
import type { LogEnvironment } from '../log/environment.ts'
import { nodeEnvironment } from '../log/node-environment.ts'
import { segmentName } from '../log/segment-format.ts'
import type { Degradation } from '../observability/health.ts'
import type { StoredObject } from './frames.ts'
import { ObjectLog } from './object-log.ts'
import type { ObjectLogOptions } from './object-log.ts'

interface EndpointHelperOptions
  extends Pick<ObjectLogOptions, 'directory' | 'logger'>, Partial<Pick<ObjectLogOptions, 'limits' | 'sizes'>> {
  readonly environment?: LogEnvironment
}

export class EndpointHelper {
  readonly #options: EndpointHelperOptions
  #opening: Promise<ObjectLog> | null = null
  #log: ObjectLog | null = null
  #closed = false

  /** @throws StoreError when what is in the directory cannot be used */
  static async open(options: EndpointHelperOptions): Promise<EndpointHelper> {
    const helper = new EndpointHelper(options)
    const { files } = options.environment ?? nodeEnvironment
    if (files.exists(options.directory)) await helper.#opened()
    return helper
  }

  private constructor(options: EndpointHelperOptions) {
    this.#options = options
  }

  /** Resolves when the object is durable. Rejects with a StoreError: then it is not known to be stored. */
  async store(stored: StoredObject): Promise<void> {
    await (await this.#usable()).append(stored)
  }

  /** Null while objects are accepted, or not tried yet: the log is opened with the first object. */
  get problem(): string | null {
    return this.#log?.problem ?? null
  }

  degradations(): readonly Degradation[] {
    return this.#log?.degradations() ?? []
  }

  /** An operator may have acknowledged incidents. */
  rereadAcknowledged(): void {
    this.#log?.rereadAcknowledged(this.#options.logger)
  }

  /** JSON text; null when there is none. */
  newest(activationId: string): string | null {
    return this.#log?.recent.newest(activationId) ?? null
  }

  /** JSON texts; empty when there are none. */
  newestFirst(activationId: string): readonly string[] {
    return this.#log?.recent.newestFirst(activationId) ?? []
  }

  /** Objects that were taken before are synced and answered first. */
  async close(): Promise<void> {
    this.#closed = true
    const log = await this.#opening?.catch(() => null)
    await log?.close()
  }

  async #usable(): Promise<ObjectLog> {
    if (this.#closed) throw unavailable('the service is stopping')
    try {
      return this.#log ?? (await this.#opened())
    } catch (error) {
      this.#options.logger.error(
        { directory: this.#options.directory, err: error },
        'the endpoint helper cannot open its log',
      )
      throw unavailable('its log cannot be opened', error)
    }
  }

  #opened(): Promise<ObjectLog> {
    this.#opening ??= this.#open().catch((error: unknown) => {
      this.#opening = null // the next object tries again
      throw error
    })
    return this.#opening
  }

  async #open(): Promise<ObjectLog> {
    const { logger } = this.#options
    this.#log = await ObjectLog.open({
      environment: nodeEnvironment,
      ...this.#options,
      onIncident: ({ segmentBase, from, to, reason }) =>
        logger.error(
          { segment: segmentName(segmentBase), from, to, reason },
          'quarantine incident: a range of the endpoint log is damaged',
        ),
    })
    return this.#log
  }
}

const unavailable = (why: string, cause?: unknown): StoreError =>
  new StoreError('unavailable', 'wal_unavailable', `nothing was stored: ${why}; send the object again later`, { cause })
