/** The workload cycle: workers of one consumer group, which claim and acknowledge. */
import { UsageError } from '../options.ts'
import type { OptionValues } from '../options.ts'
import type { RunOptions } from '../run.ts'
import { orUnverified } from '../verification.ts'
import type { Workload } from '../workload.ts'
import { refusalKind } from './answers.ts'
import { CycleSource } from './cycle-source.ts'
import { BATCH_MAX } from './limits.ts'
import { groupPath } from './names.ts'
import { createStreams, Filling } from './preparation.ts'
import type { BrokerLoad } from './service.ts'
import { finishedRecords, verifyCompleted } from './verify.ts'

/** Enough for a broker of this speed; a faster one finds the queue empty, and the workers refill it. */
const SINGLE_CYCLES_PER_SECOND = 20_000
const BATCH_CYCLE_RECORDS_PER_SECOND = 150_000
export const CYCLE_PRELOAD_MAX = 2_000_000

export function planCycle(load: BrokerLoad, options: OptionValues, run: RunOptions): Workload {
  const { requests, streams, payload } = load
  if (options.has('acked-file')) throw new UsageError('--acked-file is for publish and publish-batch')
  const group = options.pathToken('group')
  const claim = options.integer('claim', 1, BATCH_MAX)
  const preload = options.has('preload') ? options.integer('preload', 0, 1e9) : recordsFor(run, claim)
  const filling = new Filling(load)
  const cycle = { requests, group, claim, payloadBytes: payload.length }
  const totals = { completed: 0, unresolved: 0 }
  let finishedBefore = 0

  return {
    target: requests.target,
    unit: 'records',
    task: 'cycles',
    unitsPerTask: claim,
    configuration: [
      ...load.configuration,
      ['consumer group', group],
      ['claim', `${claim} ${claim === 1 ? 'record' : 'records'}`],
      ['waiting beforehand', `${preload} records`],
    ],
    async prepare(say) {
      await createStreams(requests, streams)
      const waiting = async (stream: number): Promise<number> =>
        Number((await requests.get(groupPath(stream, group)))['lag_messages'])
      await filling.topUp(preload, waiting, say)
      if (options.flag('verify')) finishedBefore = await finishedRecords(requests, streams, group)
    },
    openSource: (connection) => new CycleSource(cycle, connection % streams, () => filling.openSource(), totals),
    refusalKind,
    verify: () =>
      orUnverified(async () =>
        verifyCompleted(finishedBefore, await finishedRecords(requests, streams, group), totals),
      ),
    close: () => {},
  }
}

function recordsFor(run: RunOptions, claim: number): number {
  const fastest = claim === 1 ? SINGLE_CYCLES_PER_SECOND : BATCH_CYCLE_RECORDS_PER_SECOND
  const byTime = (run.durationMs / 1000) * (run.unitsPerSecond ?? fastest)
  return Math.ceil(Math.min(byTime, run.tasksMax * claim, CYCLE_PRELOAD_MAX))
}
