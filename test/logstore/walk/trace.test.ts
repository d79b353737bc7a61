import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { FORMAT_JSON, SIGNAL_TRACE } from '../../../src/logstore/batch-frame.ts'
import { TestStore } from '../../support/stored-segments.ts'

const TRACE = '5b8efff798038103d269b633813fc60c'
const START = 1_763_721_600_000_000_000n

const spanOf = (spanId: string, name: string, start: bigint, end: bigint | null): object => ({
  traceId: TRACE,
  spanId: spanId.padStart(16, '0'),
  name,
  startTimeUnixNano: String(start),
  ...(end !== null && { endTimeUnixNano: String(end) }),
})

interface Tree {
  readonly start_time_unix_nano: string
  readonly end_time_unix_nano: string
  readonly roots: readonly { readonly name: string; readonly duration_nano: string }[]
}

/** A trace of spans that are stored, as a tree and as Jaeger has it. */
function traceOf(context: Parameters<typeof TestStore.open>[0], spans: readonly object[]) {
  const store = TestStore.open(context)
  const body = { resourceSpans: [{ scopeSpans: [{ spans }] }] }
  store.addBody('acme', Buffer.from(JSON.stringify(body)), SIGNAL_TRACE, FORMAT_JSON, ['shop'])
  const textOf = (form: 'tree' | 'jaeger'): string => {
    const { text } = store.walk('acme', { kind: 'trace', traceId: TRACE, form, deadlineMs: 10_000 })
    return Buffer.from(text).toString()
  }
  const tree = JSON.parse(textOf('tree')) as Tree // the tests look at what they have
  const { spans: ofJaeger } = JSON.parse(textOf('jaeger')) as { spans: readonly { duration: number }[] }
  return { tree, durations: ofJaeger.map(({ duration }) => duration) }
}

describe('a trace with a span that has no end, or one before its start', () => {
  it('is where its spans began, and such spans take no time', (context) => {
    const { tree, durations } = traceOf(context, [
      spanOf('a', 'whole', START, START + 5000n),
      spanOf('b', 'without', START + 1000n, null),
      spanOf('c', 'unset', START + 2000n, 0n),
      spanOf('d', 'backwards', START + 3000n, START - 7000n),
    ])
    assert.deepEqual([tree.start_time_unix_nano, tree.end_time_unix_nano], [String(START), String(START + 5000n)])
    assert.deepEqual(
      tree.roots.map(({ name, duration_nano }) => [name, duration_nano]),
      [
        ['whole', '5000'],
        ['without', '0'],
        ['unset', '0'],
        ['backwards', '0'],
      ],
    )
    assert.deepEqual(durations, [5, 0, 0, 0])
  })
})
