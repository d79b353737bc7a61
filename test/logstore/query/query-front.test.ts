import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { askThread } from '../../../src/logstore/query/query-front.ts'
import { StoreError } from '../../../src/errors.ts'
import { parseQueryRequest } from '../../../src/logstore/query/request.ts'
import type { QueryAnswer, QueryIncident, QueryTask, Question } from '../../../src/logstore/query/task.ts'
import { isRefusal } from '../../../src/logstore/tenants/caller.ts'

const request = parseQueryRequest(Buffer.from('{"dataset":"app"}'))
const INCIDENT = { kind: 'frame', base: 0, position: 128 } as const
const DAMAGED: QueryAnswer = {
  kind: 'bundle_read_failed',
  message: 'the frame at position 128 is damaged',
  incident: INCIDENT,
}
const UNREADABLE: QueryAnswer = {
  kind: 'bundle_read_failed',
  message: 'records.log cannot be opened (ENOENT)',
  incident: null,
}
const BODY = new Uint8Array(1)

/** Asks a query thread that gives these answers one after the other. If `isDropped`, retention drops a segment before the first. */
async function ask(answers: (QueryAnswer | StoreError)[], isDropped: boolean) {
  assert(!('kind' in request))
  const seen = {
    tasks: [] as QueryTask<Question>[],
    incidents: [] as QueryIncident[],
    noted: [] as string[],
    held: 0,
  }
  let segments = [{ base: 0 }, { base: 4096 }]
  const answer = await askThread(
    {
      log: {
        committed: 8192,
        generation: 1,
        id: 7,
        incidents: [],
        get segments() {
          return segments as never // only where they begin is looked at
        },
      },
      expired: () => new Map([['logs', 5n]]),
      registry: {
        snapshot() {
          seen.held++
          return { indexed: [], catalog: new SharedArrayBuffer(0), release: () => void seen.held-- }
        },
      },
      jobs: {
        async run(task) {
          seen.tasks.push(task)
          if (isDropped) segments = segments.slice(-1)
          const answer = answers.shift()!
          if (answer instanceof StoreError) throw answer
          return answer
        },
      },
      onIncident: (incident) => void seen.incidents.push(incident),
      readErrors: { note: (message) => void seen.noted.push(message) },
      logger: { error: () => {}, warn: () => {} } as never, // nothing else is called
      bucket: null,
    },
    'acme',
    request,
    1000,
  )
  return { answer, ...seen }
}

describe('a query whose thread cannot read a bundle', () => {
  it('is asked again when retention dropped one meanwhile, with the deadline that it had, and nothing is quarantined', async () => {
    for (const failure of [DAMAGED, UNREADABLE]) {
      const { answer, tasks, incidents, noted, held } = await ask([failure, { kind: 'ok', body: BODY }], true)
      assert.equal(answer, BODY)
      assert.equal(tasks.length, 2)
      assert.equal(tasks[1]!.deadlineAtMs, tasks[0]!.deadlineAtMs)
      assert.deepEqual([incidents, noted, held], [[], [], 0])
    }
  })

  it('is told so when nothing was dropped', async () => {
    const damaged = await ask([DAMAGED], false)
    assert(isRefusal(damaged.answer))
    assert.deepEqual([damaged.answer.kind, damaged.incidents, damaged.held], ['bundle_read_failed', [INCIDENT], 0])
    const unreadable = await ask([UNREADABLE], false)
    assert.deepEqual([unreadable.noted, unreadable.incidents], [[UNREADABLE.message], []])
  })

  it('is told when it is too late, whatever was dropped', async () => {
    const late: QueryAnswer = { kind: 'deadline_exceeded', message: 'late', incident: null }
    const { answer, tasks } = await ask([late], true)
    assert(isRefusal(answer))
    assert.deepEqual([answer.kind, tasks.length], ['deadline_exceeded', 1])
  })

  it('is told that it is too late when its thread did not come back in time, and that the thread failed when it died, neither of which is a read error', async () => {
    for (const [code, kind] of [
      ['job_timed_out', 'deadline_exceeded'],
      ['job_thread_died', 'bundle_read_failed'],
    ] as const) {
      const { answer, noted } = await ask([new StoreError('unavailable', code, 'of the pool')], false)
      assert(isRefusal(answer))
      assert.deepEqual([answer.kind, noted], [kind, []])
    }
  })

  it('fails as a bug of ours when the thread threw, or its question could not be cloned, which is no read error either', async () => {
    const failure = new StoreError(
      'unavailable',
      'job_failed',
      'logstore query job failed: function … could not be cloned',
    )
    await assert.rejects(ask([failure], false), failure)
  })
})
