/** Requests before and after the run: one after the other, on a connection of their own. */
import { HttpConnection } from './http-connection.ts'
import type { Target } from './http-connection.ts'
import type { HttpResponse } from './http-response-parser.ts'
import type { LoadRequest } from './workload.ts'

const TIMEOUT_MS = 60_000

/** @throws ConnectionError */
export type Send = (request: LoadRequest) => Promise<HttpResponse>

/** @throws ConnectionError, and what `use` throws */
export async function connected<T>(target: Target, use: (send: Send) => Promise<T>): Promise<T> {
  const connection = new HttpConnection({ target, timeoutMs: TIMEOUT_MS, nowMs: () => performance.now() })
  try {
    await connection.open()
    return await use(({ head, body }) => connection.send(head, body))
  } finally {
    connection.destroy()
  }
}
