/** Both scanners find the same in a batch. */
import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'
import { scanLogsProtobuf, scanTracesProtobuf } from '../../native-free-codecs/otlp-protobuf-scan.ts'
import { encodeLogs, encodeTraces, logsRequests, toOtlpJson, tracesRequests } from '../support/otlp.ts'
import { scanLogs, scanTraces } from './json-batches.ts'

/** Everything in a batch except the ranges. */
const meaning = ({
  recordStart,
  recordEnd,
  groupScopeStart,
  groupScopeEnd,
  resourceStart,
  resourceEnd,
  groupSchemaUrlStart,
  groupSchemaUrlEnd,
  resourceSchemaUrlStart,
  resourceSchemaUrlEnd,
  ...rest
}: OtlpBatch) => {
  const absent = (start: Uint32Array, end: Uint32Array, count: number) =>
    Array.from({ length: count }, (_, i) => start[i] === 0 && end[i] === 0)
  const { recordCount, groupCount, resourceCount } = rest
  assert.ok(recordStart.every((start, i) => start <= recordEnd[i]!))
  return {
    recordCount,
    recordGroup: rest.recordGroup.slice(0, recordCount),
    timeHigh: rest.timeHigh.slice(0, recordCount),
    timeLow: rest.timeLow.slice(0, recordCount),
    traceWords: rest.traceWords.slice(0, 4 * recordCount),
    groupResource: rest.groupResource.slice(0, groupCount),
    scopeAbsent: absent(groupScopeStart, groupScopeEnd, groupCount),
    resourceAbsent: absent(resourceStart, resourceEnd, resourceCount),
    scopeUrlAbsent: absent(groupSchemaUrlStart, groupSchemaUrlEnd, groupCount),
    resourceUrlAbsent: absent(resourceSchemaUrlStart, resourceSchemaUrlEnd, resourceCount),
    claims: rest.resourceTenantClaim.slice(0, resourceCount),
    conflicts: rest.resourceTenantConflict.slice(0, resourceCount),
    datasets: rest.resourceDataset.slice(0, resourceCount),
  }
}

/** The same value, with the members of every object in another order. */
const shuffled = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(shuffled)
  if (typeof value !== 'object' || value === null) return value
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([key, member]) => [key, shuffled(member)]),
  )
}

test('a batch in JSON means what the same batch in protobuf means', () => {
  fc.assert(
    fc.property(logsRequests, fc.constantFrom(0, 1), fc.boolean(), (request, indent, reorder) => {
      const body = encodeLogs(request)
      const protobuf = new OtlpBatch()
      scanLogsProtobuf(body, 0, body.length, protobuf)
      const json = toOtlpJson(request)
      assert.deepEqual(
        meaning(scanLogs(JSON.stringify(reorder ? shuffled(json) : json, null, indent))),
        meaning(protobuf),
      )
    }),
    { numRuns: 200 },
  )
  fc.assert(
    fc.property(tracesRequests, fc.constantFrom(0, 1), fc.boolean(), (request, indent, reorder) => {
      const body = encodeTraces(request)
      const protobuf = new OtlpBatch()
      scanTracesProtobuf(body, 0, body.length, protobuf)
      const json = toOtlpJson(request)
      assert.deepEqual(
        meaning(scanTraces(JSON.stringify(reorder ? shuffled(json) : json, null, indent))),
        meaning(protobuf),
      )
    }),
    { numRuns: 200 },
  )
})
