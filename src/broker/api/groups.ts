/** Routes that look into a consumer group, and those of its cursors. */
import { Type } from '../../schema.ts'
import type { Endpoint } from '../../http/routes.ts'
import type { RefusalCode } from '../refusals.ts'
import {
  CursorCommitReply,
  CursorDeleteReply,
  CursorListReply,
  CursorRewindReply,
  DelayedListReply,
  GroupDeleteReply,
  GroupListReply,
  GroupReply,
  GroupSeekReply,
  LeaseListReply,
  ReplayConsumerListReply,
} from '../wire/group-answers.ts'
import { CursorCommitBody, CursorRewindBody, SeekBody } from '../wire/requests.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { booleanOf, forceRules } from './query.ts'
import type { QueryRules } from './query.ts'
import { cursorOf, groupOf, streamOf } from './request.ts'
import { inSlices } from './sliced-json.ts'

const INSPECTION_ERRORS: readonly RefusalCode[] = ['invalid_request', 'invalid_query', 'stream_not_found']
const CURSOR_ERRORS: readonly RefusalCode[] = [
  'invalid_request',
  'stream_not_found',
  'write_not_allowed',
  'internal_error',
]

export const describeGroup = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Progress of a consumer group, without payloads',
    path: groupOf,
    reply: GroupReply,
    errors: [...INSPECTION_ERRORS, 'internal_error'],
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.describeGroup(inSlices(answer, 'cursors', parts.turn), caller, path),
  })

export const leases = (parts: RouteParts): Endpoint =>
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
  take: (query) => ({ includeCompleted: booleanOf(query, 'include_completed') }),
}

export const delayed = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Records of a consumer group that are given out again after a delay',
    path: groupOf,
    reply: DelayedListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.delayed(inSlices(answer, 'delayed', parts.turn), caller, path),
  })

export const replayConsumers = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Consumers that replayed the stream in the name of the group',
    path: groupOf,
    reply: ReplayConsumerListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.replayConsumers(inSlices(answer, 'replay_consumers', parts.turn), caller, path),
  })

export const cursors = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Cursors of a consumer group',
    path: groupOf,
    reply: CursorListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.cursors(inSlices(answer, 'cursors', parts.turn), caller, path),
  })

export const commitCursor = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Move a cursor forward',
    path: cursorOf,
    body: CursorCommitBody,
    reply: CursorCommitReply,
    errors: CURSOR_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) =>
      parts.operations.commitCursor(answer, caller, path.group, path.cursor, body.offset),
  })

export const rewindCursor = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Move a cursor back; audited',
    path: cursorOf,
    body: CursorRewindBody,
    reply: CursorRewindReply,
    errors: CURSOR_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) =>
      parts.operations.rewindCursor(answer, caller, path.group, path.cursor, body),
  })

export const deleteCursor = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: delete a cursor; audited',
    path: cursorOf,
    query: forceRules,
    reply: CursorDeleteReply,
    errors: DELETE_ERRORS,
    handle: ({ admitted: { caller, path, query } }, answer) =>
      parts.operations.deleteCursor(answer, caller, path.group, path.cursor, query),
  })

const DELETE_ERRORS: readonly RefusalCode[] = [...CURSOR_ERRORS, 'invalid_query', 'not_found']

export const listGroups = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: the consumer groups of a stream',
    path: streamOf,
    reply: GroupListReply,
    errors: INSPECTION_ERRORS,
    handle: ({ admitted: { caller, path } }, answer) =>
      parts.operations.listGroups(inSlices(answer, 'consumer_groups', parts.turn), caller, path),
  })

export const deleteGroup = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary:
      'Extension: delete a consumer group with its cursors; its subscription and delivery ids become invalid; audited',
    path: groupOf,
    query: forceRules,
    reply: GroupDeleteReply,
    errors: DELETE_ERRORS,
    handle: ({ admitted: { caller, path, query } }, answer) =>
      parts.operations.deleteGroup(answer, caller, path, query),
  })

export const seekGroup = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: give out all records again from an offset or a time on; audited',
    path: groupOf,
    body: SeekBody,
    reply: GroupSeekReply,
    errors: CURSOR_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.seekGroup(answer, caller, path, body),
  })
