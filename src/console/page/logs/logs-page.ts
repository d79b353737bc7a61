/** Log records and spans of a dataset: searched, counted by time, and as they come. The address says what is shown. */
import type { VNode } from 'preact'
import { useLocation } from 'preact-iso/router'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { Gate } from '../account.ts'
import { exact, msOf, time } from '../format.ts'
import { html } from '../html.ts'
import { useLoaded } from '../loading.ts'
import { Empty, Loading, Problem } from '../parts.ts'
import type { Refusal } from '../request.ts'
import { session } from '../session.ts'
import { countByTime, listDatasets, listFields } from './api.ts'
import type { Dataset, Histogram, Question } from './api.ts'
import { FieldsPanel } from './fields-panel.ts'
import { Filters } from './filters.ts'
import { HistogramChart, stepFor } from './histogram.ts'
import { LiveList } from './live-list.ts'
import { Between, RangePicker } from './range-picker.ts'
import { RecordDetail } from './record-detail.ts'
import { ResultList } from './result-list.ts'
import { useResults } from './results.ts'
import { SearchBox } from './search-box.ts'
import { logsLink, searchOf, viewOf, windowOf } from './view.ts'
import type { Range, View } from './view.ts'

/** A search for a trace id opens the trace. */
const TRACE_ID = /^[0-9a-f]{32}$/i

export const LogsPage = (): VNode => html`<${Gate} service="logstore"><${Logs} /><//>`

function Logs(): VNode {
  const { url, route } = useLocation()
  const view = viewOf(url)
  const datasets = useLoaded(listDatasets, [])
  const newest = newestOf(datasets.value ?? [])
  useEffect(() => {
    if (view.dataset === null && newest !== null) route(logsLink({ ...view, dataset: newest.dataset }), true)
  }, [view.dataset, newest])
  const dataset = datasets.value?.find((each) => each.dataset === view.dataset) ?? null

  if (datasets.value === null && datasets.problem === null) return html`<${Loading} />`
  if (datasets.value?.length === 0) {
    return html`<${Empty} isPage title="No log record yet" command=${firstRecord()}>
      Send one, or point an OpenTelemetry exporter at ${session.about.services.logstore?.url ?? ''}. Then
      <button type="button" class="link" data-key="r" onClick=${datasets.reload}>look again</button>.
    <//>`
  }
  return html`<div class="logs">
    <h1 class="hidden">Logs and traces</h1>
    ${datasets.problem && html`<${Problem} of=${datasets.problem} />`}
    ${
      view.dataset !== null &&
      html`<${Explorer} view=${view} dataset=${dataset} datasets=${datasets.value ?? []} onReload=${datasets.reload} />`
    }
  </div>`
}

interface ExplorerProps {
  readonly view: View
  /** As the store lists it; null: it does not. */
  readonly dataset: Dataset | null
  readonly datasets: readonly Dataset[]
  readonly onReload: () => void
}

function Explorer({ view, dataset, datasets, onReload }: ExplorerProps): VNode {
  const { route } = useLocation()
  const [turn, setTurn] = useState(0)
  const { range, isLive, record } = view
  const name = view.dataset ?? ''
  const search = searchOf(view)
  const rangeKey = JSON.stringify(range)
  /** The window of time does not move until `reload` or another search. */
  const question: Question = useMemo(
    () => ({ dataset: name, search, ...windowOf(range, Date.now()) }),
    [name, search, rangeKey, turn],
  )
  const results = useResults(question, view.isOldestFirst && !isLive ? 'asc' : 'desc')
  const isAnswered = results.found !== null || (isLive && results.problem !== null)
  const fields = useLoaded(
    async (signal) => (isAnswered ? listFields(question, signal) : { sampled: false, sampled_records: 0, fields: [] }),
    [question, isAnswered],
  )
  const go = (changes: Partial<View>, isReplaced = false): void => route(logsLink({ ...view, ...changes }), isReplaced)
  const reload = (): void => {
    setTurn((before) => before + 1)
    onReload()
  }
  const open = (id: string | null): void => go({ record: id }, true)

  return html`<div class="explorer">
    <div class="bar">
      <select
        aria-label="Dataset"
        value=${name}
        onChange=${(event: { currentTarget: HTMLSelectElement }) => go({ dataset: event.currentTarget.value, record: null })}
      >
        ${dataset === null && html`<option value=${name}>${name}</option>`}
        ${datasets.map((each) => html`<option key=${each.dataset} value=${each.dataset}>${each.dataset} (${exact(each.records)})</option>`)}
      </select>
      <${SearchBox}
        text=${view.text}
        fields=${fields.value?.fields ?? []}
        onSearch=${(text: string) => (TRACE_ID.test(text) ? route(`/traces/${text.toLowerCase()}`) : go({ text }))}
      />
      ${!isLive && html`<${RangePicker} range=${range} onChange=${(next: Range) => go({ range: next })} />`}
      ${!isLive && html`<button type="button" data-key="r" onClick=${reload}>Reload</button>`}
      <button
        type="button"
        data-key="t"
        class=${isLive ? 'live on' : 'live'}
        aria-pressed=${isLive}
        onClick=${() => go({ isLive: !isLive, record: null })}
      >
        Live
      </button>
    </div>
    ${!isLive && html`<${Between} range=${range} onChange=${(next: Range) => go({ range: next })} />`}
    <${Filters} view=${view} onChange=${(changes: Partial<View>) => go(changes)} />
    ${!isLive && html`<${Bars} question=${question} dataset=${dataset} told=${results.problem} onRange=${(fromMs: number, toMs: number) => go({ range: { kind: 'between', fromMs, toMs } })} />`}
    <div class=${record === null ? 'split with-fields' : 'split open'}>
      ${record === null && html`<${FieldsPanel} view=${view} loaded=${fields} />`}
      ${
        isLive
          ? html`<${LiveList}
              dataset=${name}
              search=${search}
              before=${results.found?.rows ?? []}
              selected=${record}
              onOpen=${open}
              onConnected=${reload}
            />`
          : html`<${ResultList}
              key=${JSON.stringify([question, view.isOldestFirst])}
              results=${results}
              selected=${record}
              isOldestFirst=${view.isOldestFirst}
              onOrder=${(isOldestFirst: boolean) => go({ isOldestFirst })}
              onOpen=${open}
              nothing=${html`<${Nothing} view=${view} search=${search} dataset=${dataset} />`}
            />`
      }
      ${record !== null && html`<${RecordDetail} dataset=${name} id=${record} view=${view} onClose=${() => open(null)} />`}
    </div>
  </div>`
}

