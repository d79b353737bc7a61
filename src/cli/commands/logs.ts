/** `trilog logs`: what a log store has. Its routes are those of docs/log-store.md. */
import { Type } from '../../schema.ts'
import type { Static, TSchema } from 'typebox'
import { isOf } from '../../schema-check.ts'
import { columns } from '../columns.ts'
import type { Answer, Call, Command } from '../command.ts'
import { refusal, usageFailure } from '../failure.ts'
import { followTail, tailPath } from '../log-tail.ts'
import type { TailItem } from '../log-tail.ts'
import { ShownRecord, recordLine, traceLines } from '../log-text.ts'
import { shownSize } from '../store-text.ts'
import { visible } from '../style.ts'
import type { Style } from '../style.ts'
import { shownNanoseconds, timeOf } from '../time-text.ts'

const LIMIT_DEFAULT = 50
const LIMIT_MAX = 100_000
const PAGE_MAX = 500
/** Stands for all datasets, in the place of one. */
const EVERY_DATASET = '-'

const RANGE = [
  {
    flags: '--from <TIME>',
    description: 'first time: 15m for 15 minutes ago (s, m, h, d), 2026-01-31T12:00:00Z, or nanoseconds since 1970',
  },
  { flags: '--to <TIME>', description: 'end time in the same forms; records at that time are left out' },
]

const Page = Type.Object({
  matched_records: Type.Integer(),
  results: Type.Array(Type.Object({ record: ShownRecord })),
  page: Type.Object({ next_cursor: Type.Union([Type.String(), Type.Null()]) }),
})

/** @throws CliFailure when the reply does not match its schema */
function checked<Schema extends TSchema>(reply: unknown, schema: Schema): Static<Schema> {
  if (isOf(schema, reply)) return reply
  throw refusal('unknown_answer', 'this version cannot read the answer of the log store', {
    action: 'Use the trilog command of the same version as the log store.',
  })
}

function datasetOf(call: Call): string {
  const dataset = call.argument('dataset') ?? ''
  if (dataset === '') throw usageFailure('<dataset> is the name of a dataset: trilog logs datasets shows them')
  return dataset
}

/** The question of a command line, as in the body of a query. */
function questionOf(call: Call) {
  const search = call.argument('search')
  const bound = (flag: string): string | null => {
    const text = call.text(flag)
    return text === null ? null : timeOf(`--${flag}`, text, call.world.nowMs())
  }
  return {
    dataset: datasetOf(call),
    filter: { search, start_time_unix_nano: bound('from'), end_time_unix_nano: bound('to') },
  }
}

const search: Command = {
  name: 'logs search',
  operands: ['<dataset>', '[search]'],
  options: [
    ...RANGE,
    { flags: '--limit <N>', description: `most records, up to ${LIMIT_MAX}; default ${LIMIT_DEFAULT}` },
    { flags: '--oldest', description: 'show the oldest records that match; default: the newest' },
    { flags: '--follow', description: 'then show new records as they are stored, until Ctrl-C' },
  ],
  places: ['store'],
  description: 'Show the newest records that match, in the order of their time',
  examples: [
    "trilog logs search shop 'refused severity:>=warn' --from 15m",
    'trilog logs search shop \'"connection refused" OR timeout*\' --follow',
    'trilog logs search shop --oldest --limit 10 --output json',
  ],
  async run(call) {
    const question = questionOf(call)
    const limit = call.positive('limit', LIMIT_DEFAULT)
    if (limit > LIMIT_MAX) throw usageFailure(`--limit must be at most ${LIMIT_MAX}`)
    const isOldest = call.isSet('oldest')
    const follows = call.isSet('follow')
    if (follows && (isOldest || question.filter.end_time_unix_nano !== null)) {
      throw usageFailure('--follow continues after the newest record: leave out --oldest and --to')
    }
    if (follows) return followSearch(call, question, limit)
    const { records, matched } = await found(call, question, limit, isOldest ? 'asc' : 'desc')
    return {
      json: { dataset: question.dataset, matched_records: matched, records },
      text: (style) => [
        ...records.map((record) => recordLine(record, style, false)),
        style.quiet(`${records.length} of ${matched} records`),
      ],
    }
  },
}

type Question = ReturnType<typeof questionOf>

/** In the order of their time. */
async function found(call: Call, question: Question, limit: number, order: 'asc' | 'desc') {
  const { store } = call
  const records: ShownRecord[] = []
  let cursor: string | null = null
  let matched = 0
  do {
    const page = { limit: Math.min(PAGE_MAX, limit - records.length), cursor }
    const reply: Static<typeof Page> = checked(await store.post('/v1/query', { ...question, order, page }), Page)
    records.push(...reply.results.map(({ record }) => record))
    matched = reply.matched_records
    cursor = reply.page.next_cursor
  } while (cursor !== null && records.length < limit)
  return { records: order === 'asc' ? records : records.reverse(), matched }
}

/** The tail begins before the search is made, so that nothing is missed between them; what both have is shown once. */
async function followSearch(call: Call, question: Question, limit: number): Promise<Answer> {
  const shown = new Set<string>()
  const onBegun = async (): Promise<void> => {
    const { records } = await found(call, question, limit, 'desc')
    for (const record of records) {
      shown.add(record.record_id)
      await call.world.write(line(call, record, false))
    }
  }
  const path = tailPath(question.dataset, question.filter.search)
  for await (const item of followTail(call, path, onBegun)) {
    const { record } = item
    const isNew = record === null || !shown.delete(record.record_id)
    if (isNew) await showItem(call, item, false)
  }
  return { text: () => [] }
}

