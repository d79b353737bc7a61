/** `mq diagnostics collect`, of a data directory or of a node. */
import { Type } from '../../schema.ts'
import type { Static, TSchema } from 'typebox'
import { isOf } from '../../schema-check.ts'
import { HealthReply } from '../../broker/wire/node-answers.ts'
import { StreamListReply } from '../../broker/wire/record-answers.ts'
import { AuditPageReply } from '../../broker/wire/storage-answers.ts'
import { brokerSettings } from '../../config/broker.ts'
import { StoreError } from '../../errors.ts'
import type { Call, Command } from '../command.ts'
import { isFailure } from '../command.ts'
import { BUNDLE_SCHEMA, DiagnosticsBundle, NO_PAYLOADS, troublesOf } from '../diagnostics-bundle.ts'
import type { BundleFacts } from '../diagnostics-bundle.ts'
import { usageFailure } from '../failure.ts'
import { REDACTED } from '../http-target.ts'
import type { Target, TargetAnswer } from '../http-target.ts'
import { writeOutput } from '../output-file.ts'
import { visible } from '../style.ts'

const EVENTS_MAX = 100
const OF_NODE = 'only a running node has this: collect with --target http://host:port'
/** As the specification has them. */
const CALLS = {
  health: '/health',
  metrics: '/metrics',
  streams: '/v1/streams',
  replication: '/v1/replication/status',
  audit: `/v1/audit/events?start_offset=0&max_records=${EVENTS_MAX}`,
} as const
type CallName = keyof typeof CALLS

/** A caller without the permission gets only some of the fields. */
const SomeHealth = Type.Partial(HealthReply)

const collectAt = (name: string, target: string): Command => ({
  name,
  operands: [],
  options: [
    { flags: '--bundle-id <ID>', description: 'name of the bundle', required: true },
    { flags: '--output <PATH>', description: 'file to write', required: true },
    { flags: '--include-payloads', description: 'rejected: payloads are never read' },
  ],
  places: ['local', 'remote'],
  description: 'Write a diagnostics bundle for support as one JSON file, without payloads and credentials',
  examples: [
    `mq ${name} --bundle-id case-7 --output bundle.json --data-dir ./data/broker`,
    `mq ${target} --bundle-id case-7 --output bundle.json`,
  ],
  async run(call) {
    if (call.isSet('include-payloads')) {
      throw usageFailure('--include-payloads is rejected: payloads are never read', 'Leave it out.')
    }
    const bundle_id = call.requiredLabel('bundle-id')
    const path = call.text('output') ?? ''
    if (path.trim() === '') throw usageFailure('--output must name a file')
    const { where, world } = call
    const { broker, ...facts } =
      where.place === 'local' ? await collectLocally(call, where.directory) : await collectRemotely(call.target)
    const bundle = {
      schema: BUNDLE_SCHEMA,
      bundle_id,
      collected_at_ms: world.nowMs(),
      version: { mq: world.version, node: process.versions.node, broker },
      ...facts,
    }
    const text = `${JSON.stringify(bundle, null, 2)}\n`
    if (!isOf(DiagnosticsBundle, JSON.parse(text))) throw new Error('the bundle is not as its schema says')
    const file = writeOutput('--output', path, text)
    const { recent_errors, command_outputs } = facts
    return {
      json: {
        bundle_id,
        schema: BUNDLE_SCHEMA,
        output: file,
        bytes: Buffer.byteLength(text),
        recent_errors: recent_errors.length,
      },
      text: (style) => [
        `${style.good('wrote')} ${visible(file)}`,
        style.quiet(`${command_outputs.length} outputs, ${recent_errors.length} recent errors, no payloads`),
      ],
    }
  },
})

