/** A stored record as the log store shows it. */

/** A value of OTLP, in its JSON form, as it was sent: null stands for an absent member. */
export interface AnyValue {
  readonly stringValue?: string | null
  readonly boolValue?: boolean | null
  readonly intValue?: string | number | null
  readonly doubleValue?: number | string | null
  readonly arrayValue?: { readonly values?: readonly AnyValue[] | null } | null
  readonly kvlistValue?: { readonly values?: readonly Attribute[] | null } | null
  readonly bytesValue?: string | null
}

export interface Attribute {
  readonly key: string
  readonly value?: AnyValue | null
}

/** Nanoseconds as they were sent: also `17e17`, and a number. */
export type Time = string | number | null

interface SpanEvent {
  readonly timeUnixNano?: Time
  readonly name?: string | null
  readonly attributes?: readonly Attribute[] | null
}

interface SpanLink {
  readonly traceId?: string | null
  readonly spanId?: string | null
  readonly attributes?: readonly Attribute[] | null
}

/** A log record or a span, as it was sent: null stands for an absent member. */
interface Sent {
  readonly severityText?: string | null
  readonly eventName?: string | null
  readonly body?: AnyValue | null
  readonly attributes?: readonly Attribute[] | null
  readonly name?: string | null
  readonly kind?: number | null
  readonly parentSpanId?: string | null
  readonly startTimeUnixNano?: Time
  readonly endTimeUnixNano?: Time
  readonly status?: { readonly code?: number | null; readonly message?: string | null } | null
  readonly events?: readonly SpanEvent[] | null
  readonly links?: readonly SpanLink[] | null
}

export interface StoredRecord {
  readonly record_id: string
  readonly source: string
  readonly signal: 'log' | 'trace'
  readonly dataset: string
  readonly time_unix_nano: string
  readonly trace_id: string | null
  readonly span_id: string | null
  readonly severity_number?: number
  readonly raw_payload: {
    readonly resource?: { readonly attributes?: readonly Attribute[] | null }
    readonly scope?: {
      readonly name?: string | null
      readonly version?: string | null
      readonly attributes?: readonly Attribute[] | null
    }
    readonly record: Sent
  }
}
