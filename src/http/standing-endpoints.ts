/** Endpoints that services have in common: health in a word, metrics, the OpenAPI document. */
import { Type } from 'typebox'
import type { Endpoint } from './routes.ts'

const JSON_TYPE = 'application/json'

/** @param problems why the service cannot take or answer requests; empty when it is well */
export const healthEndpoint = (problems: () => readonly string[]): Endpoint => ({
  document: {
    summary: 'Whether the service takes and answers requests',
    replies: [
      { status: 200, description: 'it does', mediaType: JSON_TYPE, schema: Type.Literal('Healthy') },
      { status: 503, description: 'what is wrong', mediaType: JSON_TYPE, schema: Type.String() },
    ],
  },
  begin(_head, exchange) {
    const found = problems()
    if (found.length === 0) exchange.answer(200, JSON_TYPE, '"Healthy"')
    else exchange.answer(503, JSON_TYPE, JSON.stringify(`Unhealthy: ${found.join('; ')}`))
  },
})

export const metricsEndpoint = (metrics: { readonly contentType: string; text(): Promise<string> }): Endpoint => ({
  begin(_head, exchange) {
    metrics
      .text()
      .then((text) => exchange.answer(200, metrics.contentType, text))
      .catch((error: unknown) => exchange.fail(error))
  },
})

export const documentEndpoint = (document: object): Endpoint => {
  const text = JSON.stringify(document)
  return { begin: (_head, exchange) => exchange.answer(200, JSON_TYPE, text) }
}