/** B2 of diagnostics-bundle.ts. @throws CliFailure when a node holds the directory: the node has to be asked then */
async function collectLocally({ world }: Call, directory: string): Promise<BundleFacts> {
  const { LOCAL_TENANT, reading } = await import('../local-data.ts')
  const configuration = {
    data_directory: directory,
    settings: Object.fromEntries(Object.keys(brokerSettings).map((name) => [name, world.env[name] ?? null])),
  }
  const base = {
    collected_from: 'local',
    configuration,
    metrics: { available: false, reason: OF_NODE },
    broker: null,
  } as const
  const redactions = [NO_PAYLOADS]
  try {
    return await reading(directory, async (data) => {
      const { storage } = data
      const events = await data.auditEvents(LOCAL_TENANT, EVENTS_MAX)
      const incidents = storage.incidents.map(({ incident_id, reason }) => ({
        source: 'storage',
        code: 'quarantine_incident',
        message: reason,
        incident_id,
      }))
      return {
        ...base,
        redactions,
        topology: { storage: { state: 'readable', ...storage }, nodes: [] },
        stream_metadata: { available: true, streams: [...data.streams(LOCAL_TENANT)] },
        cursor_state: { available: true, cursors: [...data.cursors(LOCAL_TENANT)] },
        recent_errors: [...incidents, ...troublesOf(events)],
        command_outputs: [{ command: 'read the audit events', status: 'ok', output: { events } }],
      }
    })
  } catch (error) {
    if (!isFailure(error) || error.detail.code === 'data_directory_locked') throw error
    const { code, message } = error.detail
    const kind = error.cause instanceof StoreError ? error.cause.kind : 'notFound'
    const missing = { available: false, reason: message } as const
    return {
      ...base,
      redactions,
      topology: { storage: { state: kind === 'notFound' ? 'absent' : 'unreadable' }, nodes: [] },
      stream_metadata: missing,
      cursor_state: missing,
      recent_errors: [{ source: 'storage', code, message }],
      command_outputs: [{ command: 'read the data directory', status: code, output: null }],
    }
  }
}

/** The answers to all calls. @throws CliFailure when the node cannot be reached, gives no health, or does not accept the credentials */
async function collectRemotely(target: Target): Promise<BundleFacts> {
  const names = Object.keys(CALLS) as CallName[] // of this object
  const answers = new Map<CallName, TargetAnswer>()
  for (const name of names) answers.set(name, await target.ask('GET', CALLS[name]))
  const problems = new Map(names.map((name) => [name, target.failureOf(answers.get(name)!)]))
  const healthProblem = problems.get('health')
  if (healthProblem) throw healthProblem
  const unauthenticated = problems.get('streams')
  if (answers.get('streams')!.status === 401 && unauthenticated) throw unauthenticated

  const bodyIf = <Schema extends TSchema>(name: CallName, schema: Schema): Static<Schema> | null => {
    const body = problems.get(name) ? null : bodyOf(target, answers.get(name)!)
    return isOf(schema, body) ? body : null
  }
  const healthBody = bodyOf(target, answers.get('health')!)
  const health = isOf(SomeHealth, healthBody) ? healthBody : null
  const streams = bodyIf('streams', StreamListReply)
  const audit = bodyIf('audit', AuditPageReply)
  const reasonOf = (name: CallName): string =>
    problems.get(name)?.message ?? 'this version cannot read the answer: use the command of the version of the node'
  const refusals = names.flatMap((name) => {
    const detail = problems.get(name)?.detail
    if (!detail || detail.code === 'metrics_disabled') return []
    return [{ source: `GET ${CALLS[name]}`, code: detail.code, message: detail.message }]
  })
  return {
    collected_from: 'remote',
    configuration: {
      target: target.url,
      api_key: target.hasKey ? REDACTED : null,
      auth_mode: health?.security?.auth_mode ?? null,
      metrics_exposure: health?.metrics?.exposure ?? null,
    },
    topology: {
      nodes: [{ node_id: health?.node_id ?? null, http_bind: health?.http_bind ?? null }],
      storage: health?.storage ?? null,
      replication: bodyIf('replication', Type.Object({})),
    },
    metrics: problems.get('metrics')
      ? { available: false, reason: reasonOf('metrics') }
      : { available: true, text: target.scrub(answers.get('metrics')!.text) },
    stream_metadata: streams
      ? { available: true, streams: streams.streams }
      : { available: false, reason: reasonOf('streams') },
    cursor_state: {
      available: false,
      reason: 'cursors are listed group by group: mq cli --target … cursor list <stream> <group>',
    },
    recent_errors: [...refusals, ...troublesOf(audit?.events ?? [])],
    command_outputs: names.map((name) => ({
      command: `GET ${CALLS[name]}`,
      status: String(answers.get(name)!.status),
      output: name === 'metrics' ? null : bodyOf(target, answers.get(name)!), // metrics have a section of their own
    })),
    redactions: [NO_PAYLOADS, { field: 'api_key', reason: 'credentials are never written' }],
    broker: health?.version ?? null,
  }
}

/** The content of an answer, without the key; null: it is no JSON. */
function bodyOf(target: Target, { text }: TargetAnswer): unknown {
  try {
    return JSON.parse(text, (_, value: unknown) => (typeof value === 'string' ? target.scrub(value) : value))
  } catch {
    return null
  }
}

export const DIAGNOSTICS_COMMANDS: readonly Command[] = [
  collectAt('diagnostics collect', 'cli --target http://127.0.0.1:7400 diagnostics collect'),
  collectAt('cli diagnostics collect', 'cli --target http://127.0.0.1:7400 diagnostics collect'),
]
