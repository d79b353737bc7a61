/** Routes of streams themselves. */
import type { Endpoint } from '../../http/routes.ts'
import { CreateStreamReply, StreamListReply, StreamReply } from '../wire/record-answers.ts'
import { CreateStreamBody } from '../wire/requests.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { BrokerHttpParts } from './parts.ts'
import { noPath, streamOf } from './request.ts'
import { inSlices } from './sliced-json.ts'

export const createStream = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Create a stream',
    path: streamOf,
    body: CreateStreamBody,
    bodyOptional: true,
    reply: CreateStreamReply,
    status: 201,
    errors: ['invalid_request', 'stream_already_exists', 'internal_error'],
    handle: ({ admitted: { caller, path }, body }, answer) => parts.operations.createStream(answer, caller, path, body),
  })

export const listStreams = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'The streams of the tenant',
    path: noPath,
    reply: StreamListReply,
    errors: ['invalid_query'],
    handle: ({ admitted: { caller } }, answer) =>
      parts.operations.listStreams(inSlices(answer, 'streams', parts.turn), caller),
  })

export const describeStream = (parts: BrokerHttpParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'One stream',
    path: streamOf,
    reply: StreamReply,
    errors: ['invalid_request', 'invalid_query', 'stream_not_found'],
    handle: ({ admitted: { caller, path } }, answer) => parts.operations.describeStream(answer, caller, path),
  })
