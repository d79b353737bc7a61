/** What the broker is loaded with: streams of every kind, and the groups that work on them. */
import type { CreateStreamBody } from '../../../src/broker/wire/requests.ts'

export interface StreamPlan {
  readonly name: string
  readonly body: CreateStreamBody
  readonly groups: readonly string[]
  /** Least and most, in bytes. */
  readonly payloadBytes: readonly [min: number, max: number]
  /** Records that are published and not finished by every group, before publishers wait. */
  readonly backlogMax: number
  /** Where explicit dead letters go. */
  readonly deadLetters: string
}

const DEAD: Pick<StreamPlan, 'body' | 'payloadBytes' | 'backlogMax' | 'groups'> = {
  body: {},
  groups: [],
  payloadBytes: [0, 0],
  backlogMax: 0,
}

/** Streams that dead letters are copied to, and no actor publishes to. */
export const DEAD_STREAMS: readonly StreamPlan[] = ['plain.dead', 'policy.dead', 'expiring.dead'].map((name) => ({
  ...DEAD,
  name,
  deadLetters: name,
}))

export const WORK_STREAMS: readonly StreamPlan[] = [
  {
    name: 'plain',
    body: {},
    groups: ['a', 'b'],
    payloadBytes: [0, 300],
    backlogMax: 2000,
    deadLetters: 'plain.dead',
  },
  {
    name: 'kept', // most of the bytes: what it drops lets the log's oldest segments be cleaned
    body: { retention: { max_bytes: 400_000 } },
    groups: ['a'],
    payloadBytes: [2000, 16_000],
    backlogMax: 200,
    deadLetters: 'plain.dead',
  },
  {
    name: 'policy',
    body: { failure_policy: { max_attempts: 3, retry_delay_millis: 30, dead_letter_stream: 'policy.dead' } },
    groups: ['a', 'b'],
    payloadBytes: [10, 200],
    backlogMax: 600,
    deadLetters: 'policy.dead',
  },
  {
    name: 'expiring',
    body: { failure_policy: { max_attempts: 2, dead_letter_stream: 'expiring.dead', apply_on_expiry: true } },
    groups: ['a'],
    payloadBytes: [10, 200],
    backlogMax: 400,
    deadLetters: 'expiring.dead',
  },
  {
    name: 'stopping', // its dead-letter stream does not exist
    body: { failure_policy: { max_attempts: 2, dead_letter_stream: 'nowhere', apply_on_expiry: true } },
    groups: ['a'],
    payloadBytes: [10, 100],
    backlogMax: 400,
    deadLetters: 'plain.dead',
  },
]

/** The plan of a stream whose default is a quorum of directories. */
export const inQuorum = (plan: StreamPlan): StreamPlan => ({
  ...plan,
  body: { ...plan.body, default_durability: 'local-quorum' },
})
