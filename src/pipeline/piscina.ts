import type * as Piscinas from 'piscina'
import { requirePackage } from '../require-package.ts'

const piscina = requirePackage('piscina') as typeof Piscinas

export const { Piscina, workerData } = piscina
export type Pool<Task = unknown, Result = unknown> = Piscinas.Piscina<Task, Result>
type PoolThread = Parameters<
  NonNullable<NonNullable<ConstructorParameters<typeof Piscinas.Piscina>[0]>['loadBalancer']>
>[1][number]
export type HandedOver = ReturnType<typeof Piscinas.move>

/** The same task, marked for the thread that began last (see `balancer`). The mark is a symbol, which is not cloned to the thread. */
export const forNewestThread = <Task>(task: Task): Task =>
  Object.assign({}, task, { [piscina.queueOptionsSymbol]: NEWEST_THREAD })

const NEWEST_THREAD = {}

/**
 * Takes the free thread that began first, and for a task that `forNewestThread` marked the one that began last. So as long as tasks come one after the other, each finds
 * what the one before has left in the memory of its thread.
 */
export function balancer(task: Piscinas.PiscinaTask, threads: readonly PoolThread[]): PoolThread | null {
  const wantsNewest = task[piscina.queueOptionsSymbol] === NEWEST_THREAD
  let best: PoolThread | null = null
  for (const thread of threads) {
    if (thread.currentUsage > 0) continue
    if (best === null || thread.id > best.id === wantsNewest) best = thread
  }
  return best
}

/** What a task returns when the memory of its result is handed over without a copy. */
export const handOver = (result: object, memory: readonly ArrayBuffer[]): HandedOver =>
  piscina.move({ [piscina.transferableSymbol]: memory, [piscina.valueSymbol]: result })
