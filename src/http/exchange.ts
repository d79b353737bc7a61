/**
 * One request and its answer, as services see them.
 *
 * E1  an exchange ends once: answered (the last byte was handed over) or aborted (the client is gone). `onEnd` says which,
 *     exactly once; there the service gives back slots and memory of the request
 * E2  at most one answer; later answers, and answers after an abort, are ignored
 * E3  nothing is read from the request after `begin`, and nothing touches the response after the end
 * E4  a body is delivered to its last chunk, or ends in exactly one of `tooLarge` and `timedOut`; after an abort nothing is called. It ends in
 *     `timedOut` only when nothing comes for 30 s, or when it is given up for another request (slow-clients.ts)
 * E5  an answer may come while the body is still arriving: the rest is read and dropped, and the connection goes on with the
 *     next request. It is closed only after a time-out, because the client stopped in the middle of a body, and after a request whose headers do
 *     not say clearly where its body ends
 */

import type { WaitedClient } from './slow-clients.ts'

/** What the headers say. Valid only during `begin`; every value is made when asked for. */
export interface RequestHead {
  /** Upper case. */
  readonly method: string
  /** Raw: not percent-decoded, `//` and `..` as sent. */
  readonly path: string
  /** Raw, without the question mark; '' when absent. */
  readonly query: string
  /** Declared length of the body; -1 when there is none declared (no body, or a chunked one). */
  readonly contentLength: number
  /** The n-th `:parameter` of the path, percent-decoded; null when that is not valid UTF-8 in percent-encoding. */
  param(index: number): string | null
  /** Value of a header by its lower-case name; '' when absent. */
  header(name: string): string
  /** All headers by lower-case name, in their order; the values of a repeated one joined by commas. */
  headers(): Map<string, string>
}

/** A long answer, piece by piece. */
export interface AnswerSource {
  /** A piece stays as it is until the next one is asked for or the source is closed. Null: the end. */
  next(): Promise<Uint8Array | null>
  /** Called once, unless `next` gave null or rejected: the rest is not wanted. */
  close(): void
}

export interface BodySink {
  /** @param bytes valid only during the call: copy what you keep */
  chunk(bytes: Uint8Array, isLast: boolean): void
  /** The declared or the actual size passes the limit. */
  tooLarge(): void
  timedOut(why: TimeOut): void
}

/** `stalled`: nothing came for 30 s. `displaced`: it came too slowly, while other requests waited for its place. */
export type TimeOut = 'stalled' | 'displaced'

export const TIME_OUT_MESSAGES: Readonly<Record<TimeOut, string>> = {
  stalled: 'the body stalled; send it again',
  displaced: 'the body came too slowly while other requests waited for its place; send it again',
}

/** `giveUp` gives up its client while that sends the body, or takes the answer. */
export interface Exchange extends WaitedClient {
  /** The client's own request id, or a generated one; in every response. */
  readonly id: string
  /** IP address of the other end of the connection; '' once it is answered or aborted. */
  readonly remoteAddress: string
  /** True for a connection with TLS. */
  readonly isSecure: boolean
  /** The certificate that the client showed, in PEM, signed by one of the operator's authorities. '' when there is none. */
  readonly clientCertificate: string
  /** An answer was begun, or the client is gone: what is answered from now on is ignored (E2). */
  readonly ended: boolean
  /** E1. Called at once when it ended already. */
  onEnd(listener: (how: 'answered' | 'aborted') => void): void
  /** Name of the route in metrics: a pattern or an operation, never a path. A service may set a better one than its table of routes has. */
  route: string
  /** The caller, as far as it is known: for the access log and traces. */
  tenant: string | null
  principal: string | null
  /** Reads the body in chunks as they arrive; once, and before `begin` returns. */
  readBody(limitBytes: number, sink: BodySink): void
  /**
   * Waits until there is room in memory for about so many bytes more. Call it once, before a long body that `readBody` does not limit is gathered, or
   * a long answer is made.
   *
   * @param granted called at once or later, never when the exchange ended before
   */
  reserve(bytes: number, granted: () => void): void
  /**
   * Answers the request (E2). The length goes into Content-Length; to HEAD only the length is sent. Bytes over 64 KiB must not
   * change until the exchange ended.
   *
   * @param contentType null for an answer without a body, or whose type is unknown
   * @param body        null for an answer that has none (204, 304)
   */
  answer(status: number, contentType: string | null, body: Uint8Array | string | null, headers?: HeaderLines): void
  /**
   * Answers with a body that is made while it is sent, at the pace of its reader. When the source fails, the connection is closed in the
   * middle of the body: the client sees that it is not whole.
   *
   * @param lengthBytes of all pieces together
   */
  answerFrom(
    status: number,
    contentType: string | null,
    lengthBytes: number,
    source: AnswerSource,
    headers?: HeaderLines,
  ): void
  /**
   * Likewise with a body whose length is known only at its end. The source is closed as soon as the client is gone, also while it is asked for
   * a piece; pieces should be of 64 KiB at most, as two of them are kept.
   */
  answerStream(status: number, contentType: string, source: AnswerSource, headers?: HeaderLines): void
  /**
   * Stops reading, so that the client cannot send more of its body. A chunk that has arrived already is still delivered. The time of the pause does
   * not count against the client.
   */
  pauseBody(): void
  resumeBody(): void
  /** For a bug of ours after `begin` returned: it is logged, and answered like an error of `begin` itself. */
  fail(error: unknown): void
}

/** As text: every line as it is sent, with CRLF before it. A caller that repeats an answer can keep the text. */
export type HeaderLines = readonly (readonly [name: string, value: string])[] | string

export function textOfHeaders(headers: HeaderLines): string {
  return typeof headers === 'string' ? headers : headers.map(([name, value]) => `\r\n${name}: ${value}`).join('')
}
