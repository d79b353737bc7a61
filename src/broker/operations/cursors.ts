/** Cursors: named offsets that a group keeps with the broker. They only go forward; going back is a rewind, which is audited. */
import type { Decision } from '../../engine/decision.ts'
import type { Change } from '../frames/change.ts'
import type { Caller, GroupPath } from '../operations.ts'
import { refuse } from '../refusals.ts'
import type { CursorCommitReply, CursorRewindReply } from '../wire/group-answers.ts'
import type { CursorRewindBody } from '../wire/requests.ts'
import type { Core } from '../engine/core.ts'
import { groupOf, settableStream } from './groups.ts'

export class Cursors {
  readonly #core: Core

  constructor(core: Core) {
    this.#core = core
  }

  commit(caller: Caller, path: GroupPath, cursor: string, offset: number): Decision<CursorCommitReply, Change> {
    const core = this.#core
    const stream = settableStream(core, caller, path, offset)
    if (stream instanceof Error) return stream
    const present = stream.groups.get(path.group)?.cursors.get(cursor)
    if (present && offset < present.offset) {
      return refuse('write_not_allowed', `the cursor is at ${present.offset}: rewind it to go back`)
    }
    const { number, before } = groupOf(core, stream, path.group)
    const atMs = core.time.wallMs()
    const change = { kind: 'cursor_committed', group_number: number, cursor, offset, at_ms: atMs } as const
    return {
      kind: 'change',
      before,
      frame: core.changeFrame(change, 'finish'),
      reply: () => ({
        api_version: 'v1',
        stream: path.stream,
        consumer_group: path.group,
        cursor,
        offset,
        committed_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }

  rewind(
    caller: Caller,
    path: GroupPath,
    cursor: string,
    { offset, reason }: CursorRewindBody,
  ): Decision<CursorRewindReply, Change> {
    const core = this.#core
    const stream = settableStream(core, caller, path, offset)
    if (stream instanceof Error) return stream
    const group = groupOf(core, stream, path.group)
    const previous = stream.groups.get(path.group)?.cursors.get(cursor)?.offset ?? null
    const { before, frame, atMs } = core.audited(caller, 'finish', (event) => ({
      kind: 'cursor_rewound',
      group_number: group.number,
      cursor,
      offset,
      previous_offset: previous,
      reason,
      ...event,
      stream: path.stream,
      group: path.group,
    }))
    return {
      kind: 'change',
      before: [...group.before, ...before],
      frame,
      reply: () => ({
        api_version: 'v1',
        stream: path.stream,
        consumer_group: path.group,
        cursor,
        offset,
        previous_offset: previous,
        reason,
        rewound_at_ms: atMs,
        acknowledgement: core.acknowledgement,
      }),
    }
  }
}