/** Counts alone come from indexes, but severities are read from the records. From this many records on, counts are shown first, or alone. */
const COUNTED_FIRST = 200_000
const SPLIT_MAX = 5_000_000

interface BarsProps {
  readonly question: Question
  readonly dataset: Dataset | null
  /** The refusal that the list of records shows already. */
  readonly told: Refusal | null
  readonly onRange: (fromMs: number, toMs: number) => void
}

function Bars({ question, dataset, told, onRange }: BarsProps): VNode {
  const { start, end } = question
  const [first, last] = [start ?? dataset?.first_time_unix_nano ?? null, end ?? dataset?.last_time_unix_nano ?? null]
  const fromMs = first === null ? 0 : msOf(first)
  const toMs = Math.max(last === null ? 0 : msOf(last), fromMs + 1) + (end === null ? 1 : 0)
  const step = stepFor(fromMs, toMs)
  const [plain, setPlain] = useState<{ question: Question; histogram: Histogram } | null>(null)
  const { value, problem } = useLoaded(
    async (signal) => {
      if (question.search !== '' || (dataset?.records ?? 0) < COUNTED_FIRST)
        return countByTime(question, step, 'severity', signal)
      const histogram = await countByTime(question, step, null, signal)
      if (signal.aborted || histogram.matched_records > SPLIT_MAX) return histogram
      setPlain({ question, histogram })
      return countByTime(question, step, 'severity', signal)
    },
    [question, step],
  )
  const shown = value ?? (plain?.question === question ? plain.histogram : null)
  return html`<div class="counts">
    ${problem && problem.message !== told?.message && html`<${Problem} of=${problem} title="The counts are not known." />`}
    ${shown && html`<${HistogramChart} histogram=${shown} fromMs=${fromMs} toMs=${toMs} onRange=${onRange} />`}
  </div>`
}

interface NothingProps {
  readonly view: View
  readonly search: string
  readonly dataset: Dataset | null
}

const AROUND_MS = 30 * 60_000

/** Why there may be nothing, and the way to what there is. */
function Nothing({ view, search, dataset }: NothingProps): VNode {
  const last = dataset?.last_time_unix_nano ?? null
  const lastMs = last === null ? null : msOf(last)
  const newest: Range | null =
    lastMs === null ? null : { kind: 'between', fromMs: lastMs - AROUND_MS, toMs: lastMs + 1000 }
  return html`<${Empty} title=${search === '' ? 'Nothing in this time' : 'Nothing found in this time'}>
    ${
      newest !== null && lastMs !== null
        ? html`<span
            >${exact(dataset?.records ?? 0)} records are stored in ${view.dataset}, the newest one of ${time(lastMs)}:
            <a href=${logsLink({ ...view, range: newest })}>go there</a>, or
            <a href=${logsLink({ ...view, range: { kind: 'all' } })}>look at all time</a>.</span
          >`
        : 'There is no such dataset, or it may not be read.'
    }
  <//>`
}

function newestOf(datasets: readonly Dataset[]): Dataset | null {
  const lastOf = ({ last_time_unix_nano: last }: Dataset): bigint => BigInt(last ?? '0')
  return datasets.reduce<Dataset | null>(
    (newest, each) => (newest === null || lastOf(each) > lastOf(newest) ? each : newest),
    null,
  )
}

/** A command for a shell, which sends a record of now. */
function firstRecord(): string {
  const credentials = session.credentialsOf('logstore')
  const tenant = credentials?.kind === 'tenant' ? credentials.tenant : 'TENANT'
  const { url = '', access = 'unknown' } = session.about.services.logstore ?? {}
  const token = access === 'development' ? 'local-dev-token' : '$TOKEN'
  const attribute = (key: string, value: string): string => `{"key":"${key}","value":{"stringValue":"${value}"}}`
  const resource = `{"attributes":[${attribute('tenant_id', tenant)},${attribute('service.name', 'web')}]}`
  const record = `{"timeUnixNano":"'$(date +%s%N)'","severityNumber":9,"body":{"stringValue":"hello"}}`
  return `curl ${url}/v1/otlp/logs -H 'content-type: application/json' -H 'x-logstore-tenant: ${tenant}' -H "authorization: Bearer ${token}" -d '{"resourceLogs":[{"resource":${resource},"scopeLogs":[{"logRecords":[${record}]}]}]}'`
}
