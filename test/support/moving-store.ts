/**
 * A small service that treats a simulated log as the object store and the broker treat theirs: it overwrites, moves live data out of the oldest
 * segment, writes checkpoints, and drops segments. It knows what it held at every position.
 */
import assert from 'node:assert/strict'
import { beginCheckpoint } from '../../src/log/checkpoint.ts'
import { contentOf, readNewestCheckpoint } from './checkpoints.ts'
import type { Files } from '../../src/log/files.ts'
import type { Log } from '../../src/log/log.ts'
import type { LogWriter } from '../../src/log/log-writer.ts'
import { World, append, openWriter, replay } from './log-harness.ts'

const KEYS = 12
const PADDING_BYTES_MAX = 1500
const SEGMENTS_KEPT = 4
const REPLACE_ROUNDS = 5

interface Entry {
  readonly position: number
  readonly end: number
  readonly key: number
  readonly value: number
}

/** By key: position of its frame, and its value. */
type State = ReadonlyMap<number, Pick<Entry, 'position' | 'value'>>

export class MovingStore {
  readonly world: World
  readonly log: Log
  readonly #writer: LogWriter
  readonly #random: () => number
  readonly #history: Entry[] = []
  /** By key, its newest entry. */
  readonly #live = new Map<number, Entry>()
  readonly #directories: readonly string[]

  /** Share of `act` that cleans, from 0 to 1. */
  readonly #cleaningShare: number

  static async open(
    seed: number,
    random: () => number,
    {
      replicas = [],
      cleaningShare = 0.05,
    }: { readonly replicas?: readonly string[]; readonly cleaningShare?: number } = {},
  ): Promise<MovingStore> {
    const world = new World({ seed })
    const log = await world.open({ replicas })
    return new MovingStore(world, log, random, ['/data', ...replicas], cleaningShare)
  }

  private constructor(
    world: World,
    log: Log,
    random: () => number,
    directories: readonly string[],
    cleaningShare: number,
  ) {
    this.world = world
    this.log = log
    this.#writer = openWriter(log)
    this.#random = random
    this.#directories = directories
    this.#cleaningShare = cleaningShare
  }

  /** Does something, at random, that the service does by itself or for a client. */
  act(): void {
    const choice = this.#random()
    if (choice < this.#cleaningShare) this.#clean()
    else if (choice < 0.65) this.#put(Math.floor(this.#random() * KEYS))
    else if (choice < 0.95) this.world.step()
    else for (const lane of this.world.lanes) lane.idle()
  }

  /** Writes and cleans so much that segments that are being read are replaced by others. */
  replaceSegments(): void {
    for (let n = 0; n < REPLACE_ROUNDS; n += 1) {
      for (let key = 0; key < KEYS; key += 1) this.#put(key)
      this.#clean()
    }
  }

  /** Stores everything that was put. */
  settle(): void {
    this.world.step()
    this.world.step()
  }

  stateAt(position: number): State {
    const state = new Map<number, Entry>()
    for (const entry of this.#history) if (entry.end <= position) state.set(entry.key, entry)
    return state
  }

  #put(key: number): void {
    this.#append(key, this.#history.length)
  }

  #append(key: number, value: number): void {
    const padding = 'x'.repeat(Math.floor(this.#random() * PADDING_BYTES_MAX))
    const written = append(this.#writer, Buffer.from(JSON.stringify([key, value, padding])))
    if (typeof written === 'string') return this.settle() // no room in the ring: nothing was written
    const entry = { position: written.position, end: written.end, key, value }
    this.#history.push(entry)
    this.#live.set(key, entry)
  }

  /** Cleans as the services do: moves what lives in the oldest segment, syncs, writes two checkpoints behind it, and drops it. */
  #clean(): void {
    this.settle()
    const sealed = this.log.segments.filter((segment) => segment.sealed)
    const oldest = sealed[0]
    if (sealed.length < SEGMENTS_KEPT || oldest === undefined) return
    for (const [key, { position, value }] of this.#live) {
      if (position < oldest.end) this.#append(key, value)
    }
    this.settle()
    for (const { end } of sealed.slice(-2)) {
      for (const directory of this.#directories) {
        const checkpoint = beginCheckpoint(this.world.files, directory, end)
        const entries = Array.from(this.stateAt(end), ([key, { position, value }]) => [key, { position, value }])
        checkpoint.write(Buffer.from(JSON.stringify(entries)))
        checkpoint.publish()
      }
    }
    this.log.dropBefore(oldest.end)
    this.settle()
  }
}

/** What a start finds in a directory. @throws AssertionError when the log has damage, or the state names a frame that is not there */
export async function recovered(
  world: World,
  directory: string,
): Promise<{ readonly state: State; readonly end: number }> {
  const log = await world.open({ directory })
  const checkpoint = readNewestCheckpoint(world.files, [directory], log.committed)
  const state = new Map(
    checkpoint === null
      ? []
      : (JSON.parse(contentOf(checkpoint).toString()) as [number, { position: number; value: number }][]),
  )
  const oldest = log.segments[0]?.base ?? 0
  assert(oldest <= (checkpoint?.position ?? 0) + 64, 'a checkpoint stands for the segments that are gone')
  const { frames, damage } = replay(log, world.files)
  assert.deepEqual([damage, log.incidents], [[], []])
  const values = new Map<number, number>()
  for (const { position, end, payload } of frames) {
    const [key, value] = JSON.parse(payload.toString()) as [number, number]
    values.set(position, value)
    if (end > (checkpoint?.position ?? 0)) state.set(key, { position, value })
  }
  for (const { position, value } of state.values())
    assert.equal(values.get(position), value, `the frame at ${position}`)
  const end = log.committed
  await log.close()
  return { state, end }
}

/** Files of a store that changes while they are read: `change` runs before each access. */
export function changingFiles(files: Files, change: () => void): Files {
  const changing: Files = Object.create(files) as Files // all other methods are those of `files`
  changing.list = (path) => {
    change()
    return files.list(path)
  }
  changing.exists = (path) => {
    change()
    return files.exists(path)
  }
  changing.open = (path, access) => {
    change()
    const file = files.open(path, access)
    const reading = Object.create(file) as typeof file // likewise
    reading.read = (into, at) => {
      change()
      return file.read(into, at)
    }
    reading.size = () => file.size()
    reading.close = () => file.close()
    return reading
  }
  return changing
}
