/**
 * The last 15 minutes of each service, as this page has seen them. Nothing is kept on the server: a page that was just opened has no past.
 *
 * H1 [bounded]  SAMPLES_MAX samples of some twenty numbers for each service
 * H2 [honest]   a service that does not answer leaves a gap, and a counter that fell (the service was started again) counts from zero
 */
import { useEffect, useState } from 'preact/hooks'
import { onceVisible } from '../loading.ts'
import { Refusal, asRefusal, askJson, askText } from '../request.ts'
import { SERVICES, session } from '../session.ts'
import type { ServiceName } from '../session.ts'
import { listStreams } from '../streams/api.ts'
import { MEASURES, keeps } from './measures.ts'
import { Sample, parseMetrics } from './metrics.ts'

const SAMPLE_MS = 5000
const KEPT_MS = 15 * 60_000
const SAMPLES_MAX = KEPT_MS / SAMPLE_MS

interface Reason {
  readonly kind: string
  readonly reason: string
  readonly action?: string
  readonly since?: string
}

const STATUSES = ['ok', 'degraded', 'unavailable', 'recovering', 'draining'] as const

interface Readiness {
  readonly status: (typeof STATUSES)[number]
  readonly reasons: readonly Reason[]
}

/** What is known of a service now. */
export interface Known {
  readonly readiness: Readiness | null
  /** Why that is not known. */
  readonly problem: Refusal | null
  /** Why there are no metrics, though the service answers. */
  readonly metricsProblem: Refusal | null
  /** Oldest first; empty where the service did not answer. */
  readonly samples: readonly Sample[]
}

const UNKNOWN: Known = { readiness: null, problem: null, metricsProblem: null, samples: [] }
const known = new Map<ServiceName, Known>()
const listeners = new Set<() => void>()

/** Looks at every service until the tab is closed; a hidden tab waits. */
export function startHistory(): void {
  const look = async (): Promise<void> => {
    await Promise.all(SERVICES.map(lookAt))
    setTimeout(() => (document.hidden ? onceVisible(() => void look()) : void look()), SAMPLE_MS)
  }
  session.listen(() => void Promise.all(SERVICES.map(lookAt)))
  void look()
}

async function lookAt(service: ServiceName): Promise<void> {
  if (session.about.services[service] === null || session.credentialsOf(service) === null) return
  const [readiness, metrics] = await Promise.allSettled([ready(service), tell(service)])
  const { samples } = known.get(service) ?? UNKNOWN
  const next = metrics.status === 'fulfilled' ? metrics.value.sample : new Sample(Date.now())
  known.set(service, {
    readiness: readiness.status === 'fulfilled' ? readiness.value : null,
    problem: readiness.status === 'rejected' ? asRefusal(readiness.reason) : null,
    metricsProblem: metrics.status === 'rejected' ? asRefusal(metrics.reason) : metrics.value.problem,
    samples: [...samples, next].slice(-SAMPLES_MAX), // H1
  })
  for (const listener of listeners) listener()
}

/** A service that is not ready says why with status 503. */
async function ready(service: ServiceName): Promise<Readiness> {
  try {
    const answer = await askJson<unknown>(service, '/readyz')
    if (isReadiness(answer)) return answer
    throw new Refusal(
      200,
      'other_service',
      'Its answer is not that of a service of trilog.',
      'Correct the address that the console has of it.',
    )
  } catch (error) {
    const refusal = asRefusal(error)
    if (refusal.status !== 503) throw refusal
    return parsed(refusal.message) ?? { status: 'unavailable', reasons: [{ kind: 'problem', reason: refusal.message }] }
  }
}

function parsed(text: string): Readiness | null {
  try {
    const value: unknown = JSON.parse(text)
    return isReadiness(value) ? value : null
  } catch {
    return null
  }
}

/** The console may have an address that is of another program. */
function isReadiness(value: unknown): value is Readiness {
  const { status, reasons } = (value ?? {}) as Partial<Readiness> // read from any value
  return STATUSES.some((each) => each === status) && Array.isArray(reasons)
}

/** A sample, and why it is not complete; null: it is. */
interface Told {
  readonly sample: Sample
  readonly problem: Refusal | null
}

async function tell(service: ServiceName): Promise<Told> {
  try {
    const text = await askText(service, MEASURES[service].path)
    return { sample: parseMetrics(text, Date.now(), keeps(service)), problem: null }
  } catch (error) {
    const problem = asRefusal(error)
    if (problem.code !== 'metrics_disabled') throw problem
    return { sample: streamsSample(await listStreams(), Date.now()), problem }
  }
}

/** A sample from the streams of a broker that gives no metrics. */
function streamsSample(streams: Awaited<ReturnType<typeof listStreams>>, atMs: number): Sample {
  const sample = new Sample(atMs)
  sample.add('mq_streams', null, streams.length)
  for (const { next_offset: published } of streams) sample.add('mq_publish_records_total', null, published)
  return sample
}

export function useKnown(service: ServiceName): Known {
  const [, renew] = useState(0)
  useEffect(() => {
    const listener = (): void => renew((count) => count + 1)
    listeners.add(listener)
    return () => void listeners.delete(listener)
  }, [])
  return known.get(service) ?? UNKNOWN
}

/** By how much a total grew, per second, from one sample to the next. H2: null where it is not known. */
export function rates(samples: Known['samples'], metric: string): readonly (number | null)[] {
  return samples.map((sample, at) => {
    const before = samples[at - 1]
    const now = sample.value(metric)
    const then = before?.value(metric) ?? null
    if (!before || now === null || then === null) return null
    const seconds = (sample.atMs - before.atMs) / 1000
    return seconds > 0 ? (now >= then ? now - then : now) / seconds : null
  })
}

/** By how much totals grew since the oldest sample, by their label. */
export function growth(samples: Known['samples'], metrics: readonly string[]): ReadonlyMap<string, number> {
  const there = samples.filter(({ isEmpty }) => !isEmpty)
  const grown = new Map<string, number>()
  for (const metric of metrics) {
    for (const [label, now] of there.at(-1)?.byLabel(metric) ?? []) {
      const then = there[0]?.byLabel(metric).get(label) ?? 0
      const more = now >= then ? now - then : now
      if (more > 0) grown.set(label, (grown.get(label) ?? 0) + more)
    }
  }
  return grown
}
