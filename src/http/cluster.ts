/**
 * What clients see of a cluster: `GET /v1/cluster`, health by role, and the answers of a node that does not lead.
 *
 * L1  a node that does not lead refuses retryably, and says where the leader is in `x-trilog-leader`, if it knows an address
 * L2  without a cluster the node leads: clients ask the same, and it answers everything
 */
import type { Static } from 'typebox'
import { isAway, leaderOf } from '../leading-node.ts'
import { Type } from '../schema.ts'
import type { Exchange, RequestHead } from './exchange.ts'
import type { Endpoint, Route } from './routes.ts'
import { JSON_TYPE, answerLine, answerText } from './text-answer.ts'

/** What a node says of itself to the others. */
interface ClusterNodeStatus {
  readonly node: string
  readonly role: 'recovering' | 'follower' | 'leader'
  readonly epoch: number
  /** Sequence of the last message of the stream that it took. */
  readonly sequence: number
  /** Position up to which the log is confirmed and synced on its disk. */
  readonly position: number
  /** Where clients reach the service on that node; null: the node does not say. */
  readonly url: string | null
}

/** Another node or this one, as this one heard of it. */
export interface HeardNode extends ClusterNodeStatus {
  /** Time since the node was heard last; 0 for this node itself. */
  readonly heardMsAgo: number
}

/** What one service of a node knows of its cluster at the moment. */
export interface ClusterView {
  readonly name: string
  readonly node: string
  /** This node may answer clients. */
  readonly leads: boolean
  /** All known nodes, this one included, in any order. */
  readonly nodes: readonly HeardNode[]
}

export const LEADER_HEADER = 'x-trilog-leader'
const RETRY_AFTER_SECONDS = '1'

const Node = Type.Object({
  node: Type.String(),
  role: Type.String({ description: 'leader, follower, recovering, or away: not heard for 5 s' }),
  epoch: Type.Integer({ description: 'epoch of the leader that the node follows; its own epoch on the leader' }),
  sequence: Type.Integer({ description: 'sequence of the last message of the stream that the node has taken' }),
  position: Type.Integer({ description: 'position up to which the log of the node is confirmed and on its disk' }),
  behind: Type.Object(
    { messages: Type.Integer(), bytes: Type.Integer() },
    {
      description:
        'what the node lacks compared with the leader; without a leader, compared with the most advanced node',
    },
  ),
  url: Type.Union([Type.String(), Type.Null()], { description: 'where clients reach this service on that node' }),
  heard_ms_ago: Type.Integer(),
})
export const ClusterReply = Type.Object({
  cluster: Type.String(),
  node: Type.String({ description: 'name of the node that answers' }),
  role: Type.String({ description: 'role of the node that answers' }),
  epoch: Type.Integer(),
  sequence: Type.Integer(),
  leader: Type.Union([Type.String(), Type.Null()], { description: 'name of the leader; null: this node knows none' }),
  nodes: Type.Array(Node),
})
export type ClusterReply = Static<typeof ClusterReply>

/** The answer of `GET /v1/cluster`. Nodes by name. */
export function clusterReply({ name, node, nodes }: ClusterView): ClusterReply {
  const leader = leaderOf(nodes)
  const ahead = leader ?? nodes.reduce<HeardNode | null>((most, each) => (isAhead(each, most) ? each : most), null)
  const own = nodes.find((each) => each.node === node)
  return {
    cluster: name,
    node,
    role: own === undefined ? 'recovering' : roleOf(own),
    epoch: own?.epoch ?? 0,
    sequence: own?.sequence ?? 0,
    leader: leader?.node ?? null,
    nodes: [...nodes]
      .sort((one, other) => (one.node < other.node ? -1 : 1))
      .map((each) => ({
        node: each.node,
        role: roleOf(each),
        epoch: each.epoch,
        sequence: each.sequence,
        position: each.position,
        behind: {
          messages: Math.max(0, (ahead?.sequence ?? 0) - each.sequence),
          bytes: Math.max(0, (ahead?.position ?? 0) - each.position),
        },
        url: each.url,
        heard_ms_ago: Math.round(each.heardMsAgo),
      })),
  }
}

const isAhead = (one: HeardNode, other: HeardNode | null): boolean => other === null || one.sequence > other.sequence

const roleOf = (node: HeardNode): string => (isAway(node) ? 'away' : node.role)

/** @param isKnown false for strangers, where the service asks for credentials: they do not get the list of nodes */
export const clusterEndpoint = (
  view: () => ClusterView,
  isKnown: (head: RequestHead, exchange: Exchange) => boolean,
): Endpoint => ({
  isPublic: true,
  document: {
    security: [],
    summary: 'Nodes of the cluster, their roles, and how far each is behind',
    replies: [
      { status: 200, description: 'the cluster as this node knows it', mediaType: JSON_TYPE, schema: ClusterReply },
    ],
  },
  begin(head, exchange) {
    const reply = clusterReply(view())
    const shown = isKnown(head, exchange) ? reply : { ...reply, nodes: [] }
    answerLine(exchange, 200, JSON.stringify(shown))
  },
})

/** Query of `GET /health`, for the document. */
export const ROLE_QUERY = [
  {
    name: 'role',
    schema: {
      type: 'string',
      enum: ['leader'],
      description: 'leader: a node of a cluster that does not lead answers 503',
    },
  },
]

/** L2. Answers `GET /health?role=leader` on a node that does not lead. @returns false when the request does not ask for the leader, or the node leads */
export function answeredByRole(
  head: RequestHead,
  exchange: Exchange,
  view: (() => ClusterView) | null | undefined,
): boolean {
  const asksLeader = new URLSearchParams(head.query).get('role') === 'leader'
  if (!asksLeader || !view || view().leads) return false
  answerText(exchange, 503, 'Unhealthy: this node does not lead', leaderHeaders(view()))
  return true
}

/** L1 */
export function leaderHeaders(view: ClusterView): readonly (readonly [name: string, value: string])[] {
  const url = leaderUrlOf(view)
  return url === null ? [] : [[LEADER_HEADER, url]]
}

/** Where the leader is, if it is another node. Null: no leader is known, or it does not say where it is. */
export function leaderUrlOf({ nodes, node }: ClusterView): string | null {
  const leader = leaderOf(nodes)
  return leader === null || leader.node === node ? null : leader.url
}

/** L1. Routes that only the leader answers. @param view null: there is no cluster (L2) */
export function routesOfLeader(view: (() => ClusterView) | null, routes: readonly Route[]): readonly Route[] {
  if (view === null) return routes
  return routes.map((route) => {
    const { endpoint } = route
    return {
      ...route,
      endpoint: {
        ...endpoint,
        begin: (head, exchange) => refusedByFollower(exchange, view()) || endpoint.begin(head, exchange),
      },
    }
  })
}

/** False: the node leads. */
function refusedByFollower(exchange: Exchange, view: ClusterView): boolean {
  if (view.leads) return false
  const { nodes, node } = view
  const leader = leaderOf(nodes)
  const isElsewhere = leader !== null && leader.node !== node
  const who = isElsewhere ? `node ${leader.node} does` : 'and no leader is known'
  answerText(exchange, 503, `node ${node} does not lead, ${who}`, [
    ['retry-after', RETRY_AFTER_SECONDS],
    ...leaderHeaders(view),
  ])
  return true
}
