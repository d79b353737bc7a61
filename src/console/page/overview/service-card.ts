/** One service: how it is, what it does now, and what it did in the last 15 minutes. */
import type { VNode } from 'preact'
import { Chart } from '../chart.ts'
import { byteRate, bytes, compact, duration, exact, exactBytes, rate, time } from '../format.ts'
import { html } from '../html.ts'
import { SignIn } from '../account.ts'
import { Count, Duration } from '../parts.ts'
import { TITLES, session, useCredentials } from '../session.ts'
import type { ServiceName } from '../session.ts'
import { growth, rates, useKnown } from './history.ts'
import type { Known } from './history.ts'
import { MEASURES, PROCESS } from './measures.ts'
import type { Measure } from './measures.ts'
import type { Sample } from './metrics.ts'

const COLORS = ['--line-1', '--line-2', '--line-3']
const PAGES: Partial<Record<ServiceName, string>> = { logstore: '/logs', objectstore: '/objects', broker: '/streams' }

export function ServiceCard({ service }: { service: ServiceName }): VNode {
  const known = useKnown(service)
  const credentials = useCredentials(service)
  const { url = '', access = 'none' } = session.about.services[service] ?? {}
  const page = PAGES[service]
  const title = TITLES[service]
  const status =
    access === 'elsewhere' || credentials === null ? { kind: 'unknown', text: 'Not signed in' } : statusOf(known)
  return html`<section class="card" aria-label=${title}>
    <header>
      <h2>${page ? html`<a href=${page}>${title}</a>` : title}</h2>
      <span class=${`status ${status.kind}`}>${status.text}</span>
      <code class="fine">${url}</code>
    </header>
    ${credentials === null && access !== 'elsewhere' ? html`<${SignIn} service=${service} />` : html`<${Numbers} service=${service} known=${known} />`}
  </section>`
}

function statusOf({ problem, readiness }: Known): { kind: string; text: string } {
  if (problem !== null) return { kind: 'bad', text: problem.isAway ? 'Away' : 'Unknown' }
  if (readiness === null) return { kind: 'unknown', text: 'Looking…' }
  const { status } = readiness
  return {
    ok: { kind: 'ok', text: 'Healthy' },
    degraded: { kind: 'warn', text: 'Degraded' },
    unavailable: { kind: 'bad', text: 'Unavailable' },
    recovering: { kind: 'warn', text: 'Starting' },
    draining: { kind: 'warn', text: 'Stopping' },
  }[status]
}

function Numbers({ service, known }: { service: ServiceName; known: Known }): VNode {
  const measures = MEASURES[service]
  const { samples, metricsProblem } = known
  const last = samples.findLast(({ isEmpty }) => !isEmpty) ?? null
  if (last === null) {
    return html`<p class="loading">${metricsProblem ? metricsProblem.message : 'Looking…'}</p>`
  }
  const counted = measures.rates.filter(({ unit }) => unit === 'count').slice(0, COLORS.length)
  const timesMs = samples.map(({ atMs }) => atMs)
  return html`<div>
    <dl class="figures">
      ${measures.rates.map((measure) => html`<${Rate} key=${measure.metric} measure=${measure} samples=${samples} color=${COLORS[counted.indexOf(measure)]} />`)}
    </dl>
    <${Chart}
      label=${`${TITLES[service]}: ${counted.map(({ title }) => title.toLowerCase()).join(', ')} a second, in the last 15 minutes`}
      timesMs=${timesMs}
      format=${rate}
      lines=${counted.map(({ title, metric }, at) => ({ title, color: COLORS[at]!, values: rates(samples, metric) }))}
    />
    <dl class="facts">
      ${(measures.otherRates ?? []).map((measure) => html`<${Rate} key=${measure.metric} measure=${measure} samples=${samples} />`)}
      <${Fact} title="Disk used" unit="bytes" value=${last.value(measures.used)} />
      <${Fact} title="Disk free" unit="bytes" value=${last.value(measures.room)} />
      ${measures.gauges.map((each) => html`<${Fact} key=${each.title} ...${each} value=${last.value(each.metric)} />`)}
      ${
        last.value(measures.syncs) !== null &&
        html`<div>
          <dt>Time of a sync</dt>
          <dd><${SyncTime} service=${service} samples=${samples} /></dd>
        </div>`
      }
      <${Fact} title="Damaged ranges" unit="count" value=${last.value(measures.quarantine)} isBad />
      <${Fact} title="Failed reads" unit="count" value=${last.value(measures.readErrors)} isBad />
      <${Fact} title="Memory" unit="bytes" value=${last.value(PROCESS.memory)} />
      ${
        last.value(PROCESS.started) !== null &&
        html`<div>
          <dt>Up for</dt>
          <dd title=${`since ${time((last.value(PROCESS.started) ?? 0) * 1000)}`}>${upTime(last)}</dd>
        </div>`
      }
      ${
        last.byLabel(PROCESS.build).size > 0 &&
        html`<div>
          <dt>Version</dt>
          <dd>${[...last.byLabel(PROCESS.build).keys()].join()}</dd>
        </div>`
      }
    </dl>
    ${metricsProblem?.code === 'metrics_disabled' ? html`<${MoreWith} />` : html`<${Refused} counts=${growth(samples, measures.refusals)} />`}
  </div>`
}

