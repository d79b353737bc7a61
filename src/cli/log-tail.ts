/**
 * A tail of a log store that outlives its connections: after a loss it connects again, behind the last event that came, so that no record is
 * left out and none comes twice.
 */
import { Type } from '../schema.ts'
import type { Static } from 'typebox'
import { isOf } from '../schema-check.ts'
import type { Call } from './command.ts'
import { isFailure } from './command.ts'
import { refusal } from './failure.ts'
import { ShownRecord } from './log-text.ts'
import type { StoreEvent } from './store-target.ts'
import { visible } from './style.ts'

const COME_BACK_MS = 1000

const Missed = Type.Object({ records: Type.Union([Type.Integer(), Type.Null()]), reason: Type.String() })

export type TailItem =
  | { readonly record: ShownRecord; readonly missed: null }
  /** Records that the store did not send, and why. */
  | { readonly record: null; readonly missed: Static<typeof Missed> }

/** @param dataset null: every one that may be read */
export function tailPath(dataset: string | null, search: string | null): string {
  const parameters = new URLSearchParams({ ...(dataset !== null && { dataset }), ...(search !== null && { search }) })
  return parameters.size === 0 ? '/v1/tail' : `/v1/tail?${parameters.toString()}`
}

/**
 * Follows the tail until the command is ended.
 *
 * @param onBegun called once, when the tail has begun: everything that is stored from then on will come
 * @throws CliFailure when the store refuses, or cannot be reached the first time
 */
export async function* followTail(
  call: Call,
  path: string,
  onBegun: () => Promise<void> = async () => {},
): AsyncGenerator<TailItem, void> {
  const { store, world } = call
  const { stop } = world
  let lastId = ''
  let isLost = false
  while (!stop.aborted) {
    try {
      for await (const event of store.events(path, lastId, stop)) {
        const isFirst = lastId === ''
        if (event.id !== '') lastId = event.id
        isLost = false
        if (isFirst && lastId !== '') await onBegun()
        if (event.event === 'end') throw store.refusalIn(event.data) ?? unknownEvent()
        const item = itemOf(event)
        if (item !== null) yield item
      }
    } catch (error) {
      if (stop.aborted) return
      const mayComeBack = isFailure(error) && error.detail.retryable && lastId !== ''
      if (!mayComeBack) throw error
      if (!isLost) world.writeToStderr(`${visible(error.message)}; trying again`)
      isLost = true
    }
    await world.pause(COME_BACK_MS)
  }
}

/** Null: the event only tells how far the tail is. */
function itemOf({ event, data }: StoreEvent): TailItem | null {
  if (data === '') return null
  const content: unknown = JSON.parse(data)
  if (event === '' && isOf(ShownRecord, content)) return { record: content, missed: null }
  if (event === 'missed' && isOf(Missed, content)) return { record: null, missed: content }
  throw unknownEvent()
}

const unknownEvent = () =>
  refusal('unknown_answer', 'this version cannot read an event of the log store', {
    action: 'Use the trilog command of the same version as the log store.',
  })
