/** All actors that work on a service at the same time. */
import type { Random } from '../../bench/load/random.ts'
import type { RunningService } from '../../test/support/process.ts'
import { eventually } from '../../test/support/waiting.ts'

export interface Member {
  /** Resolves when it was told to stop and has ended what it was doing. */
  run(): Promise<unknown>
  stop(): void
}

export class Crew {
  #members: readonly Member[] = []
  #working: Promise<unknown> = Promise.resolve()

  protected begin(members: readonly Member[]): void {
    this.#members = members
    this.#working = Promise.all(members.map((member) => member.run()))
    this.#working.catch(() => {}) // the next caller that waits for it gets the error
  }

  /** Waits for something while the work goes on; fails when a member does. */
  async during<Result>(wait: Promise<Result>): Promise<Result> {
    const failed = this.#working.then(() => {
      throw new Error('every actor stopped before it was told to')
    })
    failed.catch(() => {}) // lost the race
    return Promise.race([wait, failed])
  }

  /** Resolves when every member has ended what it was doing. */
  protected async stopAll(): Promise<void> {
    for (const member of this.#members) member.stop()
    await this.#working
  }

  /** Tells all members to stop, and does not wait for them. */
  protected abandonAll(): void {
    for (const member of this.#members) member.stop()
  }
}

/** How an answer counts that reports a failure: it is not allowed, the outcome of the request is unknown, or nothing came of it. */
export type Failures = 'forbidden' | 'unknown' | 'undone'

/** What a crew that can be held shares: what is known of the service, and the way to it. */
interface HoldableScene {
  readonly gate: { open(): void; close(): void }
  readonly isQuiet: boolean
  failures: Failures
  abandon(): void
}

interface Checks {
  /** @param isFinal what was not answered and did not happen until now never will; false: a restart may bring it */
  run(isFinal: boolean): Promise<void>
}

/** A crew that waits, all of it, while the service is looked at. */
export abstract class CheckedCrew<Scene extends HoldableScene> extends Crew {
  readonly scene: Scene
  readonly random: Random
  protected abstract readonly checks: Checks

  protected constructor(scene: Scene, random: Random) {
    super()
    this.scene = scene
    this.random = random
  }

  /** No member sends anything from here on, until `check` or `resume`. What was sent is answered, or never will be. */
  async hold(): Promise<void> {
    this.scene.gate.close()
    await this.during(eventually(() => this.scene.isQuiet))
  }

  resume(): void {
    this.scene.gate.open()
  }

  /** Checks the service while all members wait, and then lets them go on. */
  async check(isFinal = true): Promise<void> {
    await this.during(this.checks.run(isFinal))
    this.resume()
  }

  /** Kills the service while all members wait, starts it again, and checks it. From then on nothing may fail. */
  async checkAfterKill(server: RunningService): Promise<void> {
    await this.hold()
    await server.kill()
    await server.startAgain()
    this.scene.failures = 'forbidden'
    await this.check()
  }

  /** Checks after so many per cent of all starts, by chance; after the others the load goes on at once. @returns what to say of it */
  async checkSometimes(percent: number): Promise<string> {
    const isChecked = this.random.between(1, 100) <= percent
    if (isChecked) await this.check()
    else this.resume()
    return isChecked ? '' : 'not checked, '
  }

  /** Ends the load as it is: the check after it failed, or never came. */
  abandon(): void {
    this.abandonAll()
    this.scene.abandon()
  }
}
