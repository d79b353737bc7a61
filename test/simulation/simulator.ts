/**
 * Runs one machine after the other through a life of random steps: requests of many clients, and events of the disk, the threads and the
 * clocks. The laws of the service are checked after every step.
 *
 * S1  a seed decides everything: the same seed makes the same steps, with the same outcome, on every machine
 * S2  each seed has a taste of its own: some kinds of steps come often, some not at all, so that rare events meet. A third of the lives is
 *     calm, so that long operations come to their end
 * S3  a life ends with a crash, after which the service is what its log says; some lives then drain what is left over
 */
import type { RandomHistory, Step, Weights } from '../support/random-history.ts'
import { stepsOf } from '../support/random-history.ts'
import { mulberry32 } from '../support/sim-files.ts'

/** What a service brings to the simulation: its kinds of steps, and a life that runs them and checks the laws. */
export interface Workload {
  readonly kinds: Weights<string>
  /** Kinds without which nothing happens: every life has them. */
  readonly always: ReadonlySet<string>
  /** Kinds that break off operations: calm lives leave them out. */
  readonly calamities: ReadonlySet<string>
  begin(seed: number): Promise<Life>
}

type Life = Pick<RandomHistory<string>, 'run' | 'reopen' | 'quiesce' | 'drain'>

export interface Plan {
  readonly seed: number
  readonly steps: readonly Step<string>[]
  readonly drains: boolean
}

export class SimulationFailed extends Error {
  readonly plan: Plan
  /** Number of steps of the plan that were taken. */
  readonly taken: number

  constructor(plan: Plan, taken: number, cause: unknown) {
    super(`seed ${plan.seed}, after ${taken} steps: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
    this.plan = plan
    this.taken = taken
  }
}

/** S2: factors for the weight of a kind of steps. */
const TASTES = [0, 0.25, 1, 1, 1, 4] as const
const CALM_SHARE = 1 / 3
const STEPS_MAX = 300
const DRAINED_SHARE = 1 / 4
/** Most lives that are tried to shorten a plan. */
const CUTS_MAX = 400

/** S1 */
export function planOf(workload: Workload, seed: number): Plan {
  const random = mulberry32(Math.imul(seed, 0x9e3779b1))
  const isCalm = random() < CALM_SHARE
  const kinds = workload.kinds.map(([kind, weight]) => {
    const taste = TASTES[Math.floor(random() * TASTES.length)]!
    if (isCalm && workload.calamities.has(kind)) return [kind, 0] as const
    return [kind, weight * (workload.always.has(kind) ? Math.max(taste, 0.5) : taste)] as const
  })
  const drains = random() < DRAINED_SHARE
  return { seed, steps: stepsOf(kinds, random, 1 + Math.floor(random() * STEPS_MAX)), drains }
}

/** @throws SimulationFailed when a law is broken */
export async function runLife(workload: Workload, plan: Plan): Promise<void> {
  let taken = 0
  try {
    const life = await workload.begin(plan.seed)
    for (const step of plan.steps) {
      taken += 1
      await life.run(step)
    }
    await life.reopen('crash')
    await life.quiesce()
    if (plan.drains) await life.drain()
  } catch (error) {
    throw new SimulationFailed(plan, taken, error)
  }
}

/** Finds a shorter plan that fails too, perhaps for another reason: it leaves out the steps after the failure, then one piece after the other. */
export async function cutDown(workload: Workload, failed: SimulationFailed): Promise<SimulationFailed> {
  let shortest = failed
  let cuts = 0
  const failsWith = async (steps: readonly Step<string>[]): Promise<boolean> => {
    cuts += 1
    try {
      await runLife(workload, { ...failed.plan, steps })
      return false
    } catch (error) {
      if (!(error instanceof SimulationFailed)) throw error
      shortest = error
      return true
    }
  }
  const taken = (): readonly Step<string>[] => shortest.plan.steps.slice(0, shortest.taken)
  for (let size = Math.ceil(taken().length / 2); size >= 1; size = size === 1 ? 0 : Math.ceil(size / 2)) {
    for (let at = taken().length - size; at > -size; at -= size) {
      if (cuts === CUTS_MAX) return shortest
      await failsWith(taken().filter((_, i) => i < at || i >= at + size))
    }
  }
  return shortest
}

export interface SimulatedCounts {
  readonly lives: number
  readonly steps: number
}

/** @throws SimulationFailed for the first life that fails */
export async function simulate(
  workload: Workload,
  seeds: Iterable<number>,
  onLife: (counts: SimulatedCounts) => void = () => {},
): Promise<SimulatedCounts> {
  let counts: SimulatedCounts = { lives: 0, steps: 0 }
  for (const seed of seeds) {
    const plan = planOf(workload, seed)
    await runLife(workload, plan)
    counts = { lives: counts.lives + 1, steps: counts.steps + plan.steps.length }
    onLife(counts)
  }
  return counts
}
