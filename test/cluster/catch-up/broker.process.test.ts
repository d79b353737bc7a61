/** A broker that was alone gets a second node, which copies its log and takes over the lead on request. On a real NATS server. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { BrokerServer } from '../../support/broker.ts'
import { TestCluster, leads, waitUntilCaughtUp } from '../../support/cluster.ts'
import { Exposition } from '../../support/exposition.ts'
import { Link } from '../../support/link.ts'
import { natsOrSkip } from '../../support/nats-server.ts'
import { runToEnd } from '../../support/process.ts'
import type { Ending } from '../../support/process.ts'
import { eventually, timePasses } from '../../support/waiting.ts'

const SEGMENT_BYTES = 1 << 20
const SEGMENTS = 5
const SILENT_MS = 300

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

    const second = await small.started(
      BrokerServer.start({ env: { ...small.nodeOf('b'), MQ_METRICS_EXPOSURE: 'http' } }),
    )
    await waitUntilCaughtUp(second, 'b')
    await waitUntilCaughtUp(first, 'b') // the tests ask this node next
    await second.logged(/"msg":"the log of another node was copied"/)
    const shown = new Exposition((await second.request('GET', '/metrics')).text)
    assert.ok(shown.value('trilog_cluster_copied_bytes_total', { cluster: 'test', service: 'broker' })! > 10_000)

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

  it('copies on when the network to the other node says nothing for a while, and then loses its connections', async () => {
    const link = await Link.to()
    const settings = (id: string): Record<string, string> => small.nodeOf(id, 'links')
    const first = await small.started(BrokerServer.start({ flags: ['--segment-bytes', String(SEGMENT_BYTES)] }))
    const stream = await first.newStream()
    for (let n = 0; n < SEGMENTS; n += 1) await stream.fill(256, () => ''.padEnd(SEGMENT_BYTES / 256, 'x'))
    await first.stop()
    await first.startAgain({
      ...settings('a'),
      TRILOG_CLUSTER_URL: `http://${link.address}`,
      TRILOG_CLUSTER_COPY_BYTES_PER_SECOND: String(4 * SEGMENT_BYTES),
    })
    link.aim(peerOf(first))
    await eventually(() => leads(first))

    const starting = small.started(BrokerServer.start({ env: settings('b') }))
    for (const passed of [1, 2]) {
      await eventually(() => link.passedBytes('back') > passed * SEGMENT_BYTES)
      link.hold('back')
      await timePasses(SILENT_MS)
      link.cut()
      link.heal()
    }
    const second = await starting
    assert.match(second.stderr, /"msg":"the log of another node cannot be copied yet"/)
    await waitUntilCaughtUp(second, 'b')
    assert.ok(link.passedBytes('back') < (SEGMENTS + 4) * SEGMENT_BYTES, 'what was copied is not copied again')
    await first.kill()
    await eventually(() => leads(second))
    assert.equal((await second.stream(stream.name).describe()).next_offset, SEGMENTS * 256)
    await link.close()
  })

  /** The node's address for other nodes, from its log output. */
  function peerOf({ stderr }: BrokerServer): string {
    const [, address] = /"address":"([^"]+)","msg":"listening for other nodes"/.exec(stderr) ?? []
    assert.ok(address, stderr)
    return `http://${address}`
  }
})
