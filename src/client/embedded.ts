/** A broker in this process, without a port: the engine and the storage of the service, used by clients of the same process. */
import { randomFillSync, randomInt } from 'node:crypto'
import { LOCAL_CALLER, openHeadlessBroker } from '../broker/headless.ts'
import { isObject } from '../plain-objects.ts'
import { loadBrokerConfig } from '../config/broker.ts'
import type { BrokerConfig } from '../config/broker.ts'
import { StoreError } from '../errors.ts'
import { Lifecycle } from '../lifecycle.ts'
import { createLogger, loggerOf } from '../observability/logger.ts'
import type { Logger } from '../observability/logger.ts'
import { systemClock } from '../observability/system-clock.ts'
import type { ClientSettings } from './client-config.ts'
import { NativeClient } from './native-client.ts'
import { NativeConnection } from './native-connection.ts'
import { invalidConfig } from './sdk-error.ts'

export interface EmbeddedBrokerConfig {
  /** Directory of the log and the queue state; created when it is missing. One broker at a time uses it. */
  readonly dataDirectory: string
  /** When a record of the durability `local-disk` is answered: after fdatasync (default), or with `append-only` after the write. */
  readonly flushPolicy?: BrokerConfig['flushPolicy']
  /** More directories for the log, for the durability `local-quorum`. */
  readonly replicaDirectories?: readonly string[]
  /** Directories that must have synced, the data directory included; default: more than half. */
  readonly writeQuorum?: number
  /** `reset` sets broker time to the wall clock if it is ahead, as after a start with a wrong clock; default `slew`. */
  readonly clock?: BrokerConfig['clock']
  /** Default: warnings and errors, as JSON lines on stderr. */
  readonly logger?: Logger
}

export interface EmbeddedBroker {
  /**
   * Makes a client. Any number of clients can share the broker.
   *
   * @throws SdkError InvalidConfig
   */
  client(settings: ClientSettings): NativeClient
  /** Ends subscriptions and waiting claims, answers earlier calls, and syncs. Until then the broker keeps its process alive. */
  close(): Promise<void>
}

/** Version of Node that the engine needs. The rest of the library runs on 20. */
const NODE_MIN = 22
/** The same as for the process of the services. */
const CLOSE_MS = 8000
const RANDOM_STEPS = 2 ** 32

/** @throws SdkError InvalidConfig when a setting cannot work or a directory cannot be used: its message names which */
export async function openEmbeddedBroker(config: EmbeddedBrokerConfig): Promise<EmbeddedBroker> {
  if (!isObject(config)) throw invalidConfig('the configuration of a broker must be an object')
  if (Number.parseInt(process.versions.node) < NODE_MIN) {
    throw invalidConfig(`a broker in this process needs Node ${NODE_MIN}; HttpNativeClient does not`)
  }
  const logger = config.logger ?? loggerOf(createLogger('warn'), 'broker')
  const running = new Lifecycle()
  try {
    const { broker } = await openHeadlessBroker({
      config: loadBrokerConfig(settingsOf(config)),
      running,
      logger,
      clock: systemClock,
      random: randomFillSync,
    })
    const connection = new NativeConnection({
      operations: broker.operations,
      caller: LOCAL_CALLER,
      logger,
      timers: systemClock,
      random: () => randomInt(RANDOM_STEPS) / RANDOM_STEPS,
    })
    await running.open(() => connection)
    let closed: Promise<void> | null = null
    return {
      client: (settings) => new NativeClient(settings, connection),
      close: () => (closed ??= running.close({ withinMs: CLOSE_MS })),
    }
  } catch (error) {
    throw error instanceof StoreError ? invalidConfig(inWordsOf(error.message), { cause: error }) : error
  }
}

/** The settings of the service that the fields stand for. */
const SETTINGS = {
  dataDirectory: 'MQ_DATA_DIR',
  flushPolicy: 'MQ_FLUSH_POLICY',
  replicaDirectories: 'MQ_REPLICA_DIRS',
  writeQuorum: 'MQ_WRITE_QUORUM',
  clock: 'MQ_CLOCK',
} as const

function settingsOf(config: EmbeddedBrokerConfig): Readonly<Record<string, string>> {
  const { dataDirectory, flushPolicy, replicaDirectories = [], writeQuorum, clock } = config
  if (typeof dataDirectory !== 'string' || dataDirectory.trim() === '') {
    throw invalidConfig('dataDirectory must not be blank')
  }
  if (replicaDirectories.some((path) => path.includes(','))) {
    throw invalidConfig('replicaDirectories must not have commas in their names')
  }
  return {
    [SETTINGS.dataDirectory]: dataDirectory,
    [SETTINGS.replicaDirectories]: replicaDirectories.join(','),
    ...(flushPolicy !== undefined && { [SETTINGS.flushPolicy]: flushPolicy }),
    ...(clock !== undefined && { [SETTINGS.clock]: clock }),
    ...(writeQuorum !== undefined && { [SETTINGS.writeQuorum]: String(writeQuorum) }),
  }
}

const inWordsOf = (message: string): string =>
  Object.entries(SETTINGS).reduce((text, [field, setting]) => text.replaceAll(setting, field), message)
