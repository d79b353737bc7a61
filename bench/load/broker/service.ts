/** Load for the broker: publishing, one by one or in batches, claim and acknowledge cycles, replay. */
import { randomInt } from 'node:crypto'
import { parseTarget } from '../options.ts'
import type { OptionTable, OptionValues } from '../options.ts'
import { Random } from '../random.ts'
import type { RunOptions } from '../run.ts'
import type { LoadService, Workload } from '../workload.ts'
import { BATCH_MAX, BODY_BYTES_MAX, STREAMS_MAX } from './limits.ts'
import { CYCLE_PRELOAD_MAX, planCycle } from './plan-cycle.ts'
import { planPublish } from './plan-publish.ts'
import { planReplay, REPLAYED_RECORDS } from './plan-replay.ts'
import { Requests } from './requests.ts'
import { messageIdPrefix, streamName } from './names.ts'

const WORKLOADS = ['publish', 'publish-batch', 'cycle', 'replay'] as const
type WorkloadName = (typeof WORKLOADS)[number]

/** What every workload builds on. */
export interface BrokerLoad {
  readonly name: WorkloadName
  readonly requests: Requests
  readonly streams: number
  readonly seed: number
  readonly messageIdPrefix: string
  readonly payload: string
  /** Rows of the configuration that all workloads have. */
  readonly configuration: readonly (readonly [name: string, value: string])[]
}

const options: OptionTable = {
  url: { type: 'string', value: 'URL', default: 'http://127.0.0.1:7400', help: 'the server: http://host:port' },
  workload: {
    type: 'string',
    value: 'NAME',
    default: 'publish',
    help: 'publish, publish-batch, cycle (claim and acknowledge) or replay',
  },
  connections: {
    type: 'string',
    value: 'N',
    default: '64',
    help: 'keep-alive connections, one request in flight on each; in cycle, the workers',
  },
  streams: { type: 'string', value: 'N', default: '1', help: 'goes round load-0000, load-0001, …, which it creates' },
  'payload-bytes': { type: 'string', value: 'N', default: '200', help: 'payload of each record' },
  durability: {
    type: 'string',
    value: 'MODE',
    help: 'durability_mode of each record: volatile, local-append, local-sync (default: that of the stream)',
  },
  batch: { type: 'string', value: 'N', default: String(BATCH_MAX), help: 'publish-batch: records in a request' },
  group: { type: 'string', value: 'NAME', default: 'load', help: 'cycle: the consumer group' },
  claim: {
    type: 'string',
    value: 'N',
    default: '1',
    help: 'cycle: records in a claim; one is acknowledged alone, more with one batch-ack',
  },
  page: { type: 'string', value: 'N', default: String(BATCH_MAX), help: 'replay: records in a page' },
  preload: {
    type: 'string',
    value: 'N',
    help: `records there before measuring, published if need be (default: cycle: enough for the run, at most ${CYCLE_PRELOAD_MAX}; replay: ${REPLAYED_RECORDS})`,
  },
  'acked-file': {
    type: 'string',
    value: 'FILE',
    help: 'publish: append a line per acknowledged record: stream, offset, message id',
  },
}

export const broker: LoadService = {
  name: 'broker',
  summary: 'records over HTTP: publish, claim and acknowledge, replay',
  options,
  examples: [
    'npm run load -- broker --workload publish --connections 256 --duration 30s --verify',
    'npm run load -- broker --workload publish --rate 15000 --report out.html',
    'npm run load -- broker --workload publish-batch --connections 8 --streams 4 --duration 30s',
    'npm run load -- broker --workload cycle --duration 30s',
    'npm run load -- broker --workload cycle --claim 100 --connections 8 --duration 30s',
    'npm run load -- broker --workload replay --connections 4 --duration 30s',
  ],
  plan,
}

function plan(options: OptionValues, run: RunOptions): Workload {
  const { authority, ...target } = parseTarget(options)
  const name = options.choice('workload', WORKLOADS)
  const streams = options.integer('streams', 1, STREAMS_MAX)
  const payloadBytes = options.integer('payload-bytes', 0, BODY_BYTES_MAX)
  const seed = options.has('seed') ? options.integer('seed', 0, 2 ** 32 - 1) : randomInt(2 ** 32)
  const load: BrokerLoad = {
    name,
    requests: new Requests(target, authority),
    streams,
    seed,
    messageIdPrefix: messageIdPrefix(seed),
    payload: payloadText(payloadBytes, seed),
    configuration: [
      ['target', `http://${authority}`],
      ['workload', name],
      ['streams', streams === 1 ? streamName(0) : `${streamName(0)} to ${streamName(streams - 1)}`],
      ['payload', `${payloadBytes} bytes`],
      ['seed', String(seed)],
    ],
  }
  switch (name) {
    case 'publish':
    case 'publish-batch':
      return planPublish(load, options)
    case 'cycle':
      return planCycle(load, options, run)
    case 'replay':
      return planReplay(load, options)
  }
}

/** Printable, needs no escaping in JSON, and does not compress to nothing. */
function payloadText(bytes: number, seed: number): string {
  const random = new Random(seed)
  const words = Array.from({ length: Math.ceil(bytes / 8) }, () => random.uint32().toString(16).padStart(8, '0'))
  return words.join('').slice(0, bytes)
}
