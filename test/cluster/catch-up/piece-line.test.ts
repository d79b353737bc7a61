/** Questions and answers on a connection that gives pieces, however the network cuts them. */
import assert from 'node:assert/strict'
import { duplexPair } from 'node:stream'
import type { Duplex } from 'node:stream'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { PieceAnswers, servePieces } from '../../../src/cluster/catch-up/piece-line.ts'
import type { PieceAnswer } from '../../../src/cluster/catch-up/piece-line.ts'
import { StoreError } from '../../../src/errors.ts'

/** The bytes that the giving side writes when the questions arrive in these chunks. */
async function written(chunks: readonly string[], give: Parameters<typeof servePieces>[1]): Promise<Buffer> {
  const [giver, asker] = duplexPair()
  const given = servePieces(giver, give)
  const answers: Buffer[] = []
  asker.on('data', (chunk: Buffer) => answers.push(chunk))
  for (const chunk of chunks) asker.write(chunk)
  asker.end()
  await given
  return Buffer.concat(answers)
}

/** Hands bytes to the answers, in chunks of at most `chunkBytes()`. */
function arrive(answers: PieceAnswers, bytes: Buffer, chunkBytes: () => number): void {
  for (let from = 0; from < bytes.byteLength;) {
    const count = bytes.copy(answers.memory, 0, from, from + chunkBytes())
    answers.received(count)
    from += count
  }
}

const textOf = ({ kind, bytes, isWhole }: PieceAnswer): unknown[] => [kind, bytes.toString('latin1'), isWhole]

describe('a connection that gives pieces', () => {
  it('answers each question in its order, whatever the network makes of them', async () => {
    const pieces = fc.array(fc.oneof(fc.uint8Array({ maxLength: 300 }), fc.constant(null)), { maxLength: 8 })
    const cuts = fc.infiniteStream(fc.integer({ min: 1, max: 40 }))
    await fc.assert(
      fc.asyncProperty(pieces, cuts, cuts, async (given, questionCuts, answerCuts) => {
        const cut = (stream: fc.Stream<number>) => (): number => stream.next().value ?? assert.fail('it never ends')
        const text = given.map((_, n) => `n=${n}\n`).join('')
        const chunks: string[] = []
        for (let from = 0, next = cut(questionCuts); from < text.length;) {
          const end = from + next()
          chunks.push(text.slice(from, end))
          from = end
        }
        const bytes = await written(chunks, async (question) => {
          const piece = given[Number(question.get('n'))]!
          return piece === null ? null : Buffer.from(piece)
        })
        const answers = new PieceAnswers()
        const told = given.map(() => answers.next(Buffer.alloc(300)))
        arrive(answers, bytes, cut(answerCuts))
        const expected = given.map((piece) =>
          piece === null ? ['gone', '', true] : ['piece', Buffer.from(piece).toString('latin1'), true],
        )
        assert.deepEqual((await Promise.all(told)).map(textOf), expected)
      }),
    )
  })

  it('says why a piece is refused, and goes on', async () => {
    const bytes = await written(['n=1\nn=2\n'], async (question) => {
      if (question.get('n') === '1') throw new StoreError('invalid', 'x', 'there is no such piece')
      return Buffer.from('two')
    })
    const answers = new PieceAnswers()
    const told = [answers.next(Buffer.alloc(0)), answers.next(Buffer.alloc(3))]
    arrive(answers, bytes, () => 1000)
    assert.deepEqual((await Promise.all(told)).map(textOf), [
      ['refused', 'there is no such piece', true],
      ['piece', 'two', true],
    ])
  })

  it('tells what arrived damaged from what was sent', async () => {
    const bytes = await written(['n=1\n'], async () => Buffer.alloc(300_000, 7))
    bytes[200_000]! ^= 1
    const answers = new PieceAnswers()
    const told = answers.next(Buffer.alloc(300_000))
    arrive(answers, bytes, () => 100_000)
    assert.equal((await told).isWhole, false)
  })

  it('asks for a piece only when the one before is on its way, as both may have the same memory', async () => {
    const [giver, asker] = duplexPair({ highWaterMark: 1000 })
    const memory = Buffer.alloc(1 << 20)
    let asked = 0
    void servePieces(giver, async () => memory.fill((asked += 1)))
    asker.write('n=1\nn=2\n')
    const answers = new PieceAnswers()
    const told = [1, 2].map(() => answers.next(Buffer.alloc(memory.byteLength)))
    asker.on('data', (chunk: Buffer) => arrive(answers, chunk, () => chunk.byteLength))
    const [first, second] = await Promise.all(told)
    assert(first!.bytes.every((byte) => byte === 1) && second!.bytes.every((byte) => byte === 2))
    asker.destroy()
  })

  it('ends when the other side asks no question, and when it is gone', async () => {
    const ended = async (act: (asker: Duplex, giver: Duplex) => void): Promise<void> => {
      const [giver, asker] = duplexPair()
      const given = servePieces(giver, () => assert.fail('nothing was asked'))
      act(asker, giver)
      await given
      assert(giver.destroyed)
    }
    await ended((asker) => asker.write('x'.repeat(2000)))
    await ended((asker) => asker.end())
    await ended((_, giver) => giver.destroy())
  })

  it('takes no answer that was not asked for, is longer than asked, or of a kind that it does not know', async () => {
    const answer = await written(['n=1\n'], async () => Buffer.from('four'))
    const unknown = Buffer.from(answer)
    unknown[0] = 9
    const refused = (bytes: Buffer, asked: number | null): void => {
      const answers = new PieceAnswers()
      const told = asked === null ? null : answers.next(Buffer.alloc(asked))
      assert.throws(() => arrive(answers, bytes, () => 1000), /an answer that no request asked for/)
      void told?.catch(() => {})
      answers.fail(new Error('ended'))
    }
    refused(answer, null)
    refused(answer, 3)
    refused(unknown, 4)
  })

  it('tells whoever waits that nothing comes any more, and whoever asks then', async () => {
    const answers = new PieceAnswers()
    const told = answers.next(Buffer.alloc(1))
    answers.fail(new Error('the cable was cut'))
    await assert.rejects(told, /the cable was cut/)
    await assert.rejects(answers.next(Buffer.alloc(1)), /the cable was cut/)
  })
})
