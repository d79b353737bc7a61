/**
 * What `mq diagnostics collect` writes. Source: specification "Command-line tool mq", row "Diagnostics"; what the sections hold is ours.
 *
 * No payload is read, and the bundle has no key, header or credential.
 *
 * B2  a section that could not be collected says why, and so do the recent errors: a bundle has all its sections even if a source is broken
 */
import { Type } from '../schema.ts'
import type { Static } from 'typebox'

export const BUNDLE_SCHEMA = 'broker.diagnostics_bundle.v1'

const AnyObject = Type.Record(Type.String(), Type.Unknown())
/** B2 */
const Missing = Type.Object({ available: Type.Literal(false), reason: Type.String() })
const Available = Type.Literal(true)

export const DiagnosticsBundle = Type.Object(
  {
    schema: Type.Literal(BUNDLE_SCHEMA),
    bundle_id: Type.String({ minLength: 1 }),
    collected_at_ms: Type.Integer({ minimum: 0 }),
    collected_from: Type.Union([Type.Literal('local'), Type.Literal('remote')]),
    version: Type.Object({ mq: Type.String(), node: Type.String(), broker: Type.Union([Type.String(), Type.Null()]) }),
    configuration: AnyObject,
    topology: AnyObject,
    metrics: Type.Union([Type.Object({ available: Available, text: Type.String() }), Missing]),
    stream_metadata: Type.Union([
      Type.Object({ available: Available, streams: Type.Array(Type.Object({ stream: Type.String() })) }),
      Missing,
    ]),
    cursor_state: Type.Union([
      Type.Object({ available: Available, cursors: Type.Array(Type.Object({ cursor: Type.String() })) }),
      Missing,
    ]),
    recent_errors: Type.Array(
      Type.Object(
        { source: Type.String(), code: Type.String(), message: Type.String() },
        { additionalProperties: true },
      ),
    ),
    command_outputs: Type.Array(Type.Object({ command: Type.String(), status: Type.String(), output: Type.Unknown() })),
    redactions: Type.Array(Type.Object({ field: Type.String(), reason: Type.String() })),
  },
  { additionalProperties: false },
)
export type DiagnosticsBundle = Static<typeof DiagnosticsBundle>

export type BundleFacts = Pick<
  DiagnosticsBundle,
  | 'collected_from'
  | 'configuration'
  | 'topology'
  | 'metrics'
  | 'stream_metadata'
  | 'cursor_state'
  | 'recent_errors'
  | 'command_outputs'
  | 'redactions'
> & { readonly broker: string | null }

export const NO_PAYLOADS = { field: 'payload, key and headers of records', reason: 'never read' }

/** Kinds of audit events that tell of something that went wrong. */
const TROUBLE = new Set(['authentication_failed', 'authorization_denied', 'delivery_stopped', 'delivery_dead_lettered'])

interface EventSeen {
  readonly kind: string
  readonly at_ms: number
  readonly stream: string | null
  readonly detail: Readonly<Record<string, unknown>>
}

export const troublesOf = (events: readonly EventSeen[]): DiagnosticsBundle['recent_errors'] =>
  events
    .filter(({ kind }) => TROUBLE.has(kind))
    .map(({ kind, at_ms, stream, detail }) => ({
      source: 'audit',
      code: kind,
      message: [detail['message'], detail['reason']].find((each) => typeof each === 'string') ?? kind,
      at_ms,
      stream,
    }))
