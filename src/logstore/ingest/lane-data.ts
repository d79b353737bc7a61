import type { LogWriterHandle } from '../../log/log-writer.ts'
import type { BundlePlace } from '../index/catalog.ts'
import type { TenantPolicy } from '../tenants/tenant-policy.ts'
import type { SegmentIndexesHandle } from '../index/segment-indexes.ts'

/** What a decode lane starts with. Everything is shared memory or plain data. */
export interface DecodeLaneData {
  readonly arena: SharedArrayBuffer
  readonly requests: SharedArrayBuffer
  readonly outcomes: SharedArrayBuffer
  /** One Int32 word: 1 while a wake-up of the main thread is on its way. */
  readonly wake: SharedArrayBuffer
  readonly writer: LogWriterHandle
  readonly logId: number
  readonly indexes: SegmentIndexesHandle
  readonly gateway: SharedArrayBuffer
  /** See dataset-counts.ts. */
  readonly datasets: SharedArrayBuffer
  /** null: no limit. */
  readonly gatewayRecords: number | null
  readonly gatewayBytes: number | null
  readonly maxBodyBytes: number
  /** See prepared-batches.ts; null: there are no further lanes. */
  readonly prepared: SharedArrayBuffer | null
  readonly policy: TenantPolicy
  /** The segment that is being written, to be indexed from its frames; null when there is none yet. */
  readonly active: { readonly base: number; readonly end: number; readonly recordsPath: string } | null
  /** Sealed segments without a sidecar. */
  readonly sealing: readonly { readonly base: number; readonly number: number }[]
  readonly bundles: readonly BundlePlace[]
}

/** What a lane that prepares batches starts with. */
export interface PrepareLaneData {
  readonly arena: SharedArrayBuffer
  readonly requests: SharedArrayBuffer
  readonly prepared: SharedArrayBuffer
  readonly maxBodyBytes: number
  readonly policy: TenantPolicy
}

/** Control messages to such a lane. */
export interface PrepareLaneControl {
  readonly kind: 'policy'
  readonly policy: TenantPolicy
}

/** Frames of the cluster's leader. */
export interface LeaderFrames {
  readonly number: number
  /** Whole and verified frames, back to back. */
  readonly bytes: Uint8Array
}

/** Control messages to a decode lane. */
export type DecodeLaneControl =
  | { readonly kind: 'policy'; readonly policy: TenantPolicy }
  | { readonly kind: 'bundle-published'; readonly bundle: BundlePlace }
  | { readonly kind: 'bundle-dropped'; readonly base: number }
  /** In a cluster, while another node leads. */
  | { readonly kind: 'follow'; readonly frames: LeaderFrames }

/** Messages of a decode lane. */
export type DecodeLaneMessage =
  | { readonly kind: 'ready'; readonly recoveredRecords: number }
  | { readonly kind: 'wake' }
  /** These frames, and all that came before them, are in the log and indexed. */
  | { readonly kind: 'followed'; readonly number: number }
  /** The leader's frames do not continue this log. */
  | { readonly kind: 'follow-failed'; readonly reason: string }
  | { readonly kind: 'bundle-unreadable'; readonly base: number; readonly code: string }
