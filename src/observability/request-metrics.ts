/**
 * How requests ended, by route and class of status, as the HTTP and gRPC fronts of one service report it. All of it is on main.
 *
 * A route is a pattern or an operation, never a path. So there are as many series as the service has routes, times the classes.
 */
import { Histogram, LATENCY_BOUNDS } from '../pipeline/histogram.ts'
import type { HistogramView } from './exposition.ts'
import type { Metrics, Series } from './metrics.ts'

/** From 256 bytes to 1 GiB. */
const BODY_BOUNDS: readonly number[] = Array.from({ length: 12 }, (_, i) => 4 ** (4 + i))

/** By the first digit of a status; 0: the client was gone before it had the answer. */
const CLASSES = ['aborted', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

export class RequestMetrics {
  readonly #routes = new Map<string, RouteMetrics>()

  /**
   * @param status        0: the client was gone before it had the answer
   * @param receivedBytes of the body, as far as it was read
   * @param sentBytes     of the answer's body
   */
  ended(route: string, status: number, seconds: number, receivedBytes: number, sentBytes: number): void {
    let metrics = this.#routes.get(route)
    if (metrics === undefined) this.#routes.set(route, (metrics = new RouteMetrics()))
    metrics.ended(Math.floor(status / 100), seconds, receivedBytes, sentBytes)
  }

  /** @param service what the names begin with */
  register<Scope>(metrics: Metrics<Scope>, service: string): void {
    metrics.histograms(
      {
        name: `${service}.http.request_duration_seconds`,
        help: 'Time from the headers of a request to the end of its answer, by route and class of status',
      },
      () => this.#durations(),
    )
    metrics.histograms(
      {
        name: `${service}.http.request_body_bytes`,
        help: 'Bytes received of request bodies, for requests that have one',
      },
      () => this.#bodies((route) => route.received),
    )
    metrics.histograms(
      { name: `${service}.http.response_body_bytes`, help: 'Bytes sent of answer bodies, for answers that have one' },
      () => this.#bodies((route) => route.sent),
    )
  }

  *#durations(): Series<HistogramView> {
    for (const [route, { durations }] of this.#routes) {
      for (const [i, histogram] of durations.entries()) if (histogram) yield [{ route, status: CLASSES[i]! }, histogram]
    }
  }

  *#bodies(of: (route: RouteMetrics) => Histogram | null): Series<HistogramView> {
    for (const [route, metrics] of this.#routes) {
      const histogram = of(metrics)
      if (histogram) yield [{ route }, histogram]
    }
  }
}

/** Histograms are made when they are needed: most routes never see most classes. */
class RouteMetrics {
  readonly durations: (Histogram | null)[] = CLASSES.map(() => null)
  received: Histogram | null = null
  sent: Histogram | null = null

  ended(statusClass: number, seconds: number, receivedBytes: number, sentBytes: number): void {
    const duration = (this.durations[statusClass] ??= Histogram.create(LATENCY_BOUNDS))
    duration.observe(seconds)
    if (receivedBytes > 0) (this.received ??= Histogram.create(BODY_BOUNDS)).observe(receivedBytes)
    if (sentBytes > 0) (this.sent ??= Histogram.create(BODY_BOUNDS)).observe(sentBytes)
  }
}
