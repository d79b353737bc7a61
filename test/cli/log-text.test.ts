import assert from 'node:assert/strict'
import { it } from 'node:test'
import { recordLine } from '../../src/cli/log-text.ts'
import { PLAIN } from '../../src/cli/style.ts'

it('a line of a span says how long it took: nothing without an end, and no time when it ends before it starts', () => {
  const lineOf = (end: unknown): string => {
    const record = { name: 'GET /', startTimeUnixNano: '1763721600000000000', endTimeUnixNano: end }
    const about = { record_id: 'x', signal: 'trace', dataset: 'shop', trace_id: null }
    const shown = { ...about, time_unix_nano: '1763721600000000000', raw_payload: { record } }
    return recordLine(shown, PLAIN, false).split('  ').slice(1).join('  ')
  }
  assert.equal(lineOf('1763721600005000000'), 'SPAN   GET /  5.00 ms')
  assert.equal(lineOf('1763721599000000000'), 'SPAN   GET /  0.00 ms')
  for (const none of ['0', 0, undefined]) assert.equal(lineOf(none), 'SPAN   GET /')
})

it('a line of a log record shows values beside nulls, which stand for absent members', () => {
  const lineOf = (body: object): string => {
    const attributes = [{ key: 'k', value: { stringValue: null, boolValue: null, intValue: '5' } }]
    const about = { record_id: 'x', signal: 'log', dataset: 'shop', trace_id: null, severity_number: 9 }
    const shown = { ...about, time_unix_nano: '1763721600000000000', raw_payload: { record: { body, attributes } } }
    return recordLine(shown, PLAIN, false).split('  ').slice(1).join('  ')
  }
  assert.equal(lineOf({ stringValue: null, doubleValue: 1.5 }), 'INFO   1.5  k=5')
  assert.equal(lineOf({ stringValue: 'paid', intValue: null }), 'INFO   paid  k=5')
})
