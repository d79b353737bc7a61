/** Which node of a cluster leads, as far as the nodes that were heard say. */

interface Heard {
  readonly role: 'recovering' | 'follower' | 'leader'
  readonly epoch: number
  /** Since it was heard last; 0 of this node itself. */
  readonly heardMsAgo: number
}

/** A node that was not heard for so long is away: nodes speak about every second. */
export const AWAY_MS = 5000

export const isAway = ({ heardMsAgo }: Heard): boolean => heardMsAgo > AWAY_MS

/** The one of the highest epoch: one that was stopped may not know yet that it leads no more. Null: none is known. */
export function leaderOf<Node extends Heard>(nodes: readonly Node[]): Node | null {
  const leading = nodes.filter((each) => each.role === 'leader' && !isAway(each))
  return leading.reduce<Node | null>((newest, each) => (each.epoch > (newest?.epoch ?? -1) ? each : newest), null)
}
