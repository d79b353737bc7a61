/** Endpoints that services have in common: health in a word, readiness with its reasons, metrics, the OpenAPI document. */
import { Type } from 'typebox'
import type { HeaderLines } from './exchange.ts'
import type { Endpoint } from './routes.ts'
import { JSON_TYPE, answerLine, answerText } from './text-answer.ts'

export interface ServiceHealth {
  /** Why the service cannot take or answer requests; empty when it can. */
  problems(): readonly string[]
  /** What it works in spite of. */
  degradations(): readonly {
    readonly kind: string
    readonly reason: string
    readonly action: string
    /** Since the Unix epoch. */
    readonly sinceMs: number
  }[]
}

/** Problems are in the body, what the service is degraded by in a header. */
export const healthEndpoint = (health: ServiceHealth): Endpoint => ({
  document: {
    summary: 'Whether the service takes and answers requests',
    replies: [
      { status: 200, description: 'it does', mediaType: JSON_TYPE, schema: Type.Literal('Healthy') },
      { status: 503, description: 'what is wrong', mediaType: JSON_TYPE, schema: Type.String() },
    ],
  },
  begin(_head, exchange) {
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

const ReadyReply = Type.Object({
  status: Type.String({ description: 'ok, degraded: it answers, and somebody has to act; unavailable: it does not' }),
  reasons: Type.Array(
    Type.Object({
      kind: Type.String({
        description: 'replica_lost, damage, read_errors, query_store or, of what is unavailable, problem',
      }),
      reason: Type.String(),
      action: Type.Optional(Type.String({ description: 'what to do about it' })),
      since: Type.Optional(Type.String({ description: 'when it was first seen, RFC 3339' })),
    }),
  ),
})

export const readyEndpoint = (health: ServiceHealth): Endpoint => ({
  document: {
    summary: 'Whether the service is ready, and everything that a person should look after',
    replies: [
      { status: 200, description: 'it is, though it may be degraded', mediaType: JSON_TYPE, schema: ReadyReply },
      { status: 503, description: 'it is not', mediaType: JSON_TYPE, schema: ReadyReply },
    ],
  },
  begin(_head, exchange) {
    const problems = health.problems().map((reason) => ({ kind: 'problem', reason }))
    const degradations = health.degradations().map(({ sinceMs, ...degradation }) => ({
      ...degradation,
      since: new Date(sinceMs).toISOString(),
    }))
    const isReady = problems.length === 0
    const status = !isReady ? 'unavailable' : degradations.length === 0 ? 'ok' : 'degraded'
    const reply: Type.Static<typeof ReadyReply> = { status, reasons: [...problems, ...degradations] }
    answerLine(exchange, isReady ? 200 : 503, JSON.stringify(reply), degradedHeader(health))
  },
})

export const metricsEndpoint = (metrics: { readonly contentType: string; text(): string }): Endpoint => ({
  begin(_head, exchange) {
    exchange.answer(200, metrics.contentType, metrics.text())
  },
})

export const documentEndpoint = (document: object): Endpoint => {
  const text = JSON.stringify(document)
  return { begin: (_head, exchange) => answerLine(exchange, 200, text) }
}
