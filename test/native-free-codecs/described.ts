/** A batch as plain values, either from what a scanner described or from what protobufjs decodes. */
import assert from 'node:assert/strict'
import type Long from 'long'
import { RECORDS_PER_BATCH_MAX } from '../../native-free-codecs/otlp-batch.ts'
import type { OtlpBatch } from '../../native-free-codecs/otlp-batch.ts'
import { messageType } from '../../src/logstore/query/render/otlp-types.ts'
import { LOGS_REQUEST, TRACES_REQUEST } from '../support/otlp.ts'

export const LOG_RECORD = 'opentelemetry.proto.logs.v1.LogRecord'
export const SPAN = 'opentelemetry.proto.trace.v1.Span'
const SCOPE = 'opentelemetry.proto.common.v1.InstrumentationScope'
const RESOURCE = 'opentelemetry.proto.resource.v1.Resource'

export interface Described {
  readonly time: bigint
  readonly traceId: string
  readonly tenantClaim: string | null
  readonly tenantConflict: boolean
  readonly dataset: string | null
  readonly record: unknown
  readonly scope: unknown
  readonly resource: unknown
  readonly schemaUrls: readonly [resource: string, scope: string]
}

export const timeOf = (batch: OtlpBatch, record: number): bigint =>
  (BigInt(batch.timeHigh[record]!) << 32n) | BigInt(batch.timeLow[record]!)

export const traceIdOf = (batch: OtlpBatch, record: number): string =>
  [...batch.traceWords.subarray(4 * record, 4 * record + 4)].map((word) => word.toString(16).padStart(8, '0')).join('')

/** @param recordType full name of the protobuf message in the record ranges */
export function describedByScan(bytes: Uint8Array, batch: OtlpBatch, recordType: string): Described[] {
  const decode = (type: string, start: number, end: number) =>
    start === 0 && end === 0 ? null : plain(type, Buffer.from(bytes.subarray(start, end)))
  const urlOf = (start: Uint32Array, end: Uint32Array, row: number) =>
    Buffer.from(bytes.subarray(start[row], end[row])).toString()
  assert.ok(batch.recordCount <= RECORDS_PER_BATCH_MAX)
  return Array.from({ length: batch.recordCount }, (_, record) => {
    const group = batch.recordGroup[record]!
    const resource = batch.groupResource[group]!
    assert.ok(group < batch.groupCount)
    assert.ok(resource < batch.resourceCount)
    return {
      time: timeOf(batch, record),
      traceId: traceIdOf(batch, record),
      tenantClaim: batch.resourceTenantClaim[resource]!,
      tenantConflict: batch.resourceTenantConflict[resource]!,
      dataset: batch.resourceDataset[resource]!,
      record: plain(recordType, Buffer.from(bytes.subarray(batch.recordStart[record], batch.recordEnd[record]))),
      scope: decode(SCOPE, batch.groupScopeStart[group]!, batch.groupScopeEnd[group]!),
      resource: decode(RESOURCE, batch.resourceStart[resource]!, batch.resourceEnd[resource]!),
      schemaUrls: [
        urlOf(batch.resourceSchemaUrlStart, batch.resourceSchemaUrlEnd, resource),
        urlOf(batch.groupSchemaUrlStart, batch.groupSchemaUrlEnd, group),
      ],
    }
  })
}

const plain = (type: string, bytes: Buffer): unknown => toPlain(messageType(type), messageType(type).decode(bytes))
const toPlain = (type: ReturnType<typeof messageType>, message: object): unknown =>
  type.toObject(type.fromObject(message), { longs: String, bytes: String })

interface DecodedRecord {
  timeUnixNano?: Long
  observedTimeUnixNano?: Long
  startTimeUnixNano?: Long
  traceId?: Uint8Array
}
interface DecodedScopeGroup {
  scope?: object
  schemaUrl?: string
  logRecords?: DecodedRecord[]
  spans?: DecodedRecord[]
}
interface DecodedResourceGroup {
  schemaUrl?: string
  resource?: { attributes?: { key?: string; value?: { value?: string; stringValue?: string } }[] }
  scopeLogs?: DecodedScopeGroup[]
  scopeSpans?: DecodedScopeGroup[]
}

export function describedByProtobufjs(bytes: Buffer, signal: 'log' | 'trace'): Described[] {
  const isLog = signal === 'log'
  const request = messageType(isLog ? LOGS_REQUEST : TRACES_REQUEST).decode(bytes)
  const { resourceLogs, resourceSpans } = request as unknown as Record<string, DecodedResourceGroup[] | undefined>
  const described: Described[] = []
  for (const group of (isLog ? resourceLogs : resourceSpans) ?? []) {
    const { tenantClaim, tenantConflict, dataset } = identity(group)
    for (const scopeGroup of (isLog ? group.scopeLogs : group.scopeSpans) ?? []) {
      for (const record of (isLog ? scopeGroup.logRecords : scopeGroup.spans) ?? []) {
        described.push({
          time: isLog
            ? toBigInt(record.timeUnixNano) || toBigInt(record.observedTimeUnixNano)
            : toBigInt(record.startTimeUnixNano),
          traceId: Buffer.from(record.traceId?.length === 16 ? record.traceId : Buffer.alloc(16)).toString('hex'),
          tenantClaim,
          tenantConflict,
          dataset,
          record: toPlain(messageType(isLog ? LOG_RECORD : SPAN), record),
          scope: scopeGroup.scope ? toPlain(messageType(SCOPE), scopeGroup.scope) : null,
          resource: group.resource ? toPlain(messageType(RESOURCE), group.resource) : null,
          schemaUrls: [group.schemaUrl ?? '', scopeGroup.schemaUrl ?? ''],
        })
      }
    }
  }
  return described
}

const toBigInt = (value: Long | undefined): bigint => BigInt(value?.toString() ?? 0)

function identity(group: DecodedResourceGroup): Pick<Described, 'tenantClaim' | 'tenantConflict' | 'dataset'> {
  const attributes = group.resource?.attributes ?? []
  const strings = (keys: string[]): (string | null)[] =>
    attributes
      .filter((attribute) => keys.includes(attribute.key ?? ''))
      .map(({ value }) => (value?.value === 'stringValue' ? value.stringValue! : null))
  const claims = strings(['tenant_id', 'service.logstore.tenant_id'])
  return {
    tenantClaim: claims.find((claim) => claim !== null) ?? null,
    tenantConflict: new Set(claims).size > 1 || claims.includes(null),
    dataset: strings(['service.name']).at(-1) || null,
  }
}
