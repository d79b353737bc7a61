/** Metrics of a node of a cluster that is one message of 100 bytes behind its leader. */
import { registerClusterMetrics } from '../../src/cluster-metrics.ts'
import type { MemberMeasures } from '../../src/cluster/member/member.ts'
import { LaneMeasures } from '../../src/cluster/lane/measures.ts'
import type { ClusterView } from '../../src/http/cluster.ts'
import { Metrics } from '../../src/observability/metrics.ts'

const view: ClusterView = {
  name: 'shop',
  node: 'b',
  leads: false,
  nodes: [
    { node: 'a', role: 'leader', epoch: 3, sequence: 8, position: 900, url: null, heardMsAgo: 10 },
    { node: 'b', role: 'follower', epoch: 3, sequence: 7, position: 800, url: null, heardMsAgo: 0 },
    { node: 'c', role: 'follower', epoch: 3, sequence: 8, position: 900, url: null, heardMsAgo: 9000 },
  ],
}

/** @param acknowledgedMsAgo null: the stream has acknowledged nothing of the node yet */
function measuresOf(acknowledgedMsAgo: number | null): MemberMeasures {
  const measured = LaneMeasures.create()
  measured.setInFlight(2, 4096)
  measured.confirmed(3, 1000)
  measured.lost()
  measured.refused()
  measured.lookedUp()
  measured.lookedUp()
  const { inFlight, inFlightBytes, publishSeconds, lostAcknowledgements, refusedPublishes, lookUps } = measured
  return {
    leaseLeftMs: 1500,
    acknowledgedMsAgo,
    inFlight,
    inFlightBytes,
    publishSeconds,
    lostAcknowledgements,
    refusedPublishes,
    lookUps,
    roleChanges: { leader: 1, follower: 2, recovering: 0 },
    copiedBytes: 12,
  }
}

/** The text that a scrape gets. @param opens whether the node has no membership yet */
export function clusterMetricsText({
  acknowledgedMsAgo = 250,
  opens = false,
}: { readonly acknowledgedMsAgo?: number | null; readonly opens?: boolean } = {}): string {
  const metrics = new Metrics()
  registerClusterMetrics(metrics, {
    service: 'broker',
    view: () => view,
    measures: () => (opens ? null : measuresOf(acknowledgedMsAgo)),
  })
  return metrics.text(undefined)
}
