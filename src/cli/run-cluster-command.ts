/** `trilog cluster …` as a process. */
import { RemoteNode } from '../cluster/catch-up/remote.ts'
import { StoreError } from '../errors.ts'
import type { ClusterReply } from '../http/cluster.ts'
import { printFailure } from '../print-failure.ts'
import { writeAnswer } from './answer-output.ts'
import type { ClusterCommand } from './cluster-command.ts'
import { columns } from './columns.ts'
import { EXIT_REFUSED } from './failure.ts'
import type { Style } from './style.ts'

export async function runClusterCommand(command: ClusterCommand, style: Style): Promise<void> {
  const { name, url, secret, ca, to, service, json } = command
  const node = new RemoteNode({ url, secret, ca })
  try {
    const reply = name === 'status' ? await node.nodes() : await node.handOver(service, to)
    const text = json ? JSON.stringify(reply) : name === 'status' ? shownStatus(reply, style) : shownHandOver(reply, to)
    writeAnswer(text)
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    printFailure(error)
    process.exitCode = EXIT_REFUSED
  } finally {
    node.close()
  }
}

/** By service. */
function shownStatus(reply: unknown, style: Style): string {
  const services = Object.entries(reply as Readonly<Record<string, ClusterReply>>) // as the node's listener says it
  if (services.length === 0) return 'no service of this node takes part in the cluster yet'
  const rows = services.flatMap(([service, { nodes }]) =>
    nodes.map(({ node, role, epoch, sequence, behind, url }) =>
      [service, node, role, epoch, sequence, behind.messages, behind.bytes, url ?? '-'].map(String),
    ),
  )
  const head = ['service', 'node', 'role', 'epoch', 'sequence', 'messages behind', 'bytes behind', 'address']
  return columns([head.map(style.heading), ...rows]).join('\n')
}

function shownHandOver(reply: unknown, to: string | null): string {
  const { handed_over: services } = reply as { readonly handed_over: readonly string[] } // as the node's listener says it
  return `the lead of the ${services.join(', ')} goes to ${to ?? 'the first node that can take over'}`
}
