/** Routes of replication. */
import { Type } from '../../schema.ts'
import { schemaCheck } from '../../schema-check.ts'
import { LongString } from '../../../native-free-codecs/json-reader.ts'
import type { Endpoint } from '../../http/routes.ts'
import { mapInTurns } from '../../http/turns.ts'
import { describeProblem } from '../../validation.ts'
import { REPLICA_APPLY_BODY_BYTES_MAX, REPLICA_APPLY_PAYLOAD_BYTES_MAX, REPLICA_APPLY_RECORDS_MAX } from '../limits.ts'
import { longStringEncodingOf } from '../publish-input.ts'
import { refuse } from '../refusals.ts'
import {
  ReplicaApplyReply,
  ReplicationControlReply,
  ReplicationPollReply,
  ReplicationStatusReply,
} from '../wire/node-answers.ts'
import { ReplicaApplyBody, ReplicaApplyEnvelope, ReplicatedRecord, ReplicationControlBody } from '../wire/requests.ts'
import type { ReplicaApply } from '../wire/requests.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { noPath } from './request.ts'
import { inSlices } from './sliced-json.ts'

export const replicationStatus = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'State of replication',
    path: noPath,
    reply: ReplicationStatusReply,
    errors: ['invalid_query'],
    handle: ({ admitted: { caller } }, answer) =>
      parts.operations.replicationStatus(inSlices(answer, 'targets', parts.turn), caller),
  })

export const pollWorkers = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Have the workers look for records to replicate',
    path: noPath,
    body: Type.Object({}, { additionalProperties: false }),
    bodyOptional: true,
    invalid: 'invalid_payload',
    reply: ReplicationPollReply,
    errors: ['invalid_payload', 'replication_not_configured'],
    handle: ({ admitted: { caller } }, answer) => parts.operations.pollReplication(answer, caller),
  })

export const pauseWorker = (parts: RouteParts): Endpoint => controlling(parts, 'Pause a worker', 'pauseReplication')
export const resumeWorker = (parts: RouteParts): Endpoint =>
  controlling(parts, 'Resume a paused worker', 'resumeReplication')

const controlling = (parts: RouteParts, summary: string, verb: 'pauseReplication' | 'resumeReplication'): Endpoint =>
  brokerEndpoint(parts, {
    summary,
    path: noPath,
    body: ReplicationControlBody,
    reply: ReplicationControlReply,
    errors: ['invalid_request', 'replication_worker_not_found', 'replication_not_configured'],
    handle: ({ admitted: { caller }, body }, answer) => parts.operations[verb](answer, caller, body),
  })

export const applyReplica = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Append records of another site; those applied before are skipped',
    path: noPath,
    body: ReplicaApplyBody,
    parse: parseReplicaApply,
    longStringOf: longStringEncodingOf,
    bodyLimitBytes: REPLICA_APPLY_BODY_BYTES_MAX,
    invalid: 'replica_apply_invalid',
    tooLarge: 'replica_apply_too_large',
    reply: ReplicaApplyReply,
    errors: ['replica_apply_invalid', 'replica_apply_gap', 'replica_apply_too_large', 'replica_apply_failed'],
    handle: ({ admitted: { caller }, body }, answer) => parts.operations.applyReplica(answer, caller, body),
  })

const envelope = schemaCheck(ReplicaApplyEnvelope)
const replicatedRecord = schemaCheck(ReplicatedRecord)

/**
 * @param value parsed JSON, in which what `longStringEncodingOf` names may be a LongString
 * @throws BrokerError
 */
export function parseReplicaApply(value: unknown): ReplicaApply | Promise<ReplicaApply> {
  if (hasTooManyRecords(value)) {
    throw refuse('replica_apply_too_large', `records must not be more than ${REPLICA_APPLY_RECORDS_MAX}`)
  }
  if (!envelope.accepts(value)) {
    throw refuse('replica_apply_invalid', describeProblem(envelope.errors(value), ReplicaApplyBody))
  }
  const given = value
  const records = mapInTurns(given.records, checkedRecord)
  return records instanceof Promise ? records.then((records) => bounded(given, records)) : bounded(given, records)
}

function checkedRecord(record: unknown, number: number): ReplicatedRecord {
  if (replicatedRecord.accepts(record)) return record
  const errors = replicatedRecord.errors(record).map((error) => ({
    ...error,
    instancePath: `/records/${number}${error.instancePath}`,
    schemaPath: `#/properties/records/items${error.schemaPath.slice(1)}`,
  }))
  throw refuse('replica_apply_invalid', describeProblem(errors, ReplicaApplyBody))
}

function bounded(given: Omit<ReplicaApply, 'records'>, records: readonly ReplicatedRecord[]): ReplicaApply {
  const saysSomething = (given.skipped_ranges ?? []).length > 0 || (given.origin_first_offset ?? 0) > 0
  if (records.length === 0 && !saysSomething) {
    throw refuse('replica_apply_invalid', 'records must not be empty without skipped_ranges')
  }
  const bytes = records.reduce((sum, record) => sum + bytesOf(record), 0)
  if (bytes > REPLICA_APPLY_PAYLOAD_BYTES_MAX) {
    throw refuse('replica_apply_too_large', `the records must not exceed ${REPLICA_APPLY_PAYLOAD_BYTES_MAX} bytes`)
  }
  return { ...given, records }
}

const hasTooManyRecords = (value: unknown): boolean =>
  typeof value === 'object' &&
  value !== null &&
  'records' in value &&
  Array.isArray(value.records) &&
  value.records.length > REPLICA_APPLY_RECORDS_MAX

/** Bytes of all parts of a record, not only of its payload. */
function bytesOf({ message_id, payload_hex, key_hex, headers }: ReplicatedRecord): number {
  let bytes = Buffer.byteLength(message_id) + bytesOfHex(payload_hex) + bytesOfHex(key_hex ?? '')
  for (const [name, text] of Object.entries(headers ?? {})) bytes += Buffer.byteLength(name) + Buffer.byteLength(text)
  return bytes
}

const bytesOfHex = (hex: string | LongString): number =>
  hex instanceof LongString ? hex.bytes.byteLength : hex.length / 2
