import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import type { BodySink } from '../../../../src/http/exchange.ts'
import { ExchangeBody, RepeatableBody } from '../../../../src/objectstore/s3/body/request-body.ts'
import type { PipedBody } from '../../../../src/objectstore/s3/handler.ts'
import type { BodyWriter, ReceivedBody } from '../../../../src/objectstore/operations.ts'
import { nextTurn } from '../../../support/next-turn.ts'

/** A connection whose client sends what the test says, and that records whether it is paused. */
class TestExchange {
  isPaused = false
  limitBytes = 0
  #sink: BodySink | null = null
  readonly #ended: ((how: 'answered' | 'aborted') => void)[] = []

  readBody(limitBytes: number, sink: BodySink): void {
    this.limitBytes = limitBytes
    this.#sink = sink
  }

  pauseBody(): void {
    this.isPaused = true
  }

  resumeBody(): void {
    this.isPaused = false
  }

  onEnd(listener: (how: 'answered' | 'aborted') => void): void {
    this.#ended.push(listener)
  }

  /** The bytes are gone after the call, like those of the library. */
  send(text: string, isLast = false): void {
    const bytes = Buffer.from(text)
    this.#sink!.chunk(bytes, isLast)
    bytes.fill(0)
  }

  stall(): void {
    this.#sink!.timedOut('stalled')
  }

  end(): void {
    for (const listener of this.#ended) listener('aborted')
  }
}

/** A writer with room for `roomBytes` until it is drained. */
class TestWriter implements BodyWriter {
  text = ''
  state: 'open' | 'finished' | 'abandoned' = 'open'
  drain: () => void = () => {}
  readonly #roomBytes: number
  #failsWith: Error | null = null
  #used = 0

  constructor(roomBytes: number) {
    this.#roomBytes = roomBytes
  }

  failWith(error: Error): void {
    this.#failsWith = error
  }

  write(bytes: Uint8Array): boolean {
    this.text += Buffer.from(bytes).toString()
    this.#used += bytes.length
    return this.#used < this.#roomBytes
  }

  onDrain(listener: () => void): void {
    this.drain = () => {
      this.#used = 0
      listener()
    }
  }

