/**
 * The world that the engines of all services run in during tests: simulated files, a journal that the test moves by hand, threads that answer
 * when they are served, and clocks that the test moves. No thread, disk or timer is real.
 */
import type { Log } from '../../src/log/log.ts'
import { World } from './log-harness.ts'
import { nextTurn } from './next-turn.ts'
import { mulberry32 } from './sim-files.ts'

export const WALL_START_MS = 1_800_000_000_000
/** Bytes of the disk that the log keeps free. */
export const RESERVE_BYTES = 2 << 20
const ROOMY_BYTES = 2 ** 40

/** Requests that a thread has not answered yet. */
export class HeldWork {
  /** How many requests the thread has answered. */
  served = 0
  #held: (() => void)[] = []

  get waiting(): number {
    return this.#held.length
  }

  /** Resolves when `serve` has run it. */
  hold<Result>(run: () => Result): Promise<Result> {
    return new Promise((resolve, reject) => {
      this.#held.push(() => {
        try {
          resolve(run())
        } catch (error) {
          reject(error)
        }
      })
    })
  }

  serve(): void {
    this.served += this.#held.length
    for (const run of this.#held.splice(0)) run()
  }

  /** The process ends: requests are never answered. */
  drop(): void {
    this.#held = []
  }
}

export abstract class EngineWorld {
  readonly world: World
  log!: Log
  readonly warnings: string[] = []
  /** Milliseconds that the wall clock is off. */
  wallSkewMs = 0
  /** Milliseconds since the world began, as a clock shows them that is never set. */
  protected elapsedMs = 0
  protected readonly random: () => number
  #bootMs = 0

  constructor(seed: number, world = new World({ seed })) {
    this.world = world
    this.random = mulberry32(seed + 1)
  }

  get files() {
    return this.world.files
  }

  get wallMs(): number {
    return WALL_START_MS + this.elapsedMs + this.wallSkewMs
  }

  abstract open(): Promise<void>

  /** Closes in order, with everything written. */
  abstract close(): Promise<void>

  /** Ends the threads and timers of the process; nothing is held afterwards. */
  protected abstract dropAll(): void

  /** Ends the process; 'crash' is a power failure. */
  end(how: 'kill' | 'crash'): void {
    this.dropAll()
    this.world.end(how)
  }

  /** The monotonic clock begins anew. */
  protected boot(): void {
    this.#bootMs = this.elapsedMs - Math.floor(this.random() * 1000)
    this.world.nowMs = this.elapsedMs - this.#bootMs
  }

  protected passTime(ms: number): void {
    this.elapsedMs += ms
    this.world.nowMs += ms
  }

  protected readonly fillRandom = (bytes: Uint8Array): void => bytes.forEach((_, i) => (bytes[i] = this.random() * 256))

  // The journal

  /** The journal writes and syncs what waits. Main does not hear of it yet. */
  stepWithoutNotice(): void {
    this.world.lanes[0]?.stepWithoutNotice()
  }

  /** The journal's thread ends; with `unheard`, its last messages do not arrive. */
  async journalDies(how: 'heard' | 'unheard' = 'heard'): Promise<void> {
    const lane = this.world.lanes[0]!
    if (how === 'unheard') lane.vanish()
    lane.die()
    await nextTurn()
  }

  // The disk

  /** Leaves this many bytes free, besides the log's reserve; Infinity: more than enough. The log notices when it looks. */
  protected setRoom(bytes: number): void {
    const { files } = this
    files.capacityBytes =
      bytes === Infinity ? ROOMY_BYTES : files.capacityBytes - files.freeBytes('/') + RESERVE_BYTES + bytes
  }

  protected letLogLook(): void {
    for (const lane of this.world.lanes) lane.idle()
  }

  /** The disk works again, and has room. */
  mendDisk(): void {
    this.files.faults = {}
    this.setRoom(Infinity)
  }

  /** From now on no sync of the log succeeds. */
  failSyncs(): void {
    this.files.faults = { sync: (path) => (path.endsWith('.log') ? 'EIO' : null) }
  }
}
