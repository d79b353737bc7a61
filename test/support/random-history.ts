/**
 * Random steps over several lives of an engine: what its clients ask for, and what happens to its disk, its threads and its clocks meanwhile.
 * Each service says what its own steps are and what must hold after each.
 */
import type { EngineWorld } from './engine-world.ts'
import { nextTurn } from './next-turn.ts'

/** Kinds of steps, and how often each is taken. */
export type Weights<Kind extends string> = readonly (readonly [Kind, number])[]

/** `a`, `b` and `c` are random choices; the kind says what they mean. */
export interface Step<Kind extends string> {
  readonly kind: Kind
  readonly a: number
  readonly b: number
  readonly c: number
  readonly yes: boolean
}

/** Kinds of steps that all services have. */
export type WorldKind =
  | 'stepWithoutNotice'
  | 'journalDies'
  | 'failSync'
  | 'fillDisk'
  | 'freeDisk'
  | 'time'
  | 'wallClock'
  | 'reopen'
  | 'quiesce'

interface World extends EngineWorld {
  advance(ms: number): unknown
  limitDisk(bytes: number): unknown
}

const HOUR_MS = 3_600_000

export const pick = <T>(from: readonly T[], choice: number): T => from[choice % from.length]!

export function stepsOf<Kind extends string>(
  kinds: Weights<Kind>,
  random: () => number,
  count: number,
): readonly Step<Kind>[] {
  const total = kinds.reduce((sum, [, weight]) => sum + weight, 0)
  const kind = (): Kind => {
    let left = random() * total
    return kinds.find(([, weight]) => (left -= weight) < 0)![0]
  }
  const number = (): number => Math.floor(random() * 1000)
  return Array.from({ length: Math.floor(count) }, () => ({
    kind: kind(),
    a: number(),
    b: number(),
    c: number(),
    yes: random() < 0.5,
  }))
}

export abstract class RandomHistory<Kind extends string> {
  abstract readonly world: World
  /** Milliseconds that the clocks may advance by: a few hours at most. */
  protected abstract readonly timeSteps: readonly number[]
  protected readonly wallSteps: readonly number[] = [HOUR_MS, -HOUR_MS, 1000, -1000]

  /** Checks the state as it is, with frames on their way. */
  abstract check(): void

  /** Lets everything that is under way end, and compares all that is there. */
  abstract quiesce(): Promise<unknown>

  /** In the end: checks that nothing is left over. */
  abstract drain(): Promise<void>

  protected abstract take(step: Step<Exclude<Kind, WorldKind>>): Promise<void> | void

  /** Position up to which a start must find everything, if the engine ends like this now. */
  protected abstract certainAt(how: 'close' | 'kill' | 'crash'): number

  /** The process has ended: requests that wait are never answered. */
  protected abstract forgetClients(how: 'close' | 'kill' | 'crash'): void

  /** Follows the engine that was just opened. */
  protected abstract attach(certain: number): void

  /** Asked before the test breaks something. False: it must not break here. */
  protected mayBreak(_kind: 'journalDies' | 'failSync' | 'fillDisk'): boolean {
    return true
  }

  /** Called when the disk has room again. */
  protected onRoom(): void {}

  async run(step: Step<Kind>): Promise<void> {
    try {
      if (!(await this.#moveWorld(step))) await this.take(step as Step<Exclude<Kind, WorldKind>>) // it is a step of the service
      await nextTurn()
      this.check()
    } catch (error) {
      if (error instanceof Error) error.message = `in step ${JSON.stringify(step)}: ${error.message}`
      throw error
    }
  }

  async reopen(how: 'close' | 'kill' | 'crash'): Promise<void> {
    const { world } = this
    if (how === 'close') await world.close()
    const certain = this.certainAt(how)
    if (how !== 'close') world.end(how)
    world.mendDisk()
    this.onRoom()
    this.forgetClients(how)
    await world.open()
    this.attach(certain)
    this.check()
  }

  async #moveWorld({ kind, a, yes }: Step<Kind>): Promise<boolean> {
    const { world } = this
    switch (kind as WorldKind) {
      case 'stepWithoutNotice':
        world.stepWithoutNotice()
        return true
      case 'journalDies':
        if (world.log.state.kind === 'read-only' || !this.mayBreak('journalDies')) return true
        world.mendDisk()
        this.onRoom()
        await world.journalDies(yes ? 'unheard' : 'heard')
        return true
      case 'failSync':
        if (this.mayBreak('failSync')) world.failSyncs()
        return true
      case 'fillDisk':
        if (this.mayBreak('fillDisk')) await world.limitDisk(a * 20)
        return true
      case 'freeDisk':
        this.onRoom()
        await world.limitDisk(Infinity)
        return true
      case 'time':
        await world.advance(pick(this.timeSteps, a))
        return true
      case 'wallClock':
        world.wallSkewMs += pick(this.wallSteps, a)
        return true
      case 'reopen':
        await this.reopen(pick(['close', 'kill', 'crash', 'crash'] as const, a))
        return true
      case 'quiesce':
        await this.quiesce()
        return true
      default:
        return false
    }
  }
}
