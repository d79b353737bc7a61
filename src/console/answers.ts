/** Answers that the console makes itself. */
import type { OutgoingHttpHeaders, ServerResponse } from 'node:http'

/**
 * Headers of every answer that the console makes itself. The page loads and runs only its own files, and sends requests only to the console.
 * No other page shows it in a frame.
 */
export const OWN_HEADERS: OutgoingHttpHeaders = {
  'content-security-policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self' blob:",
    "connect-src 'self'",
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
  'permissions-policy': 'camera=(), geolocation=(), microphone=()',
  'referrer-policy': 'no-referrer',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
}

/** Answers a refusal, or that a service cannot be reached. By the member `console`, the page tells it from an answer of a service. */
export function answerProblem(answer: ServerResponse, status: number, message: string): void {
  answerJson(answer, status, { console: { message } })
}

export function answerJson(answer: ServerResponse, status: number, value: object): void {
  const text = `${JSON.stringify(value)}\n`
  answer.writeHead(status, {
    ...OWN_HEADERS,
    'content-type': 'application/json',
    'content-length': Buffer.byteLength(text),
    'cache-control': 'no-store',
  })
  answer.end(text)
}
