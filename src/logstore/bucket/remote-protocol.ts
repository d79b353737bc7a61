/**
 * The messages between a query thread and the object reader, over one channel for each query. When the channel closes, the query is over, and its reads are
 * aborted.
 */
import type { MessagePort } from 'node:worker_threads'
import type { BundleObjects } from './bucket-catalog.ts'
import type { BucketState } from './bucket-catalog.ts'
import type { ObjectClientSettings } from './object-client.ts'

/** The files of a bundle that queries read. */
export type RemoteFileKind = Exclude<keyof BundleObjects, 'indexHeadBytes' | 'problem'>

export type RemoteRequest =
  | { readonly kind: 'size'; readonly base: number; readonly file: RemoteFileKind }
  | {
      readonly kind: 'read'
      readonly base: number
      readonly file: RemoteFileKind
      readonly at: number
      readonly bytes: number
    }
  | { readonly kind: 'expect'; readonly file: RemoteFileKind; readonly reads: readonly ExpectedPlace[] }

export interface ExpectedPlace {
  readonly base: number
  readonly at: number
}

/** The replies to all requests but `expect`, in the order of the requests. */
export type RemoteReply =
  | { readonly kind: 'size'; readonly bytes: number }
  | { readonly kind: 'bytes'; readonly bytes: Uint8Array }
  | { readonly kind: 'failed'; readonly reason: string }

/** The access of a query to the reader. */
export interface RemoteAccess {
  readonly port: MessagePort
  /** Two i32 words, see below. */
  readonly words: SharedArrayBuffer
}

/** Replies ever posted; the query thread waits on it. */
export const REPLIES_WORD = 0
/** 1: the reader is gone, and nothing is answered any more. */
export const GONE_WORD = 1
export const ACCESS_WORDS = 2

/** What the reader's lane starts with. */
export interface ObjectReaderData {
  readonly client: ObjectClientSettings
  /** Prefix of all keys: empty, or with a slash at its end. */
  readonly prefix: string
  readonly cacheBytes: number
  /** Three f64, see below; written by the reader alone. */
  readonly counters: SharedArrayBuffer
}

export const REQUESTS_COUNTER = 0
export const BYTES_COUNTER = 1
export const FAILURES_COUNTER = 2
export const READER_COUNTERS = 3

export type ObjectReaderControl =
  | { readonly kind: 'refresh' }
  | { readonly kind: 'distrust'; readonly base: number }
  | { readonly kind: 'connect'; readonly access: RemoteAccess }

export type ObjectReaderMessage =
  | { readonly kind: 'catalog'; readonly state: BucketState }
  /** The bucket could not be listed. */
  | { readonly kind: 'unreachable'; readonly reason: string }
  /** The settings cannot work. */
  | { readonly kind: 'refused'; readonly problem: string }
