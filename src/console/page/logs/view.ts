/**
 * What the page about log records shows, as its address has it. An address that is sent shows its receiver the same.
 *
 * W1 [whole]  everything that decides which records are shown stands in the address: nothing else does
 */
import { SEVERITIES } from './otlp.ts'
import type { Level } from './otlp.ts'

export const RANGES = {
  '5m': { title: 'Last 5 minutes', ms: 5 * 60_000 },
  '15m': { title: 'Last 15 minutes', ms: 15 * 60_000 },
  '1h': { title: 'Last hour', ms: 3_600_000 },
  '6h': { title: 'Last 6 hours', ms: 6 * 3_600_000 },
  '24h': { title: 'Last 24 hours', ms: 24 * 3_600_000 },
  '7d': { title: 'Last 7 days', ms: 7 * 86_400_000 },
  '30d': { title: 'Last 30 days', ms: 30 * 86_400_000 },
} as const
export type RangeName = keyof typeof RANGES
const RANGE_DEFAULT: RangeName = '1h'

export type Range =
  | { readonly kind: 'last'; readonly name: RangeName }
  | { readonly kind: 'all' }
  /** Milliseconds; the end is exclusive. */
  | { readonly kind: 'between'; readonly fromMs: number; readonly toMs: number }

export interface View {
  /** null: none was chosen yet. */
  readonly dataset: string | null
  readonly text: string
  /** Conditions of searches that came by a click. */
  readonly terms: readonly string[]
  readonly range: Range
  readonly signal: 'log' | 'trace' | null
  /** None: all. */
  readonly levels: readonly Level[]
  readonly isOldestFirst: boolean
  readonly isLive: boolean
  /** Record id of the one that is open. */
  readonly record: string | null
}

export function viewOf(url: string): View {
  const { searchParams: given } = new URL(url, 'http://page')
  const signal = given.get('signal')
  const levels = (given.get('severity') ?? '').split(',')
  return {
    dataset: given.get('dataset'),
    text: given.get('q') ?? '',
    terms: given.getAll('where'),
    range: rangeOf(given),
    signal: signal === 'log' || signal === 'trace' ? signal : null,
    levels: SEVERITIES.filter((level) => levels.includes(level)),
    isOldestFirst: given.get('order') === 'oldest',
    isLive: given.get('live') === '1',
    record: given.get('record'),
  }
}

function rangeOf(given: URLSearchParams): Range {
  const name = given.get('range') ?? RANGE_DEFAULT
  const [fromMs, toMs] = [Date.parse(given.get('from') ?? ''), Date.parse(given.get('to') ?? '')]
  if (fromMs < toMs) return { kind: 'between', fromMs, toMs }
  if (name === 'all') return { kind: 'all' }
  return { kind: 'last', name: Object.hasOwn(RANGES, name) ? (name as RangeName) : RANGE_DEFAULT }
}

/** The address of a view. */
export function logsLink(view: Partial<View>): string {
  const { dataset, text = '', terms = [], range, signal = null, levels = [], record = null } = view
  const query = new URLSearchParams()
  const add = (name: string, value: string): void => {
    if (value !== '') query.append(name, value)
  }
  add('dataset', dataset ?? '')
  add('q', text)
  for (const term of terms) add('where', term)
  if (range?.kind === 'between') {
    add('from', new Date(range.fromMs).toISOString())
    add('to', new Date(range.toMs).toISOString())
  } else if (range !== undefined) {
    const name = range.kind === 'all' ? 'all' : range.name
    if (name !== RANGE_DEFAULT) add('range', name)
  }
  add('signal', signal ?? '')
  add('severity', levels.join())
  if (view.isOldestFirst) add('order', 'oldest')
  if (view.isLive) add('live', '1')
  add('record', record ?? '')
  const written = query.toString()
  return written === '' ? '/logs' : `/logs?${written}`
}

/** Everything that records must meet, in the words of a search. */
export function searchOf({ text, terms, signal, levels }: View): string {
  const conditions = [...terms]
  if (signal !== null) conditions.push(`signal:${signal}`)
  const wanted = levels.map((level) => `severity:${level}`)
  if (wanted.length > 0) conditions.push(wanted.length === 1 ? wanted[0]! : `(${wanted.join(' OR ')})`)
  const written = text.trim()
  if (written === '') return conditions.join(' ')
  // Conditions that are side by side bind more closely than OR does.
  const isSplit = conditions.length > 0 && /\bOR\b/.test(written)
  return [isSplit ? `(${written})` : written, ...conditions].join(' ')
}

const BARE_KEY = /^[\p{L}_][^\s()":]*$/u

/** Quoted, as a search needs it for text with other characters than those of words. */
export const quoted = (text: string): string => `"${text.replace(/["\\]/g, (character) => `\\${character}`)}"`

/** A search term: the key has exactly this value, or has another one. */
const termOf = (key: string, value: string, isNot = false): string =>
  `${isNot ? '-' : ''}${BARE_KEY.test(key) ? key : quoted(key)}:${quoted(value)}`

/** The view with one more condition, which replaces its opposite. */
export function withTerm(view: Partial<View>, key: string, value: string, isNot: boolean): Partial<View> {
  const term = termOf(key, value, isNot)
  const others = (view.terms ?? []).filter((each) => each !== term && each !== termOf(key, value, !isNot))
  return { ...view, terms: [...others, term] }
}

/** From when to when, in nanoseconds; null: open. Ranges that end now end with the second that has begun. */
export function windowOf(range: Range, nowMs: number): { readonly start: string | null; readonly end: string | null } {
  if (range.kind === 'all') return { start: null, end: null }
  const [fromMs, toMs] =
    range.kind === 'between' ? [range.fromMs, range.toMs] : [nowMs - RANGES[range.name].ms, nowMs + 1000]
  return { start: nanos(fromMs), end: nanos(toMs) }
}

const nanos = (ms: number): string => `${Math.round(ms)}000000`
