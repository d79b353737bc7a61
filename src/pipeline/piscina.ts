import type * as Piscinas from 'piscina'
import { requirePackage } from '../require-package.ts'

const piscina = requirePackage('piscina') as typeof Piscinas

export const { Piscina, workerData } = piscina
export type Pool<Task = unknown, Result = unknown> = Piscinas.Piscina<Task, Result>
export type HandedOver = ReturnType<typeof Piscinas.move>

/** What a task returns when memory goes with its result, which is not copied. */
export const handOver = (result: object, memory: readonly ArrayBuffer[]): HandedOver =>
  piscina.move({ [piscina.transferableSymbol]: memory, [piscina.valueSymbol]: result })
