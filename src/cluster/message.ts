/**
 * The messages in the stream of a log: one for each group of frames, and a few that carry none.
 *
 *   epoch    its writer leads from here on
 *   frames   whole frames
 *   part     a piece of one frame that is longer than a message
 *   beat     nothing; its acknowledgement renews the lease of the leader
 *   resign   its writer has stopped answering: another node may lead at once
 *
 * Messages name places of the log, see `LogPlace`. A writer's messages are numbered within its epoch: the epoch message has ordinal 0.
 */

/** An end of the log: the position behind a frame, and that frame's header checksum, which stands for everything before. */
export interface LogPlace {
  readonly position: number
  readonly chain: number
}

export const LOG_BEGIN: LogPlace = { position: 0, chain: 0 }

export const isSamePlace = (one: LogPlace, other: LogPlace): boolean =>
  one.position === other.position && one.chain === other.chain

/** Who wrote a message, and which of the writer's messages it is. */
export interface Authorship {
  readonly epoch: number
  /** The node and its process: a restarted node is another writer. */
  readonly writer: string
  readonly ordinal: number
}

export interface ClusterMessage<Body> extends Authorship {
  readonly kind: 'epoch' | 'frames' | 'part' | 'beat' | 'resign'
  /** Where the log ended before it. */
  readonly begin: LogPlace
  /** Where the log ends with it; for a part: with all parts. */
  readonly end: LogPlace
  /** For a part of a frame: its index, and how many parts there are. */
  readonly part: { readonly index: number; readonly count: number } | null
  /** For `resign`: the node that may lead at once; null: any. */
  readonly successor: string | null
  /** The bytes of frames or of a part; null for other kinds. */
  readonly body: Body | null
}

export const isSameMessage = (one: Authorship, other: Authorship): boolean =>
  one.epoch === other.epoch && one.writer === other.writer && one.ordinal === other.ordinal

/** The node of a writer. */
export const nodeOf = (writer: string): string => writer.slice(0, writer.lastIndexOf('/'))

/** @param incarnation differs in every process @param node any name */
export const writerOf = (node: string, incarnation: string): string => `${node}/${incarnation}`
