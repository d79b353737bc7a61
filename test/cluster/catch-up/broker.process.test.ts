/** A broker that was alone gets a second node, which copies its log; and the lead goes to it when it is asked to. On a real NATS server. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerServer } from '../../support/broker.ts'
import { TestCluster, inStep, leads } from '../../support/cluster.ts'
import { natsOrSkip } from '../../support/nats-server.ts'
import { runToEnd } from '../../support/process.ts'
import type { Ending } from '../../support/process.ts'
import { eventually } from '../../support/waiting.ts'

const { name, skip } = natsOrSkip('a broker that was alone, and its second node')

describe(name, { skip }, () => {
  const small = new TestCluster<BrokerServer>({ servers: 1 })
  const cluster = (...args: readonly string[]): Promise<Ending> =>
    runToEnd({ entry: 'src/cli/trilog.js', args: ['cluster', ...args], env: small.nodeOf('a') })

  it('copies the log, follows, and leads when it is asked to', async () => {
    const first = await small.started(BrokerServer.start())
    const stream = await first.newStream()
    await stream.fill(200)
    await first.stop()
    await first.startAgain(small.nodeOf('a'))
    await eventually(() => leads(first))
    await stream.publish('in the stream')

    const second = await small.started(BrokerServer.start({ env: small.nodeOf('b') }))
    await inStep(second, 'b')
    await second.logged(/"msg":"the log of another node was copied"/)

    const peer = peerOf(first)
    const status = await cluster('status', '--url', peer, '--output', 'json')
    assert.equal(status.code, 0, status.stderr)
    assert.equal(JSON.parse(status.stdout).broker.leader, 'a')
    assert.match((await cluster('status', '--url', peer)).stdout, /^broker +a +leader .*\nbroker +b +follower /m)

    const wrong = await cluster('hand-over', '--to', 'z', '--url', peer)
    assert.deepEqual([wrong.code, wrong.stderr], [1, `${peer}: the broker knows no other node z\n`])
    const asked = await cluster('hand-over', '--to', 'b', '--url', peer)
    assert.deepEqual([asked.code, asked.stdout], [0, 'the lead of the broker goes to b\n'])
    await eventually(() => leads(second))
    assert.equal((await second.stream(stream.name).describe()).next_offset, 201)

    second.signal('SIGUSR2')
    await eventually(() => leads(first))
    assert.equal((await first.stream(stream.name).publish('again')).offset, 201)
  })

  /** As the log of the node says it. */
  function peerOf({ stderr }: BrokerServer): string {
    const [, address] = /"address":"([^"]+)","msg":"listening for other nodes"/.exec(stderr) ?? []
    assert.ok(address, stderr)
    return `http://${address}`
  }
})