  finish(received: (body: ReceivedBody) => void, failed: (error: unknown) => void): void {
    if (this.#failsWith !== null) return failed(this.#failsWith)
    this.state = 'finished'
    const digest = { bytes: this.text.length, md5: '', checksums: [], sha256: null }
    received({ digest, abandon: () => void (this.state = 'abandoned') })
  }

  abandon(): void {
    this.state = 'abandoned'
  }
}

function bodyOf(contentLength: number, headers: Record<string, string> = {}) {
  const exchange = new TestExchange()
  return { exchange, body: new ExchangeBody(exchange, contentLength, new Map(Object.entries(headers))) }
}

describe('the body of a request', () => {
  it('that has none is empty at once', async () => {
    for (const contentLength of [-1, 0]) {
      const { body } = bodyOf(contentLength)
      assert.equal(body.isPresent, false)
      assert.equal((await body.collect(10, null)).bytes.length, 0)
    }
    assert.equal(bodyOf(-1).body.contentLength, null)
    assert.equal(bodyOf(0).body.contentLength, 0)
  })

  it('that arrives before it is taken is held, and the client kept waiting', async () => {
    const { exchange, body } = bodyOf(6)
    exchange.send('one')
    assert.equal(exchange.isPaused, true)
    exchange.send('two') // it was on its way already
    const collected = body.collect(10, null)
    assert.equal(exchange.isPaused, false)
    exchange.send('', true)
    assert.equal((await collected).bytes.toString(), 'onetwo')
  })

  it('that arrived whole before it is taken is given whole', async () => {
    const { exchange, body } = bodyOf(3)
    exchange.send('one', true)
    assert.equal(exchange.isPaused, false)
    assert.deepEqual(await body.collect(3, null), { bytes: Buffer.from('one'), trailer: null })
  })

  it('is larger than its limit by what is declared: nothing of it is taken', async () => {
    const { exchange, body } = bodyOf(11)
    exchange.send('one')
    await assert.rejects(body.collect(10, null), {
      code: 'EntityTooLarge',
      fields: { ProposedSize: 11, MaxSizeAllowed: 10 },
    })
    assert.equal(body.wasTaken, false)
  })

  it('is larger than its limit by what comes: the rest is dropped', async () => {
    const { exchange, body } = bodyOf(-1, { 'transfer-encoding': 'chunked' })
    const collected = body.collect(5, null)
    exchange.send('one')
    exchange.send('two')
    await assert.rejects(collected, { code: 'EntityTooLarge', fields: { MaxSizeAllowed: 5 } })
    exchange.send('three', true)
  })

  it('comes out of its framing, with its trailer', async () => {
    const { exchange, body } = bodyOf(100)
    const framing = { decodedBytes: 5, signatures: null, trailerName: 'x-amz-checksum-crc32' }
    const collected = body.collect(5, framing)
    exchange.send('5\r\nhel')
    exchange.send('lo\r\n0\r\nx-amz-checksum-crc32:NhCm')
    exchange.send('hg==\r\n\r\n', true)
    assert.deepEqual(await collected, { bytes: Buffer.from('hello'), trailer: 'NhCmhg==' })
  })

  it('has the limit of its payload, not of its framing', async () => {
    const framing = { decodedBytes: 6, signatures: null, trailerName: null }
    await assert.rejects(bodyOf(100).body.collect(5, framing), { code: 'EntityTooLarge' })
  })

  it('whose framing is broken is refused, and so is one whose framing ends early', async () => {
    const framing = { decodedBytes: 5, signatures: null, trailerName: null }
    const broken = bodyOf(100)
    const collected = broken.body.collect(5, framing)
    broken.exchange.send('zz\r\nhello')
    await assert.rejects(collected, { code: 'IncompleteBody' })
    const short = bodyOf(100)
    const shortened = short.body.collect(5, framing)
    short.exchange.send('3\r\nhel\r\n0\r\n\r\n', true)
    await assert.rejects(shortened, { code: 'IncompleteBody' })
  })

  it('that stalls is a RequestTimeout, also when it is taken after that', async () => {
    for (const takenFirst of [true, false]) {
      const { exchange, body } = bodyOf(10)
      const early = takenFirst ? body.collect(10, null) : null
      exchange.send('one')
      exchange.stall()
      await assert.rejects(early ?? body.collect(10, null), { code: 'RequestTimeout' })
    }
  })

  it('whose client goes away is an IncompleteBody', async () => {
    const { exchange, body } = bodyOf(10)
    const collected = body.collect(10, null)
    exchange.send('one')
    exchange.end()
    await assert.rejects(collected, { code: 'IncompleteBody' })
  })

  it('that ended whole does not mind the end of the exchange', async () => {
    const { exchange, body } = bodyOf(3)
    exchange.send('one', true)
    exchange.end()
    assert.equal((await body.collect(3, null)).bytes.toString(), 'one')
  })

  it('is taken once', async () => {
    const { body } = bodyOf(0)
    await body.collect(1, null)
    await assert.rejects(async () => body.collect(1, null), /taken once/)
  })

  it('that is repeatable is collected once, and given again', async () => {
    const { exchange, body } = bodyOf(3)
    const repeatable = new RepeatableBody(body)
    exchange.send('one', true)
    const first = await repeatable.collect(3, null)
    assert.equal(await repeatable.collect(3, null), first)
    assert.equal(repeatable.contentLength, 3)
  })
})

const piped = (body: ExchangeBody, limitBytes: number, framing: null, writer: BodyWriter): Promise<PipedBody> =>
  new Promise((answered, refused) => body.pipe(limitBytes, framing, writer, { answered, refused }))

describe('a body that is piped', () => {
  it('comes at the pace of its writer', async () => {
    const { exchange, body } = bodyOf(9)
    const writer = new TestWriter(4)
    const whole = piped(body, 9, null, writer)
    exchange.send('one')
    assert.equal(exchange.isPaused, false)
    exchange.send('two')
    assert.equal(exchange.isPaused, true)
    exchange.send('end', true) // it was on its way already
    await nextTurn()
    assert.equal(writer.text, 'onetwo')
    writer.drain()
    const { received } = await whole
    assert.deepEqual([writer.text, writer.state, received.digest.bytes], ['onetwoend', 'finished', 9])
  })

  it('is abandoned when it is refused, when it ends short, and when it cannot be finished', async () => {
    const large = new TestWriter(100)
    await assert.rejects(piped(bodyOf(10).body, 9, null, large), { code: 'EntityTooLarge' })
    const short = new TestWriter(100)
    const { exchange, body } = bodyOf(10)
    const whole = piped(body, 10, null, short)
    exchange.send('one')
    exchange.end()
    await assert.rejects(whole, { code: 'IncompleteBody' })
    const full = new TestWriter(100)
    full.failWith(new Error('disk full'))
    await assert.rejects(piped(bodyOf(0).body, 10, null, full), /disk full/)
    assert.deepEqual([large.state, short.state, full.state], ['abandoned', 'abandoned', 'abandoned'])
  })

  it('whose client goes away while the writer is full is abandoned at once', async () => {
    const { exchange, body } = bodyOf(10)
    const writer = new TestWriter(1)
    const whole = piped(body, 10, null, writer)
    exchange.send('one')
    exchange.end()
    await assert.rejects(whole, { code: 'IncompleteBody' })
    assert.equal(writer.state, 'abandoned')
    writer.drain() // too late: nothing waits for it any more
    await nextTurn()
    assert.equal(writer.text, 'one')
  })

  it('arrives whole and in order however it is cut and whoever waits', async () => {
    const chunks = fc.array(fc.string({ maxLength: 8, unit: 'binary-ascii' }), { maxLength: 12 })
    const property = fc.asyncProperty(
      chunks,
      fc.nat(12),
      fc.integer({ min: 1, max: 20 }),
      async (sent, takenAt, room) => {
        const text = sent.join('')
        const { exchange, body } = bodyOf(text.length + 1)
        const writer = new TestWriter(room)
        let whole: Promise<unknown> | null = null
        for (const [n, chunk] of [...sent, '!'].entries()) {
          if (n === takenAt) whole = piped(body, 1000, null, writer)
          if (whole !== null) for (; exchange.isPaused; await nextTurn()) writer.drain()
          exchange.send(chunk, n === sent.length)
        }
        whole ??= piped(body, 1000, null, writer)
        for (; writer.state === 'open'; await nextTurn()) writer.drain()
        await whole
        assert.equal(writer.text, `${text}!`)
      },
    )
    await fc.assert(property, { numRuns: 60 })
  })
})

describe('a body that is read', () => {
  it('comes in pieces, the next when the one before was done with', async () => {
    const { exchange, body } = bodyOf(9)
    const seen: string[] = []
    const waits: (() => void)[] = []
    const read = body.read({
      chunk(bytes) {
        seen.push(Buffer.from(bytes).toString())
        return new Promise((resolve) => waits.push(resolve))
      },
    })
    exchange.send('one')
    exchange.send('two', true)
    assert.deepEqual(seen, ['one'])
    waits[0]!()
    await nextTurn()
    assert.deepEqual(seen, ['one', 'two'])
    waits[1]!()
    await read
  })

  it('ends with what its reader throws or rejects', async () => {
    const throwing = bodyOf(3)
    const thrown = throwing.body.read({
      chunk() {
        throw new Error('no form')
      },
    })
    throwing.exchange.send('one')
    await assert.rejects(thrown, /no form/)
    const rejecting = bodyOf(3)
    const rejected = rejecting.body.read({ chunk: () => Promise.reject(new Error('not allowed')) })
    rejecting.exchange.send('one')
    await assert.rejects(rejected, /not allowed/)
  })
})
