/**
 * Tells systemd how the process is, when a unit with `Type=notify` started it. Source: man 3 sd_notify.
 *
 *   READY      every service takes requests
 *   RELOADING  SIGHUP came: files are read again; READY follows
 *   STOPPING   the process was told to end
 *   WATCHDOG   the event loop of the main thread turns; said twice in the time after which systemd kills a silent process
 */
import { sendDatagram } from './libc.ts'

export interface ServiceManagerWorld {
  readonly env: Readonly<Record<string, string | undefined>>
  readonly pid: number
  readonly monotonicUs: () => bigint
  readonly every: (intervalMs: number, task: () => void) => void
  /** Called once, when systemd cannot be told. */
  readonly onFailure: (code: string) => void
}

export class ServiceManager {
  readonly #socket: string
  readonly #world: ServiceManagerWorld
  readonly #watchdogMs: number | null
  #isReady = false
  #hasFailed = false

  /** @param socket what `NOTIFY_SOCKET` names */
  constructor(socket: string, world: ServiceManagerWorld) {
    this.#socket = socket
    this.#world = world
    this.#watchdogMs = watchdogMs(world)
  }

  ready(): void {
    this.#isReady = true
    this.#tell('READY=1')
    if (this.#watchdogMs !== null) this.#world.every(this.#watchdogMs / 2, () => this.#tell('WATCHDOG=1'))
  }

  /** Reads files again. Before the process is ready systemd is not told: it would take the READY that follows for that of the start. */
  reload(read: () => void): void {
    if (this.#isReady) this.#tell(`RELOADING=1\nMONOTONIC_USEC=${this.#world.monotonicUs()}`)
    read()
    if (this.#isReady) this.#tell('READY=1')
  }

  /** The watchdog continues: systemd also watches the closing. */
  stopping(): void {
    this.#tell('STOPPING=1')
  }

  #tell(state: string): void {
    const failure = sendDatagram(this.#socket, state)
    if (failure === null || this.#hasFailed) return
    this.#hasFailed = true
    this.#world.onFailure(failure)
  }
}

/** Null: systemd does not watch this process. */
function watchdogMs({ env, pid }: ServiceManagerWorld): number | null {
  const { WATCHDOG_USEC: usec = '', WATCHDOG_PID: watched = String(pid) } = env
  return /^[1-9]\d*$/.test(usec) && watched === String(pid) ? Number(usec) / 1000 : null
}
