/**
 * What the keeper of one stream knows of it, of its one group and cursor, and of its stream of dead letters. No other actor touches them, so each
 * act has one outcome: a life is replaced by the next one, which is known before the act is asked.
 *
 * V1  an act that was answered has happened; one that was not has happened as a whole or not at all, and `viewOf` tells which
 */
interface Letter {
  readonly id: string
  readonly isRedriven: boolean
}

export interface Life {
  /** Null: there is no such stream. */
  readonly stream: {
    readonly maxAttempts: number
    readonly floor: number
    /** Message ids from offset 0 on. */
    readonly ids: readonly string[]
    /** Offsets, in the order in which they were finished; null: there is no group. */
    readonly finished: readonly number[] | null
    readonly cursor: number | null
  } | null
  /** Null: there is no stream of dead letters. */
  readonly letters: readonly Letter[] | null
}

export type LivingStream = NonNullable<Life['stream']>

/** All that the broker's routes show of a life. */
export interface LifeView {
  readonly stream: {
    readonly maxAttempts: number
    readonly floor: number
    readonly kept: readonly string[]
    readonly group: { readonly progress: number; readonly lag: number } | null
    readonly cursor: number | null
  } | null
  readonly letters: readonly string[] | null
}

export const NOTHING: Life = { stream: null, letters: null }

export const unfinishedOf = ({ floor, ids, finished }: LivingStream): number[] =>
  Array.from({ length: ids.length - floor }, (_, i) => floor + i).filter((offset) => !finished?.includes(offset))

export function viewOf({ stream, letters }: Life): LifeView {
  return { stream: stream && streamView(stream), letters: letters && letters.map(({ id }) => id) }
}

function streamView(stream: LivingStream): LifeView['stream'] {
  const { maxAttempts, floor, ids, finished, cursor } = stream
  const unfinished = unfinishedOf(stream)
  const group = finished && { progress: unfinished[0] ?? ids.length, lag: unfinished.length }
  return { maxAttempts, floor, kept: ids.slice(floor), group, cursor }
}
