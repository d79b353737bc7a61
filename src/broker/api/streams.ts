/** Routes of streams themselves. */
import type { Endpoint } from '../../http/routes.ts'
import { BrokerError } from '../refusals.ts'
import type { RefusalCode } from '../refusals.ts'
import {
  CreateStreamReply,
  DeleteStreamReply,
  PurgeStreamReply,
  RedriveReply,
  StreamListReply,
  StreamReply,
  UpdateStreamReply,
} from '../wire/record-answers.ts'
import { CreateStreamBody, PurgeStreamBody, RedriveBody, UpdateStreamBody } from '../wire/requests.ts'
import type { Identity } from './access.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { RouteParts } from './parts.ts'
import { forceRules } from './query.ts'
import { noPath, streamOf } from './request.ts'
import { inSlices } from './sliced-json.ts'

export const createStream = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Create a stream',
    path: streamOf,
    body: CreateStreamBody,
    bodyOptional: true,
    reply: CreateStreamReply,
    status: 201,
    errors: ['invalid_request', 'stream_already_exists', 'internal_error'],
    handle({ admitted: { caller, path }, body }, answer) {
      demandTarget(parts, caller, body.failure_policy?.dead_letter_stream)
      parts.operations.createStream(answer, caller, path, body)
    },
  })

export const listStreams = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'The streams of the tenant',
    path: noPath,
    reply: StreamListReply,
    errors: ['invalid_query'],
    handle: ({ admitted: { caller } }, answer) =>
      parts.operations.listStreams(inSlices(answer, 'streams', parts.turn), caller),
  })

export const describeStream = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'One stream',
    path: streamOf,
    reply: StreamReply,
    errors: ['invalid_request', 'invalid_query', 'stream_not_found'],
    handle: ({ admitted: { caller, path } }, answer) => parts.operations.describeStream(answer, caller, path),
  })

const LIFE_CYCLE_ERRORS: readonly RefusalCode[] = [
  'invalid_request',
  'stream_not_found',
  'write_not_allowed',
  'internal_error',
]

export const updateStream = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: change retention, failure policy and default durability; audited',
    path: streamOf,
    query: forceRules,
    body: UpdateStreamBody,
    reply: UpdateStreamReply,
    errors: LIFE_CYCLE_ERRORS,
    handle({ admitted: { caller, path, query }, body }, answer) {
      const policy = body.failure_policy ?? null
      demandTarget(parts, caller, policy?.dead_letter_stream) // even if the stream does not exist
      const keepsTarget = policy !== null && policy.dead_letter_stream === undefined
      const copyRefusal = keepsTarget ? [(target: string) => targetRefusal(parts, caller, target)] : []
      parts.operations.updateStream(answer, caller, path, body, query, ...copyRefusal)
    },
  })

export const deleteStream = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: delete a stream with its records, consumer groups and cursors; audited',
    path: streamOf,
    query: forceRules,
    reply: DeleteStreamReply,
    errors: [...LIFE_CYCLE_ERRORS, 'invalid_query'],
    handle: ({ admitted: { caller, path, query } }, answer) =>
      parts.operations.deleteStream(answer, caller, path, query),
  })

export const purgeStream = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: remove the records below an offset; audited',
    path: streamOf,
    query: forceRules,
    body: PurgeStreamBody,
    reply: PurgeStreamReply,
    errors: LIFE_CYCLE_ERRORS,
    handle: ({ admitted: { caller, path, query }, body }, answer) =>
      parts.operations.purgeStream(answer, caller, path, body, query),
  })

export const redrive = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Extension: put dead letters back into the streams they came from, each once; audited',
    path: streamOf,
    body: RedriveBody,
    bodyOptional: true,
    reply: RedriveReply,
    errors: LIFE_CYCLE_ERRORS,
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.redrive(answer, caller, path, body),
  })

/** Null: the caller may have records copied there. */
function targetRefusal(parts: RouteParts, caller: Identity, target: string): BrokerError | null {
  try {
    demandTarget(parts, caller, target)
    return null
  } catch (error) {
    if (error instanceof BrokerError) return error
    throw error
  }
}

/** The caller must be allowed to publish to a stream into which it lets records be copied. @throws BrokerError authorization_denied */
function demandTarget(parts: RouteParts, caller: Identity, target: string | null | undefined): void {
  if (typeof target === 'string') parts.demand(caller, 'stream.publish', target)
}
