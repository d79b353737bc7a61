/** The workload replay. */
import { UsageError } from '../options.ts'
import type { OptionValues } from '../options.ts'
import type { Workload } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { BATCH_MAX } from './limits.ts'
import { streamPath } from './names.ts'
import { createStreams, Filling } from './preparation.ts'
import { ReplaySource } from './replay-source.ts'
import type { BrokerLoad } from './service.ts'

export const REPLAYED_RECORDS = 100_000

export function planReplay(load: BrokerLoad, options: OptionValues): Workload {
  const { requests, streams } = load
  if (options.has('acked-file')) throw new UsageError('--acked-file is for publish and publish-batch')
  const page = options.integer('page', 1, BATCH_MAX)
  const preload = options.has('preload') ? options.integer('preload', 0, 1e9) : REPLAYED_RECORDS
  const filling = new Filling(load)

  return {
    target: requests.target,
    unit: 'records',
    task: 'requests',
    unitsPerTask: page,
    configuration: [
      ...load.configuration,
      ['page', `${page} records`],
      ['there beforehand', `${preload} records at least`],
    ],
    async prepare(say) {
      await createStreams(requests, streams)
      const there = async (stream: number): Promise<number> =>
        Number((await requests.get(streamPath(stream)))['record_count'])
      await filling.topUp(preload, there, say)
    },
    openSource: (connection) => new ReplaySource(requests, connection % streams, page),
    refusalKind,
    verify: null,
    close: () => {},
  }
}
