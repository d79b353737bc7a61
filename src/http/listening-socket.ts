/**
 * Pauses a listening socket of this process without closing it: neither uWebSockets.js nor Node can. Clients that connect meanwhile wait in
 * the kernel's queue, and are accepted when it goes on.
 *
 * The socket is taken out of the event loop's epoll, as nginx does it. But an accept loop under way would still empty the queue. So during a pause the
 * descriptor refers to another socket, to which no client connects: there, accept finds no connection.
 */
import { existsSync, readFileSync, readdirSync, readlinkSync } from 'node:fs'
import {
  closeDescriptor,
  deafListener,
  duplicate,
  isListening,
  localPort,
  replaceDescriptor,
  unwatchDescriptor,
  watchDescriptor,
} from '../libc.ts'
import type { Watch } from '../libc.ts'

const OPEN_FILES = '/proc/self/fd'
const ABOUT_OPEN_FILES = '/proc/self/fdinfo'
const EPOLL = 'anon_inode:[eventpoll]'

export class ListeningSocket {
  readonly #descriptor: number
  /** Descriptors of event loops, this thread's among them. */
  readonly #loops: readonly number[]
  /** Another descriptor of the socket, which keeps it while `#descriptor` refers to the deaf one. */
  readonly #kept: number
  readonly #deaf: number
  #watch: Watch | null = null
  #isPaused = false

  /**
   * Listening sockets of a port; several when other services listen on other addresses. None where the kernel does not show open files.
   *
   * @param known are left out
   */
  static of(port: number, known: Iterable<ListeningSocket>): ListeningSocket[] {
    if (!existsSync(OPEN_FILES)) return []
    const taken = new Set([...known].flatMap((each) => [each.#descriptor, each.#kept]))
    const descriptors = readdirSync(OPEN_FILES).map(Number)
    const loops = descriptors.filter(isEpoll)
    return descriptors
      .filter((each) => !taken.has(each) && localPort(each) === port && isListening(each))
      .map((each) => new ListeningSocket(each, loops))
  }

  private constructor(descriptor: number, loops: readonly number[]) {
    this.#descriptor = descriptor
    this.#loops = loops
    this.#kept = duplicate(descriptor)
    this.#deaf = deafListener()
  }

  /** Does nothing in the turn of the event loop in which the socket began to listen: no event loop watches it yet. */
  pause(): void {
    this.#watch ??= this.#findWatch() // does not change later
    if (this.#watch === null || this.#isPaused) return
    this.#isPaused = true
    unwatchDescriptor(this.#watch)
    replaceDescriptor(this.#descriptor, this.#deaf)
  }

  resume(): void {
    if (this.#watch === null || !this.#isPaused) return
    this.#isPaused = false
    replaceDescriptor(this.#descriptor, this.#kept)
    watchDescriptor(this.#watch)
  }

  /** Call it before the owner closes the socket. */
  release(): void {
    this.resume()
    closeDescriptor(this.#kept)
    closeDescriptor(this.#deaf)
  }

  /** Null when no event loop watches the socket. */
  #findWatch(): Watch | null {
    const descriptor = this.#descriptor
    const line = new RegExp(`^tfd: +${descriptor} events: +([0-9a-f]+) data: +([0-9a-f]+)`, 'm')
    for (const loop of this.#loops) {
      const [, events, data] = line.exec(aboutFile(loop)) ?? []
      if (events && data) return { loop, descriptor, events: parseInt(events, 16), data: BigInt(`0x${data}`) }
    }
    return null
  }
}

function isEpoll(descriptor: number): boolean {
  try {
    return readlinkSync(`${OPEN_FILES}/${descriptor}`) === EPOLL
  } catch {
    return false // closed meanwhile
  }
}

/** '' when it was closed. */
function aboutFile(descriptor: number): string {
  try {
    return readFileSync(`${ABOUT_OPEN_FILES}/${descriptor}`, 'latin1')
  } catch {
    return ''
  }
}
