import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { headers } from '@nats-io/transport-node'
import type { Msg, MsgCallback, Subscription } from '@nats-io/transport-node'
import { Replies } from '../../../src/cluster/nats/replies.ts'
import { TestClock } from '../../support/cluster-clock.ts'

const NOTHING = new Uint8Array(0)

function asking() {
  const clock = new TestClock()
  const inboxes: string[] = []
  let callback: MsgCallback<Msg> = () => {}
  const replies = new Replies({
    connection: {
      publish: (_subject, _body, options) => void inboxes.push(options!.reply!),
      subscribe: (_subject, options) => {
        callback = options!.callback!
        return {} as Subscription // the replies do not use it
      },
    },
    nowMs: clock.nowMs,
    after: clock.after,
  })
  const ask = (): Promise<string> =>
    replies.ask('subject', NOTHING, headers()).then(
      (message) => message.string(),
      (error: unknown) => String(error),
    )
  const answer = (subject: string, text: string, status = 0): void => {
    const said = status === 0 ? undefined : headers(status, 'said')
    void callback(null, { subject, headers: said, string: () => text } as Msg) // all that the replies read
  }
  return { clock, replies, ask, inboxes, answer }
}

describe('requests of one inbox', () => {
  it('get the answers that are theirs, in any order, once', async () => {
    const { ask, inboxes, answer } = asking()
    const asked = [ask(), ask()]
    answer(inboxes[1]!, 'second')
    answer(inboxes[1]!, 'again')
    answer(inboxes[0]!, 'first')
    assert.deepEqual(await Promise.all(asked), ['first', 'second'])
    assert.equal(new Set(inboxes).size, 2)
  })

  it('fail when no server has the stream', async () => {
    const { ask, inboxes, answer } = asking()
    const asked = ask()
    answer(inboxes[0]!, '', 503)
    assert.equal(await asked, 'Error: no server answers for the stream')
  })

  it('fail when there is no answer for some time, the others not', async () => {
    const { clock, ask, inboxes, answer } = asking()
    const first = ask()
    clock.passes(4000)
    const second = ask()
    clock.passes(1500)
    assert.equal(await first, 'Error: the server does not answer')
    answer(inboxes[0]!, 'too late')
    answer(inboxes[1]!, 'second')
    assert.equal(await second, 'second')
    clock.passes(10_000)
    const third = ask()
    clock.passes(5500)
    assert.equal(await third, 'Error: the server does not answer')
  })

  it('fail when the connection is closed', async () => {
    const { replies, ask } = asking()
    const asked = ask()
    replies.close()
    assert.equal(await asked, 'Error: the server does not answer')
  })
})