const line = (call: Call, record: ShownRecord, isNamed: boolean): string =>
  call.json ? JSON.stringify(record) : recordLine(record, call.world.style, isNamed)

async function showItem(call: Call, { record, missed }: TailItem, isNamed: boolean): Promise<void> {
  if (record !== null) await call.world.write(line(call, record, isNamed))
  else if (call.json) await call.world.write(JSON.stringify({ missed }))
  else
    call.world.writeToStderr(
      `${missed.records ?? 'an unknown number of'} records are not shown: ${visible(missed.reason)}`,
    )
}

const tail: Command = {
  name: 'logs tail',
  operands: ['[dataset]', '[search]'],
  options: [{ flags: '--limit <N>', description: 'end after N records; default: until Ctrl-C' }],
  places: ['store'],
  description: `Show records as they are stored, until Ctrl-C; without a dataset, or with ${EVERY_DATASET}, those of all datasets`,
  examples: ["trilog logs tail shop 'severity:>=error'", "trilog logs tail - 'refused' --output json"],
  async run(call) {
    const given = call.argument('dataset')
    const dataset = given === EVERY_DATASET ? null : given
    let left = call.text('limit') === null ? Infinity : call.positive('limit', 1)
    for await (const item of followTail(call, tailPath(dataset, call.argument('search')))) {
      await showItem(call, item, dataset === null)
      if (item.record !== null && --left === 0) break
    }
    return { text: () => [] }
  },
}

const trace: Command = {
  name: 'logs trace',
  operands: ['<trace-id>'],
  options: [],
  places: ['store'],
  description: 'Show a trace over every dataset that may be read, as a tree',
  examples: ['trilog logs trace 5b8efff798038103d269b633813fc60c'],
  async run(call) {
    const id = call.argument('trace-id') ?? ''
    if (!/^[0-9a-fA-F]{32}$/.test(id)) throw usageFailure('<trace-id> must be 32 hexadecimal digits')
    const reply = await call.store.get(`/v1/traces/${id}`)
    return { json: reply, text: (style) => traceLines(reply, style) ?? [JSON.stringify(reply)].map(visible) }
  },
}

const Datasets = Type.Object({
  datasets: Type.Array(
    Type.Object({
      dataset: Type.String(),
      records: Type.Integer(),
      bytes: Type.Union([Type.Integer(), Type.Null()]),
      first_time_unix_nano: Type.Union([Type.String(), Type.Null()]),
      last_time_unix_nano: Type.Union([Type.String(), Type.Null()]),
      signals: Type.Union([Type.Array(Type.String()), Type.Null()]),
    }),
  ),
  page: Type.Object({ next_cursor: Type.Union([Type.String(), Type.Null()]) }),
})
type Dataset = Static<typeof Datasets>['datasets'][number]

const datasets: Command = {
  name: 'logs datasets',
  operands: [],
  options: [],
  places: ['store'],
  description: 'Show the datasets that may be read: records, bytes, first and last time, signals',
  examples: ['trilog logs datasets', 'trilog logs datasets --target https://logs.example:4318 --tls-ca ca.pem'],
  async run(call) {
    const { store } = call
    const all: Dataset[] = []
    let cursor: string | null = null
    do {
      const path: string = cursor === null ? '/v1/datasets' : `/v1/datasets?cursor=${encodeURIComponent(cursor)}`
      const reply: Static<typeof Datasets> = checked(await store.get(path), Datasets)
      all.push(...reply.datasets)
      cursor = reply.page.next_cursor
    } while (cursor !== null)
    return { json: { datasets: all }, text: (style) => datasetRows(all, style) }
  },
}

function datasetRows(all: readonly Dataset[], style: Style): readonly string[] {
  if (all.length === 0) return [style.quiet('no datasets')]
  const time = (text: string | null): string => (text === null ? '' : shownNanoseconds(text))
  const rows = all.map(({ dataset, records, bytes, first_time_unix_nano, last_time_unix_nano, signals }) => [
    visible(dataset),
    String(records),
    bytes === null ? '' : shownSize(bytes),
    time(first_time_unix_nano),
    time(last_time_unix_nano),
    visible((signals ?? []).join(', ')),
  ])
  return columns([['dataset', 'records', 'size', 'first', 'last', 'signals'].map(style.heading), ...rows])
}

const exportCommand: Command = {
  name: 'logs export',
  operands: ['<dataset>', '[search]'],
  options: [...RANGE, { flags: '--newest-first', description: 'newest records first; default: oldest first' }],
  places: ['store'],
  description: 'Write every record that matches as JSON, one a line; the exit code is 1 if the export is incomplete',
  examples: [
    'trilog logs export shop --from 2026-01-01T00:00:00Z --to 2026-02-01T00:00:00Z > january.ndjson',
    "trilog logs export shop 'severity:>=error' | wc -l",
  ],
  async run(call) {
    const body = { ...questionOf(call), order: call.isSet('newest-first') ? 'desc' : 'asc' }
    const { store, world } = call
    const { stop } = world
    let isComplete = false
    let records = 0
    for await (const text of store.lines({ method: 'POST', path: '/v1/export', body, stop })) {
      isComplete = text.startsWith('{"export":')
      if (isComplete) break
      records++
      await world.write(text)
      if (stop.aborted) break
    }
    if (!isComplete) {
      throw refusal('export_incomplete', `the export ended early, after ${records} records`, {
        action: 'Export again, or export a smaller time range.',
        retryable: true,
      })
    }
    if (!call.json) world.writeToStderr(`${records} records`)
    return { text: () => [] }
  },
}

export const LOGS_COMMANDS: readonly Command[] = [search, tail, trace, datasets, exportCommand]