const MoreWith = (): VNode =>
  html`<p class="fine">The broker shows more metrics when it runs with <code>MQ_METRICS_EXPOSURE=http</code>.</p>`

function Rate({ measure, samples, color }: { measure: Measure; samples: Known['samples']; color?: string }): VNode {
  const now = rates(samples, measure.metric).at(-1) ?? null
  const total = samples.at(-1)?.value(measure.metric) ?? null
  const shown = now === null ? '–' : measure.unit === 'bytes' ? byteRate(now) : rate(now)
  const exactly = total === null ? '' : `${measure.unit === 'bytes' ? exactBytes(total) : exact(total)} since the start`
  return html`<div>
    <dt>${color && html`<i class="swatch" style=${{ background: `var(${color})` }}></i>`}${measure.title}</dt>
    <dd title=${exactly}>${shown}</dd>
  </div>`
}

interface FactProps {
  readonly title: string
  readonly unit: Measure['unit']
  readonly value: number | null
  /** Whether any number above zero is bad. */
  readonly isBad?: boolean
}

function Fact({ title, unit, value, isBad = false }: FactProps): VNode | null {
  if (value === null) return null
  return html`<div>
    <dt>${title}</dt>
    <dd class=${isBad && value > 0 ? 'level error' : ''} title=${unit === 'bytes' ? exactBytes(value) : exact(value)}>
      ${unit === 'bytes' ? bytes(value) : compact(value)}
    </dd>
  </div>`
}

/** The mean of the last 15 minutes, or of all time when nothing was synced since. */
function SyncTime({ service, samples }: { service: ServiceName; samples: Known['samples'] }): VNode {
  const { syncSeconds, syncs } = MEASURES[service]
  const there = samples.filter(({ isEmpty }) => !isEmpty)
  const [first, last] = [there[0], there.at(-1)]
  const between = (metric: string): number => (last?.value(metric) ?? 0) - (first?.value(metric) ?? 0)
  if (between(syncs) > 0) return html`<${Duration} seconds=${between(syncSeconds) / between(syncs)} />`
  const count = last?.value(syncs) ?? 0
  if (count === 0) return html`<span>–</span>`
  return html`<${Duration} seconds=${(last?.value(syncSeconds) ?? 0) / count} />`
}

const upTime = (last: Sample): string => {
  const startedSeconds = last.value(PROCESS.started)
  return startedSeconds === null ? '–' : duration(Math.max(1, last.atMs / 1000 - startedSeconds))
}

function Refused({ counts }: { counts: ReadonlyMap<string, number> }): VNode {
  if (counts.size === 0) return html`<p class="fine">Nothing was refused since this page was opened.</p>`
  return html`<div class="refused">
    <h3>Refused since this page was opened</h3>
    <ul>
      ${[...counts]
        .toSorted(([, a], [, b]) => b - a)
        .map(
          ([kind, count]) =>
            html`<li key=${kind}>
              <code>${kind}</code> <span class="badge"><${Count} of=${count} /></span>
            </li>`,
        )}
    </ul>
  </div>`
}
