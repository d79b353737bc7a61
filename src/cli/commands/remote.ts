/** Commands that ask a node. Source: specification "Command-line tool mq", row "Remote"; `tail`, `peek`, `groups`, `redrive` and `seek` are ours. */
import { Type } from '../../schema.ts'
import type { Static, TSchema } from 'typebox'
import { isOf } from '../../schema-check.ts'
import {
  CursorListReply,
  GroupListReply,
  GroupReply,
  GroupSeekReply,
  LeaseListReply,
} from '../../broker/wire/group-answers.ts'
import { HealthReply } from '../../broker/wire/node-answers.ts'
import { RedriveReply, ReplayReply, StreamReply } from '../../broker/wire/record-answers.ts'
import { columns } from '../columns.ts'
import type { Answer, Call, Command } from '../command.ts'
import { unsigned } from '../command.ts'
import { refusal, usageFailure } from '../failure.ts'
import { groupPath, streamPath } from '../http-target.ts'
import type { Target } from '../http-target.ts'
import { shownTime, visible } from '../style.ts'
import type { Style } from '../style.ts'
import { localLeases, recordRow, recordRows } from './local.ts'

const PEEK_DEFAULT = 10
const PAGE_MAX = 1000
const TAIL_WAIT_MS = 20_000

/** A reply in rows. One that does not match its schema, as of a node of another version, is shown as it came. */
const shownAs = <Schema extends TSchema>(
  json: unknown,
  schema: Schema,
  rows: (reply: Static<Schema>, style: Style) => readonly string[],
): Answer => ({
  json,
  text: (style) => (isOf(schema, json) ? rows(json, style) : JSON.stringify(json, null, 2).split('\n').map(visible)),
})

/** A reply that the command needs to go on. @throws CliFailure when it does not match its schema */
function checked<Schema extends TSchema>(reply: unknown, schema: Schema): Static<Schema> {
  if (isOf(schema, reply)) return reply
  throw refusal('unknown_answer', 'this version cannot read the answer of the node', {
    action: 'Use the mq command of the same version as the node.',
  })
}

const health: Command = {
  name: 'cli health',
  operands: [],
  options: [],
  places: ['remote'],
  description: 'Show the health of the node; the exit code is 1 unless it is ok',
  examples: ['mq cli --target http://127.0.0.1:7400 health'],
  async run(call) {
    const reply = await call.target.get('/health')
    const isOk = isOf(SomeHealth, reply) && reply.status === 'ok'
    return { ...shownAs(reply, SomeHealth, healthRows), exitCode: isOk ? 0 : 1 }
  },
}

/** A caller without the permission gets only some of the fields. */
const SomeHealth = Type.Partial(HealthReply)

function healthRows(reply: Static<typeof SomeHealth>, style: Style): readonly string[] {
  const { status, service, version, node_id, http_bind, storage, security, metrics } = reply
  const rows = [
    ['service', service],
    ['version', version],
    ['node', node_id],
    ['http', http_bind],
    ['storage', storage && [storage.status, storage.message ?? ''].join(' ').trim()],
    ['authentication', security?.auth_mode],
    ['metrics', metrics?.exposure],
  ] as const
  const shownStatus = (status === 'ok' ? style.good : style.bad)(visible(status ?? 'unknown'))
  const known = rows.flatMap(([name, value]) => (value === undefined ? [] : [[style.heading(name), visible(value)]]))
  return columns([[style.heading('status'), shownStatus], ...known])
}

const groupDescribe: Command = {
  name: 'cli consumer-group describe',
  operands: ['<stream>', '<group>'],
  options: [],
  places: ['remote'],
  description: 'Show the progress of a consumer group',
  examples: ['mq cli --target http://127.0.0.1:7400 consumer-group describe orders billing'],
  async run(call) {
    const [stream, group] = [call.operand('stream'), call.operand('group')]
    return shownAs(await call.target.get(groupPath(stream, group)), GroupReply, groupFacts)
  },
}

