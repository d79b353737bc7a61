/** Commands on a data directory. Source: specification "Command-line tool mq", rows "Local data". */
import type { Answer, Call, Command } from '../command.ts'
import { columns } from '../columns.ts'
import { usageFailure } from '../failure.ts'
import { shownBytes, shownTime, textOf, visible } from '../style.ts'
import type { Style } from '../style.ts'

const LIMIT_DEFAULT = 100

/** Loaded only for local commands, as it takes a while. */
const localData = () => import('../local-data.ts')

function directoryOf({ where }: Call): string {
  if (where.place === 'local') return where.directory
  throw usageFailure('this command works on a data directory, not through --target')
}

const streamCreate: Command = {
  name: 'cli stream create',
  operands: ['<stream>'],
  options: [],
  places: ['local'],
  description: 'Create a stream in the data directory, unless it exists',
  examples: ['mq cli --data-dir ./data/broker stream create orders'],
  async run(call) {
    const stream = call.operand('stream')
    const { changing } = await localData()
    const reply = await changing(directoryOf(call), { creates: true }, async (client) => {
      try {
        return await client.createStream(stream)
      } catch (error) {
        if (!(error instanceof Error && 'code' in error && error.code === 'stream_already_exists')) throw error
        return { ...(await client.describeStream(stream)), created: false as const }
      }
    })
    const { created } = reply
    return {
      json: reply,
      text: (style) => [`${style.good(created ? 'created' : 'reused')} stream ${visible(stream)}`],
    }
  },
}

const publish: Command = {
  name: 'cli publish',
  operands: ['<stream>'],
  options: [
    { flags: '--message-id <ID>', description: 'id that the publisher gives the record', required: true },
    { flags: '--payload <TEXT>', description: 'text, stored as UTF-8; may be empty', required: true },
    { flags: '--key <KEY>', description: 'text, stored as UTF-8' },
  ],
  places: ['local'],
  description: 'Append one record to a stream',
  examples: ['mq cli --data-dir ./data/broker publish orders --message-id o-1 --payload \'{"total":3}\' --key anna'],
  async run(call) {
    const stream = call.operand('stream')
    const record = {
      message_id: call.requiredLabel('message-id'),
      payload: call.text('payload') ?? '',
      key: call.text('key'),
    }
    const { changing } = await localData()
    const reply = await changing(directoryOf(call), { creates: false }, (client) => client.publish(stream, record))
    const { offset, acknowledgement } = reply
    return {
      json: reply,
      text: (style) => [
        `${style.good('published')} ${visible(record.message_id)} to ${visible(stream)} at offset ${offset}, ${acknowledgement.durability}`,
      ],
    }
  },
}

const replay: Command = {
  name: 'cli replay',
  operands: ['<stream>'],
  options: [
    { flags: '--from-offset <N>', description: 'first offset; default 0' },
    { flags: '--limit <N>', description: `most records; default ${LIMIT_DEFAULT}` },
  ],
  places: ['local'],
  description: 'Read records; nothing is written',
  examples: [
    'mq cli --data-dir ./data/broker replay orders',
    'mq cli --data-dir ./data/broker replay orders --from-offset 100 --limit 10 --output json',
  ],
  async run(call) {
    const stream = call.operand('stream')
    const from = call.unsigned('from-offset') ?? 0
    const limit = call.positive('limit', LIMIT_DEFAULT)
    const { LOCAL_TENANT, reading } = await localData()
    const page = await reading(directoryOf(call), (data) => data.replay(LOCAL_TENANT, stream, from, limit))
    const { records, nextOffset, endOfStream, firstOffset, quarantinedRecords } = page
    return {
      json: {
        api_version: 'v1',
        stream,
        records: records.map((record) => ({
          ...record,
          payload: textOf(record.payload_hex),
          key: textOf(record.key_hex),
        })),
        next_offset: nextOffset,
        end_of_stream: endOfStream,
        diagnostics: {
          returned_records: records.length,
          max_records: limit,
          first_offset: firstOffset,
          quarantined_records: quarantinedRecords,
        },
      },
      text: (style) => [
        ...recordRows(records, style),
        style.quiet(
          `${records.length} records, next offset ${nextOffset}${endOfStream ? ', end of stream' : ''}` +
            (quarantinedRecords > 0 ? `, ${quarantinedRecords} damaged ones left out` : ''),
        ),
      ],
    }
  },
}

interface ShownRecord {
  readonly offset: number
  readonly message_id: string
  readonly key_hex: string | null
  readonly payload_hex: string
  readonly ingest_time_ms: number
}

export function recordRows(records: readonly ShownRecord[], style: Style): readonly string[] {
  if (records.length === 0) return []
  const heads = ['offset', 'message_id', 'ingested', 'key', 'payload'].map(style.heading)
  return columns([heads, ...records.map(recordRow)])
}

export const recordRow = (record: ShownRecord): readonly string[] => [
  String(record.offset),
  visible(record.message_id),
  shownTime(record.ingest_time_ms),
  shownBytes(record.key_hex),
  shownBytes(record.payload_hex),
]

const cursorCommit: Command = {
  name: 'cli cursor commit',
  operands: ['<stream>', '<group>', '<cursor>', '<offset>'],
  options: [],
  places: ['local'],
  description: 'Persist a cursor of a consumer group; the stream must exist',
  examples: ['mq cli --data-dir ./data/broker cursor commit orders billing main 42'],
  async run(call) {
    const [stream, group, cursor] = ['stream', 'group', 'cursor'].map((name) => call.operand(name))
    const offset = call.number('offset')
    const { changing } = await localData()
    const reply = await changing(directoryOf(call), { creates: false }, (client) =>
      client.commitCursor(stream!, group!, cursor!, offset),
    )
    return {
      json: reply,
      text: (style) => [
        `${style.good('committed')} cursor ${visible(cursor!)} of ${visible(group!)} on ${visible(stream!)} at offset ${offset}`,
      ],
    }
  },
}

/** A data directory has no leases: only a running broker has. */
export async function localLeases(call: Call, stream: string, group: string): Promise<Answer> {
  const { LOCAL_TENANT, reading } = await localData()
  await reading(directoryOf(call), async (data) => data.describe(LOCAL_TENANT, stream))
  return {
    json: {
      api_version: 'v1',
      stream,
      consumer_group: group,
      runtime_state: 'not_tracked',
      include_completed: call.isSet('include-completed'),
      lease_count: 0,
      leases: [],
      truncated: false,
    },
    text: (style) => [
      `0 leases of ${visible(group)} on ${visible(stream)}, runtime_state=not_tracked`,
      style.quiet('Only a running node has leases: ask it by --target http://host:port.'),
    ],
  }
}

export const LOCAL_COMMANDS: readonly Command[] = [streamCreate, publish, replay, cursorCommit]
