/**
 * Endpoints that services have in common: whether the process lives, health in a word, readiness with its reasons, metrics, the OpenAPI
 * document. Also the answers of a service that is not open yet.
 */
import type { Static } from 'typebox'
import { Type } from '../schema.ts'
import type { Step } from '../steps.ts'
import { ROLE_QUERY, answeredByRole, clusterEndpoint } from './cluster.ts'
import type { ClusterView } from './cluster.ts'
import type { Exchange, HeaderLines, RequestHead } from './exchange.ts'
import type { Endpoint, HttpService, Route, ServiceFront } from './routes.ts'
import { JSON_TYPE, answerLine, answerText } from './text-answer.ts'

export interface ServiceHealth {
  /** Why the service cannot take or answer requests; empty when it can. */
  problems(): readonly string[]
  /** Faults in spite of which the service works. */
  degradations(): readonly {
    readonly kind: string
    readonly reason: string
    readonly action: string
    /** Since the Unix epoch. */
    readonly sinceMs: number
  }[]
}

/** Problems are in the body, degradations in a header. */
export const healthEndpoint = (health: ServiceHealth, cluster: (() => ClusterView) | null = null): Endpoint => ({
  document: {
    security: [],
    summary: 'Whether the service takes and answers requests',
    query: ROLE_QUERY,
    replies: [
      {
        status: 200,
        description: 'the service takes and answers requests',
        mediaType: JSON_TYPE,
        schema: Type.Literal('Healthy'),
      },
      { status: 503, description: 'what is wrong', mediaType: JSON_TYPE, schema: Type.String() },
    ],
  },
  begin(head, exchange) {
    if (answeredByRole(head, exchange, cluster)) return
    const found = health.problems()
    const headers = degradedHeader(health)
    if (found.length === 0) answerText(exchange, 200, 'Healthy', headers)
    else answerText(exchange, 503, `Unhealthy: ${found.join('; ')}`, headers)
  },
})

const HEADER_BYTES_MAX = 1024

/** `x-trilog-degraded` with the reasons, in printable ASCII; nothing while there are none. */
export function degradedHeader(health: ServiceHealth): HeaderLines {
  const reasons = health.degradations().map(({ reason }) => reason)
  if (reasons.length === 0) return []
  const text = reasons.join('; ').replaceAll(/[^ -~]+/g, '?')
  return [['x-trilog-degraded', text.length > HEADER_BYTES_MAX ? `${text.slice(0, HEADER_BYTES_MAX - 3)}...` : text]]
}

const LiveReply = Type.Object({ status: Type.Literal('alive') })

/** Liveness of the process: it answers as long as the process serves anything at all. */
const liveEndpoint: Endpoint = {
  isPublic: true,
  document: {
    security: [],
    summary: 'Whether the process lives',
    replies: [{ status: 200, description: 'the process lives', mediaType: JSON_TYPE, schema: LiveReply }],
  },
  begin: (_head, exchange) => answerLine(exchange, 200, '{"status":"alive"}'),
}

/** Where a service is between its start and its end. */
type ServicePhase = { readonly kind: 'recovering'; readonly step: Step } | { readonly kind: 'open' | 'draining' }

export interface ReadinessParts {
  readonly health: ServiceHealth
  readonly startup: { readonly phase: ServicePhase }
  /** Whether the caller may see more than the status: every caller, if no credentials are needed. */
  readonly isKnown: (head: RequestHead, exchange: Exchange) => boolean
  /** Without one the node is alone. */
  readonly cluster?: (() => ClusterView) | null
}

const ReadyReply = Type.Object({
  status: Type.String({
    description:
      'ok; degraded: the service answers, and an operator has to act; unavailable: it does not answer; recovering: it reads stored data; draining: it stops soon',
  }),
  reasons: Type.Array(
    Type.Object({
      kind: Type.String({
        description:
          'of a degraded service replica_lost, damage, read_errors, query_store or node_id_twice; of one that is not ready problem, recovering or draining',
      }),
      reason: Type.String(),
      action: Type.Optional(Type.String({ description: 'what to do about it' })),
      since: Type.Optional(Type.String({ description: 'when it was first seen, RFC 3339' })),
    }),
    { description: 'empty for callers without credentials, if the service asks for credentials' },
  ),
  progress: Type.Optional(
    Type.Object(
      {
        phase: Type.String(),
        done: Type.Integer(),
        total: Type.Integer({ description: '0: not known' }),
        unit: Type.String({ description: 'bytes or segments' }),
      },
      { description: 'present while the service is recovering' },
    ),
  ),
})
type ReadyReply = Static<typeof ReadyReply>

