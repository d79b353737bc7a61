/** Watchers of single requests from begin to end: the access log, traces. Without a watcher, requests pay nothing for it. */

/** The request as it comes in; valid during the call. */
export interface BegunRequest {
  readonly id: string
  readonly method: string
  /** Raw, without the query. */
  readonly path: string
  readonly remoteAddress: string
  /** Value of a header by its lower-case name; '' when absent. */
  readonly header: (name: string) => string
}

/** What is known of a request when it has ended. */
interface EndedRequest {
  /** As in OpenAPI, or the service's word for the operation. */
  readonly route: string
  /** 0: the client was gone before it had the answer. */
  readonly status: number
  readonly seconds: number
  readonly receivedBytes: number
  readonly sentBytes: number
  /** The caller, as far as it is known. */
  readonly tenant: string | null
  readonly principal: string | null
}

export interface WatchedRequest {
  /** Runs a part of the request's work. */
  runWithin(run: () => void): void
  ended(end: EndedRequest): void
}

export interface RequestWatch {
  /** @returns null: this request has no watcher */
  watch(request: BegunRequest): WatchedRequest | null
}

/** One watch that stands for all of them; null: there are none. */
export function watchOf(watches: readonly RequestWatch[]): RequestWatch | null {
  if (watches.length <= 1) return watches[0] ?? null
  return {
    watch(request) {
      const watched = watches.flatMap((watch) => watch.watch(request) ?? [])
      if (watched.length <= 1) return watched[0] ?? null
      return {
        runWithin: (run) => watched.reduce<() => void>((inner, each) => () => each.runWithin(inner), run)(),
        ended: (end) => watched.forEach((each) => each.ended(end)),
      }
    },
  }
}
