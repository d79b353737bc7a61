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
    handle: async ({ admitted: { caller, path } }) =>
      inSlices(await parts.operations.describeGroup(caller, path), 'cursors', parts.turn),
  })

export const leases = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Leases of a consumer group',
    path: groupOf,
    query: leaseRules,
    reply: LeaseListReply,
    errors: INSPECTION_ERRORS,
    handle: async ({ admitted: { caller, path, query } }) =>
      inSlices(await parts.operations.leases(caller, path, query.includeCompleted), 'leases', parts.turn),
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
    handle: async ({ admitted: { caller, path } }) =>
      inSlices(await parts.operations.delayed(caller, path), 'delayed', parts.turn),
  })

export const replayConsumers = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Who replayed under the name of the group',
    path: groupOf,
    reply: ReplayConsumerListReply,
    errors: INSPECTION_ERRORS,
    handle: async ({ admitted: { caller, path } }) =>
      inSlices(await parts.operations.replayConsumers(caller, path), 'replay_consumers', parts.turn),
  })

export const cursors = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Cursors of a consumer group',
    path: groupOf,
    reply: CursorListReply,
    errors: INSPECTION_ERRORS,
    handle: async ({ admitted: { caller, path } }) =>
      inSlices(await parts.operations.cursors(caller, path), 'cursors', parts.turn),
  })

export const commitCursor = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Move a cursor forward',
    path: cursorOf,
    body: CursorCommitBody,
    reply: CursorCommitReply,
    errors: CURSOR_ERRORS,
    handle: ({ admitted: { caller, path }, body }) =>
      parts.operations.commitCursor(caller, path.group, path.cursor, body.offset),
  })

export const rewindCursor = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Move a cursor back; audited',
    path: cursorOf,
    body: CursorRewindBody,
    reply: CursorRewindReply,
    errors: CURSOR_ERRORS,
    handle: ({ admitted: { caller, path }, body }) =>
      parts.operations.rewindCursor(caller, path.group, path.cursor, body),
  })
