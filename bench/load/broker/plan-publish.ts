/** The workloads publish and publish-batch. */
import assert from 'node:assert/strict'
import { UsageError } from '../options.ts'
import type { OptionValues } from '../options.ts'
import { orUnverified } from '../verification.ts'
import type { Workload } from '../workload.ts'
import { AcknowledgedRecords } from './acknowledged-records.ts'
import { refusalKind } from './answers.ts'
import { BATCH_MAX, BODY_BYTES_MAX } from './limits.ts'
import { createStreams } from './preparation.ts'
import { PublishSource, RecordNumbers } from './publish-source.ts'
import type { BrokerLoad } from './service.ts'
import { verifyPublished } from './verify.ts'

const DURABILITY_MODES = ['volatile', 'local-append', 'local-sync'] as const

export function planPublish(load: BrokerLoad, options: OptionValues): Workload {
  const { requests, streams, messageIdPrefix, payload } = load
  if (options.has('preload')) throw new UsageError('--preload is for cycle and replay')
  const durabilityMode = options.has('durability') ? options.choice('durability', DURABILITY_MODES) : null
  const batch = load.name === 'publish' ? null : options.integer('batch', 1, BATCH_MAX)
  if ((batch ?? 1) * payload.length > BODY_BYTES_MAX) {
    throw new UsageError(`--batch times --payload-bytes must not exceed ${BODY_BYTES_MAX} bytes`)
  }
  const acknowledged = openAcknowledged(options, messageIdPrefix)
  const numbers = new RecordNumbers(streams, batch ?? 1)
  const publishOptions = { requests, batch, messageIdPrefix, payload, durabilityMode }

  return {
    target: requests.target,
    unit: 'records',
    task: 'requests',
    unitsPerTask: batch ?? 1,
    configuration: [
      ...load.configuration,
      ['durability', durabilityMode ?? 'default of the stream'],
      ...(batch === null ? [] : [['batch', `${batch} records`] as const]),
    ],
    prepare: () => createStreams(requests, streams),
    openSource: () => new PublishSource(publishOptions, numbers, acknowledged),
    refusalKind,
    verify: () =>
      orUnverified(() => {
        assert(acknowledged !== null)
        const streamOf = (record: number): number => numbers.streamOf(record)
        return verifyPublished(requests, { count: numbers.taken, streamOf, messageIdPrefix, payload, acknowledged })
      }),
    close: () => acknowledged?.close(),
  }
}

/** Null: they are not needed. */
function openAcknowledged(options: OptionValues, messageIdPrefix: string): AcknowledgedRecords | null {
  const path = options.has('acked-file') ? options.text('acked-file') : null
  if (path === null && !options.flag('verify')) return null
  try {
    return new AcknowledgedRecords(messageIdPrefix, path)
  } catch (error) {
    if (error instanceof Error && 'code' in error) throw new UsageError(`--acked-file: ${error.message}`)
    throw error
  }
}
