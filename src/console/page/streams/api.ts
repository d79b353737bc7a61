/** The broker's routes, as far as the pages use them. Shapes are those of its answers. */
import { askForReply, askJson } from '../request.ts'
import type { Answered } from '../request.ts'

export interface Retention {
  readonly max_age_millis: number | null
  readonly max_bytes: number | null
  readonly min_cursor_name: string | null
}

export interface FailurePolicy {
  readonly max_attempts: number
  readonly retry_delay_millis: number
  readonly dead_letter_stream: string | null
  readonly apply_on_expiry: boolean
}

export interface Stream {
  readonly stream: string
  readonly default_durability: string
  readonly retention: Retention
  readonly failure_policy: FailurePolicy | null
  readonly first_offset: number
  readonly next_offset: number
  readonly record_count: number
  readonly payload_bytes: number
  readonly created_at_ms: number
}

export interface StreamRecord {
  readonly offset: number
  readonly message_id: string
  readonly payload_hex: string
  readonly key_hex: string | null
  readonly headers: Readonly<Record<string, string>>
  readonly event_time_ms: number
  readonly ingest_time_ms: number
}

export interface RecordPage {
  readonly records: readonly StreamRecord[]
  readonly next_offset: number
  readonly end_of_stream: boolean
  readonly diagnostics: { readonly first_offset: number; readonly quarantined_records: number }
}

export interface Group {
  readonly consumer_group: string
  readonly progress_offset: number
  readonly lag_messages: number
  readonly in_flight_count: number
  readonly delayed_count: number
  readonly cursor_count: number
  /** Null: the group has finished everything. */
  readonly oldest_unfinished_age_millis: number | null
}

export interface Lease {
  readonly offset: number
  readonly attempt: number
  readonly state: string
  readonly subscription_id: string
  readonly delivery_id: string
  readonly lease_remaining_millis: number
  readonly reason: string | null
}

export interface Delayed {
  readonly offset: number
  readonly attempt: number
  readonly available_at_ms: number
}

export interface Cursor {
  readonly cursor: string
  readonly offset: number
  readonly updated_at_ms: number
}

export interface AuditEvent {
  readonly event_id: string
  readonly kind: string
  readonly at_ms: number
  readonly principal: string
  readonly stream: string | null
  readonly detail: Readonly<Record<string, unknown>>
  readonly offset: number
}

interface Redriven {
  readonly redriven_count: number
  readonly next_offset: number
  readonly end_of_stream: boolean
  readonly results: readonly {
    readonly error?: { readonly message: string }
  }[]
}

export const streamPath = (stream: string): string => `/v1/streams/${encodeURIComponent(stream)}`
export const groupPath = (stream: string, group: string): string =>
  `${streamPath(stream)}/consumer-groups/${encodeURIComponent(group)}`

export const listStreams = async (signal?: AbortSignal): Promise<readonly Stream[]> =>
  (await askJson<{ streams: readonly Stream[] }>('broker', '/v1/streams', { ...(signal && { signal }) })).streams

export const describeStream = (stream: string, signal: AbortSignal): Promise<Stream> =>
  askJson('broker', streamPath(stream), { signal })

export const listGroups = async (stream: string, signal: AbortSignal): Promise<readonly Group[]> =>
  (await askJson<{ consumer_groups: readonly Group[] }>('broker', `${streamPath(stream)}/consumer-groups`, { signal }))
    .consumer_groups

export function replay(
  stream: string,
  from: Readonly<Record<string, number>>,
  maxRecords: number,
  signal?: AbortSignal,
): Promise<RecordPage> {
  const query = new URLSearchParams(
    Object.entries({ ...from, max_records: maxRecords }).map(([name, value]) => [name, String(value)]),
  )
  return askJson('broker', `${streamPath(stream)}/records?${query.toString()}`, { ...(signal && { signal }) })
}

/** @param which of the dead letters of the stream */
export const redrive = (stream: string, which: object, reason: string | undefined): Promise<Answered<Redriven>> =>
  askForReply('broker', `${streamPath(stream)}/dead-letters/redrive`, { method: 'POST', body: { ...which, reason } })

export const post = <Reply>(path: string, body: object): Promise<Reply> =>
  askJson<Reply>('broker', path, { method: 'POST', body })

function bytesOf(hex: string): Uint8Array {
  const bytes = new Uint8Array(hex.length / 2)
  for (let at = 0; at < bytes.length; at++) bytes[at] = Number.parseInt(hex.slice(at * 2, at * 2 + 2), 16)
  return bytes
}

/**
 * Null: the bytes are no text.
 *
 * @param isBeginning the last character may be cut
 */
export function textOf(hex: string, isBeginning = false): string | null {
  try {
    const text = new TextDecoder('utf-8', { fatal: true }).decode(bytesOf(hex), { stream: isBeginning })
    // oxlint-disable-next-line no-control-regex -- what no text has
    return /[\u0000-\u0008\u000e-\u001f]/.test(text) ? null : text
  } catch {
    return null
  }
}

/** Sixteen bytes a line: offset, hexadecimal, text. */
export function hexDump(hex: string): string {
  const lines: string[] = []
  for (let at = 0; at < hex.length; at += 32) {
    const line = hex.slice(at, at + 32)
    const pairs = line.match(/../g) ?? []
    const text = Array.from(bytesOf(line), (byte) =>
      byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '·',
    ).join('')
    lines.push(`${(at / 2).toString(16).padStart(8, '0')}  ${pairs.join(' ').padEnd(47)}  ${text}`)
  }
  return lines.join('\n')
}
