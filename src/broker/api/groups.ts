/** Routes that look into a consumer group, and those of its cursors. */
import { Type } from 'typebox'
import type { Endpoint } from '../../http/routes.ts'
import { refuse } from '../refusals.ts'
import type { RefusalCode } from '../refusals.ts'
import {
  CursorCommitReply,
  CursorListReply,
  CursorRewindReply,
  DelayedListReply,
  GroupReply,
  LeaseListReply,
  ReplayConsumerListReply,
} from '../wire/group-answers.ts'
import { CursorCommitBody, CursorRewindBody } from '../wire/requests.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { BrokerHttpParts } from './parts.ts'
import type { QueryRules } from './query.ts'
import { cursorOf, groupOf } from './request.ts'
import { inSlices } from './sliced-json.ts'

const INSPECTION_ERRORS: readonly RefusalCode[] = ['invalid_request', 'invalid_query', 'stream_not_found']
const CURSOR_ERRORS: readonly RefusalCode[] = [
  'invalid_request',
  'stream_not_found',
  'write_not_allowed',
  'internal_error',
]

export const describeGroup = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Progress of a consumer group, without payloads',
    path: groupOf,
    reply: GroupReply,
    errors: [...INSPECTION_ERRORS, 'internal_error'],
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.describeGroup(inSlices(answer, 'cursors', parts.turn), caller, path),
  })

export const leases = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Leases of a consumer group',
    path: groupOf,
    query: leaseRules,
    reply: LeaseListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path, query } }, answer) =>
      parts.operations.leases(inSlices(answer, 'leases', parts.turn), caller, path, query.includeCompleted),
  })

const leaseRules: QueryRules<{ readonly includeCompleted: boolean }> = {
  parameters: { include_completed: Type.Boolean({ default: false }) },
  take(query) {
    const value = query.get('include_completed') ?? 'false'
    if (value === 'true' || value === 'false') return { includeCompleted: value === 'true' }
    throw refuse('invalid_query', 'include_completed must be true or false')
  },
}

export const delayed = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Records that wait for their time to be given out again',
    path: groupOf,
    reply: DelayedListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.delayed(inSlices(answer, 'delayed', parts.turn), caller, path),
  })

export const replayConsumers = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Who replayed under the name of the group',
    path: groupOf,
    reply: ReplayConsumerListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.replayConsumers(inSlices(answer, 'replay_consumers', parts.turn), caller, path),
  })

export const cursors = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Cursors of a consumer group',
    path: groupOf,
    reply: CursorListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.cursors(inSlices(answer, 'cursors', parts.turn), caller, path),
  })

export const commitCursor = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Move a cursor forward',
    path: cursorOf,
    body: CursorCommitBody,
    reply: CursorCommitReply,
    errors: CURSOR_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) =>
      parts.operations.commitCursor(answer, caller, path.group, path.cursor, body.offset),
  })

export const rewindCursor = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Move a cursor back; audited',
    path: cursorOf,
    body: CursorRewindBody,
    reply: CursorRewindReply,
    errors: CURSOR_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) =>
      parts.operations.rewindCursor(answer, caller, path.group, path.cursor, body),
  })
