/** Metrics of a service's cluster. The labels `cluster` and `service` tell services apart. Without a cluster there are no such metrics. */
import type { MemberMeasures } from './cluster/member/member.ts'
import { clusterReply } from './http/cluster.ts'
import type { ClusterReply, ClusterView } from './http/cluster.ts'
import type { Metrics } from './observability/metrics.ts'

export interface ClusterMetricSources {
  readonly service: 'logstore' | 'objectstore' | 'broker'
  readonly view: () => ClusterView
  /** Null while the node opens. */
  readonly measures: () => MemberMeasures | null
}

const ROLES = ['leader', 'follower', 'recovering'] as const

export function registerClusterMetrics<Scope>(
  metrics: Metrics<Scope>,
  { service, view, measures }: ClusterMetricSources,
): void {
  const labels = { cluster: view().name, service }
  const ofView = (name: string, help: string, read: (seen: ClusterReply) => number): void =>
    metrics.gauges({ name: `trilog.cluster.${name}`, help }, () => [[labels, read(clusterReply(view()))]])
  /** @param read returns null when there is nothing to show */
  const gauge = (name: string, help: string, read: (measured: MemberMeasures) => number | null): void =>
    metrics.gauges({ name: `trilog.cluster.${name}`, help }, () => {
      const value = valueOf(read)
      return value === null ? [] : [[labels, value]]
    })
  const counter = (name: string, help: string, read: (measured: MemberMeasures) => number): void =>
    metrics.counters({ name: `trilog.cluster.${name}`, help }, () => [[labels, valueOf(read) ?? 0]])
  const valueOf = <Value>(read: (measured: MemberMeasures) => Value): Value | null => {
    const measured = measures()
    return measured && read(measured)
  }
  metrics.gauges({ name: 'trilog.cluster.role', help: '1 for the role that this node has' }, () => {
    const { role } = clusterReply(view())
    return ROLES.map((each) => [{ ...labels, role: each }, each === role ? 1 : 0])
  })
  ofView('leader_known', '1 when this node knows which node leads', ({ leader }) => (leader === null ? 0 : 1))
  ofView(
    'nodes',
    'Nodes that were heard from in the last 5 s, including this one',
    ({ nodes }) => nodes.filter(({ role }) => role !== 'away').length,
  )
  ofView('epoch', 'Epoch of the leader that this node follows; its own epoch on the leader', ({ epoch }) => epoch)
  ofView('sequence', 'Sequence of the last message of the stream that this node has taken', ({ sequence }) => sequence)
  ofView(
    'position',
    'Position up to which the log of this node is confirmed and on its disk',
    (seen) => ownOf(seen).position,
  )
  ofView(
    'behind_messages',
    'Messages that this node lacks compared with the leader; without a leader, compared with the most advanced node',
    (seen) => ownOf(seen).behind.messages,
  )
  ofView(
    'behind_bytes',
    'Bytes of the log that this node lacks compared with the leader; without a leader, compared with the most advanced node',
    (seen) => ownOf(seen).behind.bytes,
  )
  gauge(
    'lease_seconds',
    'Time for which the lease of this node still allows answers; 0: it may not answer',
    ({ leaseLeftMs }) => leaseLeftMs / 1000,
  )
  gauge(
    'acknowledged_seconds_ago',
    'Time since the stream last acknowledged a message of this node; absent: it never did',
    ({ acknowledgedMsAgo: ms }) => (ms === null ? null : ms / 1000),
  )
  gauge('in_flight_messages', 'Messages sent to the stream that are not confirmed yet', ({ inFlight }) => inFlight)
  gauge(
    'in_flight_bytes',
    'Bytes of the frames in messages that are not confirmed yet',
    ({ inFlightBytes }) => inFlightBytes,
  )
  metrics.histograms(
    {
      name: 'trilog.cluster.publish_duration_seconds',
      help: 'Time from the publish of a message to its acknowledgement in the stream',
    },
    () => {
      const measured = measures()
      return measured === null ? [] : [[labels, measured.publishSeconds]]
    },
  )
  counter(
    'lost_acknowledgements',
    'Acknowledgements that did not come in time; the node then asked the stream for the message',
    ({ lostAcknowledgements }) => lostAcknowledgements,
  )
  counter(
    'refused_publishes',
    'Messages that the stream refused because it did not end at the sequence they expected',
    ({ refusedPublishes }) => refusedPublishes,
  )
  counter('look_ups', 'Requests for the message that the stream has at a sequence', ({ lookUps }) => lookUps)
  metrics.counters({ name: 'trilog.cluster.role_changes', help: 'Times that this node took a role' }, () => {
    const changes = valueOf(({ roleChanges }) => roleChanges)
    return ROLES.map((role) => [{ ...labels, role }, changes?.[role] ?? 0])
  })
  counter(
    'copied_bytes',
    'Bytes of the log copied from other nodes, because the stream no longer had them',
    ({ copiedBytes }) => copiedBytes,
  )
}

const NONE = { position: 0, behind: { messages: 0, bytes: 0 } }

/** The entry of the node that answers. */
const ownOf = ({ node, nodes }: ClusterReply): typeof NONE => nodes.find((each) => each.node === node) ?? NONE
