/** Load for the object store: objects put, read, asked for, all of these mixed, sent in parts, listed. */
import { randomInt } from 'node:crypto'
import { parseTarget } from '../options.ts'
import type { OptionTable, OptionValues } from '../options.ts'
import type { LoadService, Workload } from '../workload.ts'
import { planList } from './plan-list.ts'
import { planMixed } from './plan-mixed.ts'
import { planMultipart } from './plan-multipart.ts'
import { planPut } from './plan-put.ts'
import { planRead } from './plan-read.ts'
import { PRELOADED_KEYS, PRELOADED_OBJECTS } from './preloaded.ts'
import { Requests } from './requests.ts'
import { parseSizes } from './sizes.ts'
import type { Sizes } from './sizes.ts'

const WORKLOADS = ['put', 'get', 'head', 'mixed', 'multipart', 'list'] as const
type WorkloadName = (typeof WORKLOADS)[number]

/** What every workload builds on. */
export interface ObjectStoreLoad {
  readonly name: WorkloadName
  readonly requests: Requests
  readonly seed: number
  /** As written. */
  readonly sizesText: string
  readonly sizes: Sizes
  /** Prefix of the keys of what this run stores. */
  readonly keyPrefix: string
  /** Rows of the configuration that all workloads have. */
  readonly configuration: readonly (readonly [name: string, value: string])[]
}

const options: OptionTable = {
  url: { type: 'string', value: 'URL', default: 'http://127.0.0.1:9000', help: 'the server: http://host:port' },
  workload: { type: 'string', value: 'NAME', default: 'put', help: WORKLOADS.join(', ') },
  connections: {
    type: 'string',
    value: 'N',
    default: '64',
    help: 'keep-alive connections, one request in flight on each',
  },
  bucket: { type: 'string', value: 'NAME', default: 'load', help: 'the bucket, which it creates' },
  'object-size': {
    type: 'string',
    value: 'SIZES',
    default: '4KiB',
    help: 'of each object: 4KiB, 1KiB-64KiB (every doubling as likely), p50=4KiB,p99=1MiB',
  },
  parts: { type: 'string', value: 'N', default: '3', help: 'multipart: parts of an upload' },
  'part-size': { type: 'string', value: 'SIZE', default: '5MiB', help: 'multipart: of each part' },
  page: { type: 'string', value: 'N', default: '1000', help: 'list: keys in a page' },
  preload: {
    type: 'string',
    value: 'N',
    help: `objects there before measuring, put if need be (default: get, head, mixed: ${PRELOADED_OBJECTS}; list: ${PRELOADED_KEYS})`,
  },
  'acked-file': {
    type: 'string',
    value: 'FILE',
    help: 'put, mixed, multipart: append a line per acknowledged change: stored or deleted, key',
  },
}

export const objectstore: LoadService = {
  name: 'objectstore',
  summary: 'objects over HTTP: put, get, head, a mix, multipart uploads, listings (server in local mode)',
  options,
  examples: [
    'npm run load -- objectstore --workload put --object-size 4KiB --duration 30s --verify',
    'npm run load -- objectstore --workload put --object-size p50=4KiB,p99=1MiB --rate 2000 --report out.html',
    'npm run load -- objectstore --workload get --preload 100000 --duration 30s',
    'npm run load -- objectstore --workload mixed --object-size 1KiB-64KiB --duration 30s --verify',
    'npm run load -- objectstore --workload multipart --parts 4 --part-size 8MiB --connections 4 --batches 20 --verify',
    'npm run load -- objectstore --workload list --preload 1000000 --connections 4 --duration 30s',
  ],
  plan,
}

function plan(options: OptionValues): Workload {
  const { authority, ...target } = parseTarget(options)
  const name = options.choice('workload', WORKLOADS)
  const bucket = options.pathToken('bucket')
  const seed = options.has('seed') ? options.integer('seed', 0, 2 ** 32 - 1) : randomInt(2 ** 32)
  const sizesText = options.text('object-size')
  const load: ObjectStoreLoad = {
    name,
    requests: new Requests(target, authority, bucket),
    seed,
    sizesText,
    sizes: parseSizes('object-size', sizesText),
    keyPrefix: `${name}-${seed.toString(16).padStart(8, '0')}/`,
    configuration: [
      ['target', `http://${authority}/${bucket}`],
      ['workload', name],
      ['seed', String(seed)],
    ],
  }
  switch (name) {
    case 'put':
      return planPut(load, options)
    case 'get':
    case 'head':
      return planRead(load, name, options)
    case 'mixed':
      return planMixed(load, options)
    case 'multipart':
      return planMultipart(load, options)
    case 'list':
      return planList(load, options)
  }
}
