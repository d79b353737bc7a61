/** `trilog cluster …`: what a command line asks of a node, by its listener for other nodes. Touches nothing but the files that settings name. */
import { flagOf } from '../config/all-settings.ts'
import { clusterSettings, loadClusterSettings } from '../config/cluster.ts'
import type { ClusterSettings } from '../config/cluster.ts'
import { belowEnvironment, readConfigFile } from '../config/config-file.ts'
import { SettingProblems } from '../config/settings.ts'
import type { Environment } from '../config/settings.ts'
import { parseCommandLine, settingsGiven } from './flags.ts'

export interface ClusterCommand {
  readonly name: 'status' | 'hand-over'
  /** Address of the listener of the node that is asked. */
  readonly url: string
  readonly secret: string
  readonly ca: string | null
  /** For a hand-over, the node that is to lead; null: the first node that stands for the lead. */
  readonly to: string | null
  /** For a hand-over, the service; null: each that the node leads. */
  readonly service: string | null
  readonly json: boolean
}

const NAMES = ['status', 'hand-over'] as const
const OWN_FLAGS = ['--url', '--to', '--service', '--output']
const NAMED = [...Object.keys(clusterSettings), 'TRILOG_CONFIG', 'TRILOG_ALLOW_INSECURE_BIND'].map((variable) => ({
  variable,
  flag: flagOf(variable),
}))
const KINDS = {
  switches: ['--help'],
  withValue: [...NAMED.map(({ flag }) => flag), ...OWN_FLAGS],
  repeatable: [],
}

const HELP = `trilog cluster asks a node of a cluster, by the listener of TRILOG_CLUSTER_BIND.

  trilog cluster status [flags]      show the nodes, who leads, and how far each is behind
  trilog cluster hand-over [flags]   have a node that leads give the lead to another one, as SIGUSR2 does

  --url <URL>        listener of the node to ask; default: that of the node with these settings
  --to <NODE>        hand-over: the node that is to lead; default: the first node that can take over
  --service <NAME>   hand-over: logstore, objectstore or broker; default: every service that the node leads
  --output json      answer in JSON

The settings of the cluster are read as by trilog start. TRILOG_CLUSTER_SECRET is sent to the node.
Exit code 1 when the node refuses or cannot be reached, 2 when the command line or a setting is wrong.`

export const clusterFlags = (): readonly string[] => [...KINDS.withValue, '--help']

/** @returns text to be shown, or what is asked. @throws BadConfiguration that names every mistake */
export function clusterCommand(args: readonly string[], env: Environment): ClusterCommand | string {
  const problems = new SettingProblems()
  const line = parseCommandLine(args, KINDS, problems, 'trilog cluster')
  const [operand, ...rest] = line.operands
  const name = NAMES.find((each) => each === operand)
  if (line.flags.has('--help') || args.length === 0) {
    problems.throwIfAny()
    return HELP
  }
  const given = (flag: string): string | null => line.flags.get(flag)?.[0] ?? null
  if (name === undefined) problems.add('trilog cluster', `needs one of: ${NAMES.join(', ')}`)
  for (const each of rest) problems.add(`trilog cluster ${operand}`, `takes no ${each}: see trilog cluster --help`)
  const output = given('--output')
  if (output !== null && output !== 'text' && output !== 'json') problems.add('--output', 'must be text or json')
  for (const flag of ['--to', '--service']) {
    if (name === 'status' && line.flags.has(flag)) problems.add(flag, 'goes with hand-over')
  }
  const url = given('--url')
  if (url !== null && !/^https?:\/\/[^/]/.test(url)) problems.add('--url', 'must be an http or https URL')
  const told = { ...env, ...settingsGiven(line, NAMED) }
  const merged = belowEnvironment(readConfigFile(told, problems), told)
  const isOfCluster = Boolean(merged['TRILOG_CLUSTER_SERVERS'])
  if (!isOfCluster) problems.add('TRILOG_CLUSTER_SERVERS', 'must be set: these settings name no cluster')
  const unnamed = isOfCluster ? { TRILOG_NODE_ID: 'none' } : {} // this is no node, and needs no name
  const settings = problems.collect(() => loadClusterSettings({ ...unnamed, ...merged }))
  problems.throwIfAny()
  const { listener, authorities } = settings! // there are servers
  return {
    name: name!, // or there was a problem
    url: (url ?? ownUrlOf(listener)).replace(/\/+$/, ''),
    secret: listener.secret,
    ca: authorities?.pem ?? null,
    to: given('--to'),
    service: given('--service'),
    json: output === 'json',
  }
}

/** Address of the listener that these settings describe. */
function ownUrlOf({ url, bind, tls }: ClusterSettings['listener']): string {
  const host = bind.host.includes(':') ? `[${bind.host}]` : bind.host
  return url ?? `${tls === null ? 'http' : 'https'}://${host}:${bind.port}`
}
