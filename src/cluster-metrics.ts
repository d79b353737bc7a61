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
    'Nodes that were heard in the last 5 s, with this one',
    ({ nodes }) => nodes.filter(({ role }) => role !== 'away').length,
  )
  ofView('epoch', 'Epoch of the leader that this node follows, or is', ({ epoch }) => epoch)
  ofView('sequence', 'Sequence of the last message of the stream that this node took', ({ sequence }) => sequence)
  ofView('position', 'Where its log ends, as far as that is confirmed and on its disk', (seen) => ownOf(seen).position)
  ofView(
    'behind_messages',
    'Messages that this node lacks of what the leader has, or the node that has most',
    (seen) => ownOf(seen).behind.messages,
  )
  ofView('behind_bytes', 'Bytes of the log that it lacks likewise', (seen) => ownOf(seen).behind.bytes)
  gauge(
    'lease_seconds',
    'How long this node may still answer without another acknowledgement; 0: it may not',
    ({ leaseLeftMs }) => leaseLeftMs / 1000,
  )
  gauge(
    'acknowledged_seconds_ago',
    'Since the stream acknowledged a message of this node; absent: it never did',
    ({ acknowledgedMsAgo: ms }) => (ms === null ? null : ms / 1000),
  )
  gauge('in_flight_messages', 'Messages that are not acknowledged yet', ({ inFlight }) => inFlight)
  gauge('in_flight_bytes', 'Bytes of their frames', ({ inFlightBytes }) => inFlightBytes)
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
    'Acknowledgements that did not come in time, so that the stream was asked',
    ({ lostAcknowledgements }) => lostAcknowledgements,
  )
  counter(
    'refused_publishes',
    'Messages that the stream refused, as it did not end where they expected',
    ({ refusedPublishes }) => refusedPublishes,
  )
  counter('look_ups', 'Questions to the stream what stands at a sequence', ({ lookUps }) => lookUps)
  metrics.counters({ name: 'trilog.cluster.role_changes', help: 'Times that this node took a role' }, () => {
    const changes = valueOf(({ roleChanges }) => roleChanges)
    return ROLES.map((role) => [{ ...labels, role }, changes?.[role] ?? 0])
  })
  counter(
    'copied_bytes',
    'Bytes of the log that were copied from other nodes, as the stream had them no more',
    ({ copiedBytes }) => copiedBytes,
  )
}

const NONE = { position: 0, behind: { messages: 0, bytes: 0 } }

/** The entry of the node that answers. */
const ownOf = ({ node, nodes }: ClusterReply): typeof NONE => nodes.find((each) => each.node === node) ?? NONE
