/** Routes about the node itself. */
import { Type } from '../../schema.ts'
import { answerWith } from '../../http/endpoint.ts'
import { ROLE_QUERY, answeredByRole } from '../../http/cluster.ts'
import type { Exchange, RequestHead } from '../../http/exchange.ts'
import type { Endpoint } from '../../http/routes.ts'
import { serializer } from '../../http/serializer.ts'
import { JSON_TYPE, answerLine } from '../../http/text-answer.ts'
import { degradedHeader } from '../../http/standing-endpoints.ts'
import { refuse } from '../refusals.ts'
import { AnonymousHealthReply, HealthReply } from '../wire/node-answers.ts'
import { brokerEndpoint } from './endpoint.ts'
import type { Access } from './access.ts'
import type { RouteParts } from './parts.ts'
import { noPath } from './request.ts'

const METRICS_TYPE = 'text/plain'
const stringifyHealth = serializer(HealthReply)
const stringifyForAnonymous = serializer(AnonymousHealthReply)

/** Public, and never refused: problems are in the answer. If the node needs credentials, a caller without them learns only status and version. */
export const health = (parts: RouteParts): Endpoint => ({
  document: {
    security: [],
    summary: 'State of the node',
    query: ROLE_QUERY,
    replies: [
      { status: 200, description: 'success', mediaType: JSON_TYPE, schema: HealthReply },
      { status: 503, description: 'it does not lead its cluster', mediaType: JSON_TYPE, schema: Type.String() },
    ],
  },
  begin(head, exchange) {
    if (answeredByRole(head, exchange, parts.cluster)) return
    const { node } = parts
    const { nodeId, version } = node
    const storage = parts.storage()
    const { status } = storage
    if (!isKnown(parts.access, head, exchange)) {
      return answerLine(exchange, 200, stringifyForAnonymous({ status, service: 'mq', version }))
    }
    const reply: HealthReply = {
      status,
      service: 'mq',
      version,
      node_id: nodeId,
      http_bind: node.httpBind(),
      storage,
      clock: parts.clock(),
      security: { auth_mode: node.authMode },
      audit: { status }, // audit events are frames of the same log
      metrics: { exposure: node.metricsExposure },
      release: { channel: 'private-beta', version },
    }
    answerLine(exchange, 200, stringifyHealth(reply), degradedHeader(parts.health))
  },
})

/** True when the caller has credentials of this node, or the node asks for none. */
export function isKnown(access: Access, head: RequestHead, exchange: Exchange): boolean {
  try {
    access.identify(head, exchange)
    return true
  } catch {
    return false
  }
}

export const metrics = (parts: RouteParts): Endpoint =>
  brokerEndpoint(parts, {
    summary: 'Metrics of the node in the text format of Prometheus',
    path: noPath,
    reply: Type.String(),
    replyType: parts.metrics?.contentType ?? METRICS_TYPE,
    errors: ['invalid_query', 'metrics_disabled'],
    handle({ admitted: { caller } }, answer) {
      if (!parts.metrics) {
        throw refuse(
          'metrics_disabled',
          'metrics are off: MQ_METRICS_EXPOSURE=http turns them on (mq --metrics-exposure http, trilog start --mq-metrics-exposure http)',
        )
      }
      answerWith(
        answer,
        parts.metrics.text(caller.tenant).then((text) => Buffer.from(text)),
      )
    },
  })
