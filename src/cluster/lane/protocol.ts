/** What main and the lane of a cluster tell each other. */
import type { ClusterHandle } from '../../log/cluster-part.ts'
import type { Anchor } from '../history.ts'
import type { LogPlace } from '../message.ts'
import type { NatsAccess } from '../nats/connection.ts'

/** How the stream of a service is reached; can be sent to a thread. */
export interface StreamSettings extends NatsAccess {
  readonly cluster: string
  readonly service: string
  readonly replicas: number
  readonly keepBytes: number
  readonly keepMs: number | null
}

export interface LaneTaskData {
  readonly settings: StreamSettings
  readonly node: string
  readonly leaseMs: number
  /** URL at which clients reach this service of the node; null: it is not published. */
  readonly url: string | null
  /** URL at which other nodes reach this one; null: it is not published. */
  readonly peerUrl: string | null
  /** The log that is there already; null: there is none yet. */
  readonly log: { readonly id: number; readonly end: LogPlace; readonly epoch: number } | null
  /** Where the anchor's file is. */
  readonly directory: string
  /** Holds the external parts of frames; null: frames have none. */
  readonly arena: SharedArrayBuffer | null
  /** Memory of `LaneMeasures`. */
  readonly measures: SharedArrayBuffer
}

/** What nodes say of themselves, about every second. */
export interface NodeStatus {
  readonly node: string
  /** Its process, as `writerOf` names it. */
  readonly writer: string
  readonly role: 'recovering' | 'follower' | 'leader'
  readonly epoch: number
  /** Sequence of the last message of the stream that it took. */
  readonly sequence: number
  /** End of the log that is confirmed and synced on its disk. */
  readonly position: number
  readonly url: string | null
  /** Address of the listener for other nodes. */
  readonly peerUrl: string | null
  /** Its disk has room for what clients send. */
  readonly hasRoom: boolean
}

/** The status of another node. */
export interface HeardStatus extends NodeStatus {
  /** By the clock that threads share. */
  readonly atMs: number
}

export interface HeardNodes {
  readonly others: readonly HeardStatus[]
  /** When another process last claimed to be this node, by the clock that threads share; null: none did. */
  readonly twinAtMs: number | null
}

export type ToLane =
  /** Follows from the anchor on. Until then the lane only has its stream. */
  | { readonly kind: 'join'; readonly log: ClusterHandle; readonly anchor: Anchor }
  /** After `lead`: frames of this generation of the log are this leader's. */
  | { readonly kind: 'begun'; readonly epoch: number; readonly generation: number }
  /** Main has applied so many more bytes of frames. */
  | { readonly kind: 'applied'; readonly bytes: number }
  /** After `catch up`. */
  | { readonly kind: 'caught up'; readonly anchor: Anchor }
  | { readonly kind: 'hand over'; readonly successor: string | null }
  /** Authorities in PEM, for new connections. */
  | { readonly kind: 'authorities'; readonly ca: string }
  /** Something keeps this node from leading. */
  | { readonly kind: 'give up the lead'; readonly reason: string }

export type FromLane =
  | { readonly kind: 'stream'; readonly logId: number; readonly begin: Anchor; readonly first: number }
  /** A setting is wrong: the node cannot take part. */
  | { readonly kind: 'refused'; readonly code: string; readonly message: string }
  /** No server can be used; the lane tries again. */
  | { readonly kind: 'away'; readonly reason: string }
  /** Whole frames of the leader, verified, back to back. */
  | { readonly kind: 'frames'; readonly bytes: Uint8Array<ArrayBuffer> }
  | { readonly kind: 'lead'; readonly epoch: number; readonly end: LogPlace }
  | { readonly kind: 'step down'; readonly end: LogPlace; readonly reason: string }
  | { readonly kind: 'catch up' }
  | { readonly kind: 'stop'; readonly reason: string }
  | { readonly kind: 'progress' }
  | ({ readonly kind: 'nodes'; readonly own: NodeStatus | null } & HeardNodes)
