import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { Health } from '../../src/observability/health.ts'
import { logProblem, reportLogState } from '../../src/observability/log-state.ts'
import { createLogger, loggerOf } from '../../src/observability/logger.ts'
import type { LogState } from '../../src/log/log.ts'

describe('the log', () => {
  it('is one JSON object a line that names its service, from the least level up', () => {
    const lines: string[] = []
    const logger = loggerOf(createLogger('info', { write: (line) => void lines.push(line) }), 'logstore')
    logger.debug({}, 'hidden')
    logger.info({ request_id: 'r-1' }, 'seen')
    const line = JSON.parse(lines.join('')) as Record<string, unknown>
    assert.deepEqual(
      [line['level'], line['service'], line['request_id'], line['msg']],
      ['info', 'logstore', 'r-1', 'seen'],
    )
    assert.match(String(line['time']), /^\d{4}-\d\d-\d\dT/)
  })

  it('never shows what is named like a secret', () => {
    const lines: string[] = []
    const logger = createLogger('info', { write: (line) => void lines.push(line) })
    logger.info({ headers: { authorization: 'Bearer s3cret' }, token: 's3cret', a: { b: { token: 's3cret' } } }, 'oops')
    const reason = 'https://me:s3cret@host/x?token=s3cret gave no answer'
    logger.warn({ reason, place: { url: 'nats://s3cret@host' } }, 'cannot reach http://me:s3cret@host')
    assert.doesNotMatch(lines.join(''), /s3cret/)
    assert.match(lines[1] ?? '', /"https:\/\/…@host\/x\?token=… gave no answer"/)
  })
})

describe('health', () => {
  it('is every part that is not well, in a sentence', () => {
    const health = new Health(() => 0)
    let journal: string | null = null
    health.add('journal', () => journal)
    health.add('decode lane', () => 'restarting')
    assert.deepEqual(health.problems(), ['decode lane: restarting'])
    journal = 'read-only'
    assert.deepEqual(health.problems(), ['journal: read-only', 'decode lane: restarting'])
  })
})

describe('the state of a log', () => {
  const degraded = { kind: 'degraded', code: 'EIO', message: 'replica /b: EIO' } as const
  const readOnly = { kind: 'read-only', code: 'ENOSPC', message: '/a: ENOSPC' } as const

  function reported(opened: LogState, ...changes: readonly LogState[]): unknown[] {
    const lines: unknown[] = []
    const line =
      (level: string) =>
      (details: object, message: string): void =>
        void lines.push([level, message, details])
    let change: (state: LogState) => void = () => {}
    const log = {
      state: opened,
      onStateChange: (listener: typeof change): void => void (change = listener),
      onFull: () => {},
    }
    reportLogState(log, { info: line('info'), warn: line('warn'), error: line('error') })
    for (const state of changes) change(state)
    return lines
  }

  it('is logged when it changes, once, with its code and message, and when all is well again', () => {
    const restarting = { kind: 'restarting', code: 'log_restarting', message: 'a thread died' } as const
    assert.deepEqual(reported({ kind: 'ok' }, restarting, { kind: 'ok' }, readOnly, { ...readOnly }), [
      ['error', 'the log is restarting', { code: 'log_restarting', reason: 'a thread died' }],
      ['info', 'the log is ok again', {}],
      ['error', 'the log is read-only', { code: 'ENOSPC', reason: '/a: ENOSPC' }],
    ])
  })

  it('is logged when it opens ill, and not when it opens well or is closed', () => {
    assert.deepEqual(reported(degraded, { kind: 'closed' }), [
      ['error', 'the log is degraded', { code: 'EIO', reason: 'replica /b: EIO' }],
    ])
    assert.deepEqual(reported({ kind: 'ok' }, { kind: 'closed' }), [])
  })

  it('is a problem when it takes nothing, with its message', () => {
    const problems = [{ kind: 'ok' } as const, degraded, readOnly].map((state) => logProblem({ state, cluster: null }))
    assert.deepEqual(problems, [null, null, 'read-only: /a: ENOSPC'])
  })
})
