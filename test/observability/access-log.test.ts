import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { watchOf } from '../../src/http/request-watch.ts'
import type { RequestWatch } from '../../src/http/request-watch.ts'
import { AccessLog } from '../../src/observability/access-log.ts'
import { changesBetween } from '../../src/observability/audit-log.ts'

const BEGUN = { id: 'r-1', method: 'GET', path: '/a', remoteAddress: '127.0.0.1', header: () => '' }
const ENDED = {
  route: 'GET /a',
  status: 200,
  seconds: 0.0012345,
  receivedBytes: 1,
  sentBytes: 2,
  tenant: null,
  principal: null,
}

describe('the access log', () => {
  it('takes the share of requests that it is told to', () => {
    const numbers = [0, 0.24, 0.25, 0.9]
    const log = new AccessLog({ share: 0.25, random: () => numbers.shift()!, logger: { info() {} } })
    assert.deepEqual(
      [0, 1, 2, 3].map(() => log.watch(BEGUN) !== null),
      [true, true, false, false],
    )
  })

  it('takes all without a look at chance, says how long each took, and cuts long paths', () => {
    const lines: object[] = []
    const log = new AccessLog({ share: 1, random: assert.fail, logger: { info: (line) => void lines.push(line) } })
    log.watch({ ...BEGUN, path: `/${'p'.repeat(5000)}` })!.ended(ENDED)
    const [line] = lines as { ms: number; target: string; tenant?: string }[]
    assert.deepEqual([line!.ms, line!.target.length, 'tenant' in line!], [1.235, 1024, false])
  })
})

describe('several who follow requests', () => {
  const watch = (name: string, heard: string[]): RequestWatch => ({
    watch: () => ({
      runWithin(run) {
        heard.push(`${name} begins`)
        run()
        heard.push(`${name} ends`)
      },
      ended: () => void heard.push(`${name} ended`),
    }),
  })

  it('are one', () => {
    const heard: string[] = []
    const both = watchOf([watch('a', heard), watch('b', heard), { watch: () => null }])!
    const watched = both.watch(BEGUN)!
    watched.runWithin(() => heard.push('work'))
    watched.ended(ENDED)
    assert.deepEqual(heard, ['b begins', 'a begins', 'work', 'a ends', 'b ends', 'a ended', 'b ended'])
  })

  it('are nobody when none wants the request, or there are none', () => {
    const nobody = { watch: () => null }
    assert.equal(watchOf([nobody, nobody])!.watch(BEGUN), null)
    assert.equal(watchOf([]), null)
  })
})

describe('changes by name', () => {
  it('are what is new, gone and different', () => {
    const before = new Map([
      ['same', 1],
      ['gone', 2],
      ['other', 3],
    ])
    const after = new Map([
      ['same', 1],
      ['other', 4],
      ['new', 5],
    ])
    const isSame = (one: number, other: number): boolean => one === other
    assert.deepEqual(changesBetween(before, after, isSame), { added: ['new'], removed: ['gone'], changed: ['other'] })
    assert.equal(changesBetween(before, before, isSame), null)
  })
})
