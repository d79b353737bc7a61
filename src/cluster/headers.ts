/**
 * How a message is stored in the stream: its body is the payload, all else is in headers. Names and values never change, as later versions read the
 * same stream.
 *
 *   Trilog-Message    <format>/<kind>            1/epoch, 1/frames, 1/part, 1/beat, 1/resign
 *   Trilog-Author     <epoch>/<ordinal>/<writer>
 *   Trilog-Begin      <position>/<chain>         in decimal and in hexadecimal digits
 *   Trilog-End        likewise
 *   Trilog-Part       <index>/<count>            of a part
 *   Trilog-Successor  <node>                     of a resign message, if it names one
 *   Trilog-Packed     zstd/<bytes>               of a body in fewer bytes, see packed-body.ts
 */
import type { ClusterMessage, LogPlace } from './message.ts'
import { PACKED_HEADER, unpacked } from './packed-body.ts'

export type StreamMessage = ClusterMessage<Uint8Array>

const FORMAT = 1
const KINDS = new Set<string>(['epoch', 'frames', 'part', 'beat', 'resign'] satisfies ClusterMessage<unknown>['kind'][])
const CARRIES = new Set<string>(['frames', 'part'])

export const HEADER_NAMES = ['Message', 'Author', 'Begin', 'End', 'Part', 'Successor'].map((name) => `Trilog-${name}`)

/** Name and value. */
export function headersOf(message: ClusterMessage<unknown>): readonly (readonly [string, string])[] {
  const { kind, epoch, ordinal, writer, begin, end, part, successor } = message
  return [
    ['Trilog-Message', `${FORMAT}/${kind}`],
    ['Trilog-Author', `${epoch}/${ordinal}/${writer}`],
    ['Trilog-Begin', textOf(begin)],
    ['Trilog-End', textOf(end)],
    ...(part === null ? [] : [['Trilog-Part', `${part.index}/${part.count}`] as const]),
    ...(successor === null ? [] : [['Trilog-Successor', successor] as const]),
  ]
}

/**
 * @param header gives the value of a name; empty: there is none
 * @returns null when this is no message of this format
 */
export function messageOf<Body>(header: (name: string) => string, body: Body): ClusterMessage<Body> | null {
  const [, format, kind] = /^(\d+)\/([a-z]+)$/.exec(header('Trilog-Message')) ?? []
  const [, epoch, ordinal, writer] = /^(\d+)\/(\d+)\/(.+)$/.exec(header('Trilog-Author')) ?? []
  const begin = placeOf(header('Trilog-Begin'))
  const end = placeOf(header('Trilog-End'))
  const [, index, count] = /^(\d+)\/(\d+)$/.exec(header('Trilog-Part')) ?? []
  if (Number(format) !== FORMAT || kind === undefined || !KINDS.has(kind)) return null
  if (epoch === undefined || ordinal === undefined || writer === undefined || begin === null || end === null)
    return null
  const isPart = kind === 'part'
  if (isPart !== (index !== undefined)) return null
  return {
    kind: kind as ClusterMessage<Body>['kind'], // one of KINDS
    epoch: Number(epoch),
    ordinal: Number(ordinal),
    writer,
    begin,
    end,
    part: isPart ? { index: Number(index), count: Number(count) } : null,
    successor: header('Trilog-Successor') || null,
    body: CARRIES.has(kind) ? body : null,
  }
}

/** Stands for a message of the stream that no node wrote: it has a sequence, and never counts. */
export const FOREIGN: ClusterMessage<never> = {
  kind: 'beat',
  epoch: 0,
  ordinal: -1,
  writer: '',
  begin: { position: 0, chain: 0 },
  end: { position: 0, chain: 0 },
  part: null,
  successor: null,
  body: null,
}

/** Reads any message of the stream; `FOREIGN` if no node wrote it. @param headers undefined: it has none */
export function readMessage(headers: { get(name: string): string } | undefined, body: Uint8Array): StreamMessage {
  const header = (name: string): string => headers?.get(name) ?? ''
  return messageOf(header, unpacked(header(PACKED_HEADER), body)) ?? FOREIGN
}

export const textOf = ({ position, chain }: LogPlace): string => `${position}/${chain.toString(16)}`

export function placeOf(text: string): LogPlace | null {
  const [, position, chain] = /^(\d+)\/([0-9a-f]{1,8})$/.exec(text) ?? []
  if (position === undefined || chain === undefined || !Number.isSafeInteger(Number(position))) return null
  return { position: Number(position), chain: Number.parseInt(chain, 16) }
}