const groupFacts = (reply: GroupReply, style: Style): readonly string[] => [
  ...columns(
    [
      ['stream', reply.stream],
      ['group', reply.consumer_group],
      ['mode', reply.mode],
      ['highest next offset', String(reply.highest_next_offset)],
      ['progress offset', String(reply.progress_offset)],
      ['lag', String(reply.lag_messages)],
      ['in flight', String(reply.in_flight_count)],
      ['delayed', String(reply.delayed_count)],
    ].map(([name, value]) => [style.heading(name!), visible(value!)]),
  ),
  ...cursorRows(reply.cursors, style),
]

function cursorRows(cursors: CursorListReply['cursors'], style: Style): readonly string[] {
  if (cursors.length === 0) return [style.quiet('no cursors')]
  const heads = ['cursor', 'offset', 'updated'].map(style.heading)
  const rows = cursors.map(({ cursor, offset, updated_at_ms }) => [
    visible(cursor),
    String(offset),
    shownTime(updated_at_ms),
  ])
  return columns([heads, ...rows])
}

const cursorList: Command = {
  name: 'cli cursor list',
  operands: ['<stream>', '<group>'],
  options: [],
  places: ['remote'],
  description: 'Show the cursors of a consumer group',
  examples: ['mq cli --target http://127.0.0.1:7400 cursor list orders billing'],
  async run(call) {
    const path = groupPath(call.operand('stream'), call.operand('group'))
    const reply = await call.target.get(`${path}/cursors`)
    return shownAs(reply, CursorListReply, ({ cursors }, style) => cursorRows(cursors, style))
  },
}

const leaseList: Command = {
  name: 'cli lease list',
  operands: ['<stream>', '<group>'],
  options: [{ flags: '--include-completed', description: 'include leases that have ended' }],
  places: ['local', 'remote'],
  description: 'Show the leases of a consumer group; a data directory tracks none',
  examples: [
    'mq cli --target http://127.0.0.1:7400 lease list orders billing --include-completed',
    'mq cli --data-dir ./data/broker lease list orders billing',
  ],
  async run(call) {
    const [stream, group] = [call.operand('stream'), call.operand('group')]
    if (call.where.place === 'local') return localLeases(call, stream, group)
    const query = call.isSet('include-completed') ? '?include_completed=true' : ''
    return shownAs(await call.target.get(`${groupPath(stream, group)}/leases${query}`), LeaseListReply, leaseRows)
  },
}

function leaseRows({ leases, truncated }: LeaseListReply, style: Style): readonly string[] {
  if (leases.length === 0) return [style.quiet('no leases')]
  const heads = ['offset', 'attempt', 'state', 'expires', 'delivery', 'reason'].map(style.heading)
  const rows = leases.map((lease) => [
    String(lease.offset),
    String(lease.attempt),
    visible(lease.state),
    shownTime(lease.lease_expires_at_ms),
    visible(lease.delivery_id),
    visible(lease.reason ?? ''),
  ])
  return [...columns([heads, ...rows]), ...(truncated ? [style.quiet('and more')] : [])]
}

const groups: Command = {
  name: 'cli groups',
  operands: ['<stream>'],
  options: [],
  places: ['remote'],
  description: 'Show the consumer groups of a stream, with their lag',
  examples: ['mq cli --target http://127.0.0.1:7400 groups orders'],
  async run(call) {
    const path = `${streamPath(call.operand('stream'))}/consumer-groups`
    return shownAs(await call.target.get(path), GroupListReply, groupRows)
  },
}

function groupRows({ consumer_groups }: GroupListReply, style: Style): readonly string[] {
  if (consumer_groups.length === 0) return [style.quiet('no consumer groups')]
  const heads = ['group', 'progress', 'lag', 'in flight', 'delayed', 'cursors', 'oldest waits'].map(style.heading)
  const rows = consumer_groups.map((group) => [
    visible(group.consumer_group),
    ...[group.progress_offset, group.lag_messages, group.in_flight_count, group.delayed_count, group.cursor_count].map(
      String,
    ),
    shownAge(group.oldest_unfinished_age_millis),
  ])
  return columns([heads, ...rows])
}

