/**
 * The state as a checkpoint holds it: all but where records are, which the sidecars of the segments say. Integers are little-endian.
 *
 *   offset  bytes  what
 *        0      4  jsonBytes   u32
 *        4      4  groupCount  u32
 *        8      …  json        everything small, UTF-8, padded to a multiple of 8
 *        …      …  groups      for each: bytes u32, unused u32, then GroupState.encode padded to a multiple of 8
 *
 * K1  what `decode` makes of `encode` answers as the state did, once the records' places are added
 * K2  it is a copy: the state goes on while it is written
 */
import { StoreError } from '../../errors.ts'
import { GroupState } from '../state/group.ts'
import { IntervalSet } from '../state/interval-set.ts'
import { BrokerState, Group } from './state.ts'
import type { AcknowledgedIncident, Cursor, Link, Observation, StreamConfig } from './state.ts'

interface Content {
  readonly secret: string
  readonly last_at_ms: number
  readonly streams: readonly {
    readonly number: number
    readonly tenant: string
    readonly name: string
    readonly config: StreamConfig
    readonly created_at_ms: number
    readonly next_offset: number
    readonly floor: number
    readonly payload_bytes: number
    /** Bounds of intervals. */
    readonly holes: readonly number[]
  }[]
  readonly groups: readonly {
    readonly number: number
    readonly stream_number: number
    readonly name: string
    readonly next_claim_number: number
    readonly cursors: readonly (readonly [string, Cursor])[]
    readonly observations: readonly (readonly [string, Observation])[]
  }[]
  readonly acknowledged_incidents: readonly (readonly [string, AcknowledgedIncident])[]
  readonly links: readonly { readonly stream_number: number; readonly link: Link; readonly next: number }[]
}

const HEAD_BYTES = 8
const ALIGN = 8

/** K2 */
export function encodeCheckpoint(state: BrokerState): Uint8Array<ArrayBuffer>[] {
  const groups = state.groups.filter((group) => group !== undefined)
  const content: Content = {
    secret: Buffer.from(state.secret).toString('hex'),
    last_at_ms: state.lastAtMs,
    streams: state.streams
      .filter((stream) => stream !== undefined)
      .map(({ number, tenant, name, config, createdAtMs, nextOffset, floor, payloadBytes, holes }) => ({
        number,
        tenant,
        name,
        config,
        created_at_ms: createdAtMs,
        next_offset: nextOffset,
        floor,
        payload_bytes: payloadBytes,
        holes: [...holes.encode()],
      })),
    groups: groups.map(({ number, name, stream, cursors, observations, nextClaimNumber }) => ({
      number,
      stream_number: stream.number,
      name,
      next_claim_number: nextClaimNumber,
      cursors: [...cursors],
      observations: [...observations],
    })),
    acknowledged_incidents: [...state.acknowledgedIncidents],
    links: Array.from(state.links.values(), ({ stream, link, nextExpectedOffset }) => ({
      stream_number: stream.number,
      link,
      next: nextExpectedOffset,
    })),
  }
  const json = Buffer.from(JSON.stringify(content))
  const parts: Uint8Array[] = [wordPair(json.byteLength, groups.length), json, padding(json.byteLength)]
  for (const { queue } of groups) {
    const encoded = queue.encode()
    const bytes = encoded.reduce((sum, part) => sum + part.byteLength, 0)
    parts.push(wordPair(bytes, 0), ...encoded, padding(bytes))
  }
  return parts.map(owned)
}

/**
 * @param bytes begin at a multiple of 8 of their memory
 * @throws StoreError corrupt: the checksum held, so another version wrote it
 */
export function decodeCheckpoint(bytes: Buffer): BrokerState {
  const jsonBytes = bytes.readUInt32LE(0)
  let content: Content
  try {
    content = JSON.parse(bytes.toString('utf8', HEAD_BYTES, HEAD_BYTES + jsonBytes)) as Content // the checksum says we wrote it
  } catch (error) {
    throw new StoreError('corrupt', 'checkpoint_unreadable', 'a checkpoint is not one of this version', {
      cause: error,
    })
  }
  const state = new BrokerState()
  state.secret = Buffer.from(content.secret, 'hex')
  for (const each of content.streams) {
    const stream = state.applyStreamCreated(each.number, each.tenant, each.name, each.config, each.created_at_ms)
    stream.nextOffset = each.next_offset
    stream.floor = each.floor
    stream.payloadBytes = each.payload_bytes
    stream.index.dropBelow(each.floor)
    stream.holes = IntervalSet.decode(Float64Array.from(each.holes))
  }
  let at = HEAD_BYTES + aligned(jsonBytes)
  for (const each of content.groups) {
    const groupBytes = bytes.readUInt32LE(at)
    at += HEAD_BYTES
    const stream = state.streams[each.stream_number]!
    const queue = GroupState.decode(bytes.subarray(at, at + groupBytes))
    at += aligned(groupBytes)
    const group = new Group(each.number, each.name, stream, queue)
    group.nextClaimNumber = each.next_claim_number
    for (const [name, cursor] of each.cursors) group.cursors.set(name, cursor)
    for (const [id, observation] of each.observations) group.observations.set(id, observation)
    state.groups[group.number] = group
    stream.groups.set(group.name, group)
  }
  for (const [id, acknowledged] of content.acknowledged_incidents) state.acknowledgedIncidents.set(id, acknowledged)
  for (const { stream_number, link, next } of content.links) {
    state.applyReplicated(state.streams[stream_number]!, link, next)
  }
  state.lastAtMs = content.last_at_ms
  return state
}

const aligned = (bytes: number): number => Math.ceil(bytes / ALIGN) * ALIGN
const padding = (bytes: number): Uint8Array => new Uint8Array(aligned(bytes) - bytes)
const wordPair = (first: number, second: number): Uint8Array => new Uint8Array(Uint32Array.of(first, second).buffer)

/** In memory of its own, so that it can be handed to another thread: small buffers share theirs. */
function owned(part: Uint8Array): Uint8Array<ArrayBuffer> {
  const whole = part.buffer instanceof ArrayBuffer && part.byteLength === part.buffer.byteLength
  return whole ? (part as Uint8Array<ArrayBuffer>) : new Uint8Array(part) // its memory is an ArrayBuffer, as was just asked
}
