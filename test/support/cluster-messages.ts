/** Messages of a cluster's stream. */
import { LOG_BEGIN } from '../../src/cluster/message.ts'
import type { ClusterMessage } from '../../src/cluster/message.ts'

export type Message = ClusterMessage<string>

/** A beat, with the fields of `rest` in place of its own. */
export const message = (epoch: number, writer: string, ordinal: number, rest: Partial<Message> = {}): Message => ({
  kind: 'beat',
  epoch,
  writer,
  ordinal,
  begin: LOG_BEGIN,
  end: LOG_BEGIN,
  part: null,
  successor: null,
  body: null,
  ...rest,
})
