/** Endpoints that services have in common: health in a word, metrics, the OpenAPI document. */
import { Type } from 'typebox'
import type { Endpoint } from './routes.ts'
import { JSON_TYPE, answerLine, answerText } from './text-answer.ts'

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
    if (found.length === 0) answerText(exchange, 200, 'Healthy')
    else answerText(exchange, 503, `Unhealthy: ${found.join('; ')}`)
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
  return { begin: (_head, exchange) => answerLine(exchange, 200, text) }
}
