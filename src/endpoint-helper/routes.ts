/** The endpoint helper over HTTP: one implementation for every service that has it, in the service's own words for errors. */
import { Type } from '../schema.ts'
import { endpoint } from '../http/endpoint.ts'
import type { EndpointService } from '../http/endpoint.ts'
import type { Exchange, RequestHead } from '../http/exchange.ts'
import type { Endpoint, OperationDocument, Route } from '../http/routes.ts'
import { JSON_TYPE, answerText } from '../http/text-answer.ts'
import type { EndpointHelper } from './endpoint-helper.ts'
import { BODY_BYTES_MAX } from './limits.ts'

interface EndpointHelperRoutesOptions {
  readonly helper: Pick<EndpointHelper, 'store' | 'newest' | 'newestFirst'>
  /** Path of the most recent object; its one parameter is the activation id. */
  readonly recentPath: string
  /** Says what is wrong with a body, and what became of an object that could not be stored. */
  readonly service: EndpointService
}

const ACTIVATION_PATH = '/v1/endpoint/:activation_id'
const ACTIVATION_ID = /^[A-Za-z0-9._-]{1,128}$/
/** Parameters of these routes for the OpenAPI document. */
export const ENDPOINT_HELPER_PATH_PARAMETERS = { activation_id: { type: 'string', pattern: ACTIVATION_ID.source } }

/** Names of the routes whose path is the same in every service, likewise. */
export const ENDPOINT_HELPER_OPERATIONS = {
  [`POST ${ACTIVATION_PATH}`]: { id: 'storeObject', tag: 'endpoints' },
  [`GET ${ACTIVATION_PATH}/recent_100`]: { id: 'listNewestObjects', tag: 'endpoints' },
}

const StoredObject = Type.Object(
  {
    url: Type.String(),
    latency: Type.Number(),
    activation_id: Type.String({ description: 'equals the one in the path' }),
  },
  { additionalProperties: false },
)

const INVALID_ID = 'Invalid activation id'
const NO_DATA = 'No data found'
const STORED = 'Data stored' as const

export function endpointHelperRoutes(options: EndpointHelperRoutesOptions): readonly Route[] {
  const { helper, recentPath } = options
  const newest = (activationId: string): string | null => helper.newest(activationId)
  const newestFirst = (activationId: string): string | null => {
    const objects = helper.newestFirst(activationId)
    return objects.length === 0 ? null : `[${objects.join(',')}]`
  }
  return [
    { method: 'POST', path: ACTIVATION_PATH, endpoint: storing(options) },
    { method: 'GET', path: recentPath, endpoint: reading(newest, newestDocument) },
    { method: 'GET', path: `${ACTIVATION_PATH}/recent_100`, endpoint: reading(newestFirst, newestFirstDocument) },
  ]
}

function storing({ helper, service }: EndpointHelperRoutesOptions): Endpoint {
  const post = endpoint(service, {
    summary: 'Store an object for an activation id; answered when it is durable',
    body: StoredObject,
    bodyLimitBytes: BODY_BYTES_MAX,
    reply: Type.Literal(STORED),
    errors: ['the body is not an object of this form', 'the object could not be stored'],
    admit: admitActivation,
    handle({ admitted, body, exchange }, answer) {
      const { url, latency, activation_id } = body
      if (activation_id !== admitted) return answerText(exchange, 400, INVALID_ID)
      const stored = helper.store({ activationId: admitted, object: JSON.stringify({ url, latency, activation_id }) })
      stored.then(
        () => answerText(exchange, 200, STORED),
        (error: unknown) => answer.refused(error),
      )
    },
  })
  const document = post.document && { ...post.document, replies: [...post.document.replies, notSuchAnObject] }
  return { ...post, ...(document && { document }) }
}

const reading = (find: (activationId: string) => string | null, document: OperationDocument): Endpoint => ({
  document,
  begin(head, exchange) {
    const activationId = admitActivation(head, exchange)
    if (activationId === null) return
    const found = find(activationId)
    if (found === null) answerText(exchange, 404, NO_DATA)
    else exchange.answer(200, JSON_TYPE, found)
  },
})

/** The id in the path, or null when it was refused. */
function admitActivation(head: RequestHead, exchange: Exchange): string | null {
  const activationId = head.param(0)
  if (activationId !== null && ACTIVATION_ID.test(activationId)) return activationId
  answerText(exchange, 400, INVALID_ID)
  return null
}

const textReply = (status: number, description: string, text: string): OperationDocument['replies'][number] => ({
  status,
  description,
  mediaType: JSON_TYPE,
  schema: Type.Literal(text),
})

const notSuchAnObject: OperationDocument['replies'][number] = {
  status: 400,
  description:
    'the path has no valid activation id, the body has another one, or the body is not an object of this form',
  mediaType: JSON_TYPE,
  schema: Type.String(),
}
const invalidId = textReply(400, 'the path has no valid activation id', INVALID_ID)
const noData = textReply(404, 'nothing was stored for this activation id', NO_DATA)

const newestDocument: OperationDocument = {
  summary: 'The object stored last for an activation id',
  replies: [
    { status: 200, description: 'the object as it was stored', mediaType: JSON_TYPE, schema: StoredObject },
    invalidId,
    noData,
  ],
}

const newestFirstDocument: OperationDocument = {
  summary: 'The last 100 objects stored for an activation id',
  replies: [
    {
      status: 200,
      description: 'newest first',
      mediaType: JSON_TYPE,
      schema: Type.Array(StoredObject, { maxItems: 100 }),
    },
    invalidId,
    noData,
  ],
}
