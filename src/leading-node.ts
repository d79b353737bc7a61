/** Which node of a cluster leads, as far as the nodes that were heard say. */

interface Heard {
  readonly role: 'recovering' | 'follower' | 'leader'
  readonly epoch: number
  /** Time since the node was heard last; 0 for this node itself. */
  readonly heardMsAgo: number
}

/** A node that was not heard for so long is away: nodes speak about every second. */
export const AWAY_MS = 5000

export const isAway = ({ heardMsAgo }: Heard): boolean => heardMsAgo > AWAY_MS

/** The leader with the highest epoch: a node that was stopped may not know yet that it leads no more. Null: no leader is known. */
export function leaderOf<Node extends Heard>(nodes: readonly Node[]): Node | null {
  const leading = nodes.filter((each) => each.role === 'leader' && !isAway(each))
  return leading.reduce<Node | null>((newest, each) => (each.epoch > (newest?.epoch ?? -1) ? each : newest), null)
}