const shownAge = (ms: number | null): string => (ms === null ? '' : `${(ms / 1000).toFixed(1)} s`)

const peek: Command = {
  name: 'cli peek',
  operands: ['<stream>'],
  options: [
    { flags: '--from-offset <N>', description: 'first offset; default: the last records' },
    { flags: '--limit <N>', description: `most records, up to ${PAGE_MAX}; default ${PEEK_DEFAULT}` },
  ],
  places: ['remote'],
  description: 'Show some records of a stream; nothing is claimed',
  examples: ['mq cli --target http://127.0.0.1:7400 peek orders --limit 3'],
  async run(call) {
    const path = streamPath(call.operand('stream'))
    const limit = limitOf(call)
    const given = call.unsigned('from-offset')
    const { target } = call
    const from = given ?? Math.max(0, checked(await target.get(path), StreamReply).next_offset - limit)
    const page = await target.get(`${path}/records?start_offset=${from}&max_records=${limit}`)
    return shownAs(page, ReplayReply, ({ records, next_offset, end_of_stream }, style) => [
      ...recordRows(records, style),
      style.quiet(`${records.length} records, next offset ${next_offset}${end_of_stream ? ', end of stream' : ''}`),
    ])
  },
}

function limitOf(call: Call): number {
  const limit = call.positive('limit', PEEK_DEFAULT)
  if (limit > PAGE_MAX) throw usageFailure(`--limit must be at most ${PAGE_MAX}`)
  return limit
}

const tail: Command = {
  name: 'cli tail',
  operands: ['<stream>'],
  options: [
    { flags: '--from-offset <N>', description: 'first offset; default: only records published from now on' },
    { flags: '--limit <N>', description: 'end after N records; default: until Ctrl-C' },
  ],
  places: ['remote'],
  description: 'Show records as they are published, until Ctrl-C; with --output json one a line',
  examples: [
    'mq cli --target http://127.0.0.1:7400 tail orders',
    'mq cli --target … tail orders --from-offset 0 | head',
  ],
  async run(call) {
    const path = streamPath(call.operand('stream'))
    const given = call.unsigned('from-offset')
    let left = call.text('limit') === null ? Infinity : call.positive('limit', 1)
    const { target } = call
    const { world } = call
    let next = given ?? checked(await target.get(path), StreamReply).next_offset
    while (left > 0 && !world.stop.aborted) {
      const query = `start_offset=${next}&max_records=${Math.min(left, PAGE_MAX)}&wait_millis=${TAIL_WAIT_MS}`
      const reply = await waited(call, `${path}/records?${query}`)
      if (reply === null) break
      const page = checked(reply, ReplayReply)
      for (const record of page.records) {
        await world.write(call.json ? JSON.stringify(record) : recordRow(record).join('  '))
      }
      left -= page.records.length
      next = page.next_offset
    }
    return { text: () => [] }
  },
}

/** Null: the command was ended while it waited. */
async function waited({ target, world: { stop } }: Call, path: string): Promise<unknown> {
  try {
    return await target.get(path, { waitMs: TAIL_WAIT_MS, stop })
  } catch (error) {
    if (stop.aborted) return null
    throw error
  }
}

const YES = { flags: '--yes', description: 'make the change; without it, nothing is changed' }

/** @throws CliFailure that says what would be done */
function agreed(call: Call, deed: string): void {
  if (!call.isSet('yes')) throw usageFailure(`this would ${deed}`, 'Add --yes to do it.')
}

const REDRIVE_OPTIONS = [
  { flags: '--offsets <N,...>', description: 'offsets of the dead letters; default: all' },
  { flags: '--reason <TEXT>', description: 'reason that the audit trail records' },
]