const readyEndpoint = (parts: ReadinessParts): Endpoint => ({
  isPublic: true,
  document: {
    security: [],
    summary: 'Whether the service is ready, and every problem that an operator has to look at',
    replies: [
      {
        status: 200,
        description: 'the service is ready; it may be degraded',
        mediaType: JSON_TYPE,
        schema: ReadyReply,
      },
      { status: 503, description: 'the service is not ready', mediaType: JSON_TYPE, schema: ReadyReply },
    ],
  },
  begin(head, exchange) {
    const reply = readinessOf(parts)
    const status = reply.status === 'ok' || reply.status === 'degraded' ? 200 : 503
    if (!parts.isKnown(head, exchange)) {
      return answerLine(exchange, status, JSON.stringify({ status: reply.status, reasons: [] }))
    }
    answerLine(exchange, status, JSON.stringify(reply), degradedHeader(parts.health))
  },
})

function readinessOf({ health, startup: { phase } }: ReadinessParts): ReadyReply {
  if (phase.kind === 'recovering') {
    const reasons = [{ kind: phase.kind, reason: recoveryText(phase.step) }]
    return { status: phase.kind, reasons, progress: { ...phase.step } }
  }
  const problems = health.problems().map((reason) => ({ kind: 'problem', reason }))
  const degradations = health.degradations().map(({ sinceMs, ...degradation }) => ({
    ...degradation,
    since: new Date(sinceMs).toISOString(),
  }))
  const reasons = [...problems, ...degradations]
  if (phase.kind === 'draining') return { status: phase.kind, reasons: [DRAINING, ...reasons] }
  const status = problems.length > 0 ? 'unavailable' : degradations.length === 0 ? 'ok' : 'degraded'
  return { status, reasons }
}

const DRAINING = { kind: 'draining', reason: 'the process was asked to stop: it still serves requests for a while' }

/** For people: 'checking the end of the log, 10 of 40 bytes'. */
const recoveryText = ({ phase, done, total, unit }: Step): string =>
  total === 0 ? phase : `${phase}, ${done} of ${total} ${unit}`

/** Logged with the address, before what is stored is read. */
export const LISTENING = 'listening; requests are refused until stored data is read'

/** Message of the refusals until then. */
export const NOT_OPEN =
  'the service still reads stored data and takes no requests yet: try again; /readyz shows the progress'

/** Routes that answer before the service is open. */
export const standingRoutes = (parts: ReadinessParts): readonly Route[] => [
  { method: 'GET', path: '/livez', endpoint: liveEndpoint },
  { method: 'GET', path: '/readyz', endpoint: readyEndpoint(parts) },
  ...(parts.cluster
    ? [{ method: 'GET', path: '/v1/cluster', endpoint: clusterEndpoint(parts.cluster, parts.isKnown) } as const]
    : []),
]

/**
 * A service that is not open yet: its standing routes answer, everything else is refused.
 *
 * @param refuse answers with a 503 of the service's own, after which clients try again
 */
export function serviceBeingOpened(
  front: ServiceFront,
  routes: readonly Route[],
  refuse: (head: RequestHead, exchange: Exchange, message: string) => void,
): HttpService {
  const notOpen = (head: RequestHead, exchange: Exchange): void => refuse(head, exchange, NOT_OPEN)
  return { ...front, routes, notFound: notOpen, methodNotAllowed: notOpen }
}

export const metricsEndpoint = (metrics: { readonly contentType: string; text(): string }): Endpoint => ({
  begin(_head, exchange) {
    exchange.answer(200, metrics.contentType, metrics.text())
  },
})

/** @param document is made when it is first asked for */
export const documentEndpoint = (document: () => object): Endpoint => {
  let text: string | null = null
  return { begin: (_head, exchange) => answerLine(exchange, 200, (text ??= JSON.stringify(document()))) }
}

/** Operations of the standing routes, for the OpenAPI document. */
export const STANDING_OPERATIONS = {
  'GET /livez': { id: 'getLiveness', tag: 'node' },
  'GET /readyz': { id: 'getReadiness', tag: 'node' },
  'GET /health': { id: 'getHealth', tag: 'node' },
  'GET /v1/cluster': { id: 'getCluster', tag: 'node' },
} as const
