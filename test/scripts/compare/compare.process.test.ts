import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import type { AddressInfo } from 'node:net'
import { describe, it } from 'node:test'
import { fileURLToPath } from 'node:url'
import * as fc from 'fast-check'
import { readReservation } from '../../../scripts/compare/beanstalkd.ts'
import { measureClients } from '../../../scripts/compare/peer.ts'
import type { PeerClient } from '../../../scripts/compare/peer.ts'
import { ReplySocket } from '../../../scripts/compare/reply-socket.ts'
import { readResp, respCommand } from '../../../scripts/compare/resp.ts'
import type { RespValue } from '../../../scripts/compare/resp.ts'
import { formatTable } from '../../../scripts/compare/table.ts'

const SCRIPT = fileURLToPath(new URL('../../../scripts/compare/broker-peers.ts', import.meta.url))

const { value: respValue } = fc.letrec<{ value: RespValue }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.stringMatching(/^[\x20-\x7e\r\n]*$/),
    fc.nat(),
    fc.constant(null),
    fc.array(tie('value'), { maxLength: 4 }),
  ),
}))

function encode(value: RespValue): string {
  if (value === null) return '$-1\r\n'
  if (typeof value === 'number') return `:${value}\r\n`
  if (typeof value === 'string') return `$${value.length}\r\n${value}\r\n`
  return `*${value.length}\r\n${value.map(encode).join('')}`
}

describe('a reply of Redis', () => {
  it('is read when it is there as a whole, and not before', () => {
    fc.assert(
      fc.property(respValue, fc.nat(), (value, cut) => {
        const bytes = Buffer.from(encode(value), 'latin1')
        assert.deepEqual(readResp(bytes), { value, endBytes: bytes.byteLength })
        assert.equal(readResp(bytes.subarray(0, cut % bytes.byteLength)), null)
      }),
    )
  })

  it('that is an error is thrown; a command is an array of strings', () => {
    assert.throws(() => readResp(Buffer.from('-ERR no such key\r\n')), /redis answered 'ERR no such key'/)
    assert.deepEqual(readResp(respCommand('XADD', 'load', ''))?.value, ['XADD', 'load', ''])
    assert.equal(readResp(Buffer.from('+OK\r\n'))?.value, 'OK')
    assert.equal(readResp(Buffer.from('*-1\r\n'))?.value, null)
  })
})

describe('a reservation of beanstalkd', () => {
  it('is read with its job, whatever the job holds', () => {
    fc.assert(
      fc.property(fc.uint8Array(), fc.nat(), (job, cut) => {
        const bytes = Buffer.concat([Buffer.from(`RESERVED 7 ${job.byteLength}\r\n`), job, Buffer.from('\r\n')])
        assert.equal(readReservation(bytes), `RESERVED 7 ${job.byteLength}`)
        assert.equal(readReservation(bytes.subarray(0, cut % bytes.byteLength)), null)
      }),
    )
    assert.equal(readReservation(Buffer.from('TIMED_OUT\r\n')), 'TIMED_OUT')
  })
})

describe('a connection of one request at a time', () => {
  it('gives each request its reply, however it arrives, and fails when the server closes', async (t) => {
    const server = createServer((socket) => {
      socket.on('data', (chunk) => {
        if (chunk.toString() === 'bye') socket.destroy()
        else for (const byte of `${chunk.toString()}!`) socket.write(byte)
      })
    })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    t.after(() => server.close())
    const socket = await ReplySocket.open((server.address() as AddressInfo).port) // a TCP server has no other kind
    const read = (bytes: Buffer): string | null => (bytes.at(-1) === 0x21 ? bytes.toString() : null)
    assert.equal(await socket.request('one', read), 'one!')
    assert.equal(await socket.request('two', read), 'two!')
    await assert.rejects(socket.request('bye', read), /closed the connection/)
  })
})

describe('a peer', () => {
  it('publishes until the time is over, and cycles until nothing is left', async () => {
    let nowMs = 0
    let waiting = 0
    let open = 0
    const openClient = async (): Promise<PeerClient> => {
      open++
      return {
        async publish() {
          nowMs += 10
          waiting++
        },
        async cycle() {
          if (waiting === 0) return false
          nowMs += 5
          waiting--
          return true
        },
        close: () => open--,
      }
    }
    const setup = { connections: 2, payloadBytes: 1, durationMs: 1000, directory: '', trilogUrl: null }
    const { publish, cycle } = await measureClients(
      { ...setup, natsClientDirectory: null, nowMs: () => nowMs },
      openClient,
    )
    assert(Math.abs(publish.perSecond - 100) < 2, `${publish.perSecond}`)
    assert.equal(Math.round(cycle.perSecond), 200)
    assert.deepEqual([waiting, open], [0, 0])
  })

  it('has a row of the table, with its ratio to the disk', () => {
    const figures = { perSecond: 5000, p50Ms: 2, p99Ms: 4 }
    const row = { server: 'a', syncs: 'yes', publish: figures, cycle: figures, syncsPerSecond: 1000 } as const
    const lines = formatTable([row]).split('\n')
    assert.equal(lines.length, 3)
    assert.match(lines[2] ?? '', /^\| a +\| yes +\| 1 000 +\| 5 000 +\| 5\.0 +\| 2\.00 ms \| 4\.00 ms \| 5 000/)
  })
})

describe('the comparison', () => {
  it('explains itself, and refuses what it does not know', () => {
    for (const args of [['--help'], ['--only', 'kafka']]) {
      const { status, stderr } = spawnSync(process.execPath, [SCRIPT, ...args], { encoding: 'utf8' })
      assert.equal(status, 2)
      assert.match(stderr, /^usage: node scripts\/compare\/broker-peers\.ts.*--nats-client DIR/s)
    }
  })
})

describe('the comparison of log stores', () => {
  const LOG_PEERS = fileURLToPath(new URL('../../../scripts/compare/log-peers.ts', import.meta.url))

  it('says how to get the other one where there is none, and refuses bad usage', () => {
    for (const [args, says] of [
      [[], /^there is no victoria-logs in PATH\nusage: .*go install/s],
      [['--records', 'many'], /^many is no positive number\nusage: /],
      [['--form'], /^Unknown option '--form'/],
    ] as const) {
      const { status, stderr } = spawnSync(process.execPath, [LOG_PEERS, ...args], {
        encoding: 'utf8',
        env: { ...process.env, PATH: '' },
      })
      assert.equal(status, 2)
      assert.match(stderr, says)
    }
  })
})