const redrive: Command = {
  name: 'cli redrive',
  operands: ['<stream>'],
  options: [...REDRIVE_OPTIONS, YES],
  places: ['remote'],
  description: 'Put dead letters back into the streams they came from',
  examples: ['mq cli --target http://127.0.0.1:7400 redrive orders.dead --offsets 0,4 --yes'],
  async run(call) {
    const stream = call.operand('stream')
    const offsets = call.text('offsets')
    const chosen = offsets === null ? null : offsets.split(',').map((each) => unsigned('--offsets', each.trim()))
    const reason = call.label('reason')
    const { target } = call
    agreed(call, `put ${chosen === null ? 'all dead letters' : `${chosen.length} dead letters`} of ${stream} back`)
    return redriven(target, `${streamPath(stream)}/dead-letters/redrive`, chosen, reason)
  },
}

/** Page by page until the end. */
async function redriven(
  target: Target,
  path: string,
  offsets: readonly number[] | null,
  reason: string | null,
): Promise<Answer> {
  const results: RedriveReply['results'] = []
  let last: RedriveReply
  let isMore = true
  let left = offsets
  let from = 0
  do {
    const body = { ...(left === null ? { start_offset: from } : { offsets: left }), ...(reason !== null && { reason }) }
    last = checked(await target.post(path, body), RedriveReply)
    results.push(...last.results)
    from = last.next_offset
    left = left === null ? null : left.filter((offset) => offset >= from)
    isMore = left === null ? !last.end_of_stream : left.length > 0
  } while (isMore)
  const count = results.filter(({ error }) => error === undefined).length
  return {
    json: { ...last, redriven_count: count, results },
    text: (style) => [
      ...redriveRows(results, style),
      `${style.good('put back')} ${count} of ${results.length} dead letters`,
    ],
  }
}

function redriveRows(results: RedriveReply['results'], style: Style): readonly string[] {
  if (results.length === 0) return []
  const heads = ['dead letter', 'stream', 'offset', 'problem'].map(style.heading)
  const rows = results.map(({ dead_letter_offset, stream, offset, error }) => [
    String(dead_letter_offset),
    visible(stream ?? ''),
    String(offset ?? ''),
    error ? style.bad(visible(error.message)) : '',
  ])
  return columns([heads, ...rows])
}

const seek: Command = {
  name: 'cli seek',
  operands: ['<stream>', '<group>'],
  options: [
    { flags: '--to-offset <N>', description: 'records from here on are given out again' },
    {
      flags: '--to-event-time <MS>',
      description: 'likewise, from the first record with this event time or a later one',
    },
    {
      flags: '--to-ingest-time <MS>',
      description: 'likewise, from the first record with this ingest time or a later one',
    },
    { flags: '--reason <TEXT>', description: 'reason that the audit trail records', required: true },
    YES,
  ],
  places: ['remote'],
  description: 'Have a consumer group process records again',
  examples: [
    'mq cli --target http://127.0.0.1:7400 seek orders billing --to-offset 0 --reason "prices were wrong" --yes',
  ],
  async run(call) {
    const [stream, group] = [call.operand('stream'), call.operand('group')]
    const to = {
      offset: call.unsigned('to-offset'),
      event_time_ms: call.unsigned('to-event-time'),
      ingest_time_ms: call.unsigned('to-ingest-time'),
    }
    const reason = call.requiredLabel('reason')
    const given = Object.entries(to).filter(([, value]) => value !== null)
    if (given.length !== 1) throw usageFailure('one of --to-offset, --to-event-time and --to-ingest-time is needed')
    const { target } = call
    agreed(call, `have ${group} process records of ${stream} again`)
    const body = { ...Object.fromEntries(given), reason }
    const reply = await target.post(`${groupPath(stream, group)}/seek`, body)
    return shownAs(reply, GroupSeekReply, ({ offset, previous_offset }, style) => [
      `${style.good('sought')} ${visible(group)} on ${visible(stream)} to offset ${offset}, from ${previous_offset}`,
    ])
  },
}

export const REMOTE_COMMANDS: readonly Command[] = [
  health,
  groupDescribe,
  cursorList,
  leaseList,
  groups,
  peek,
  tail,
  redrive,
  seek,
]
