/** The endpoint helper on a real disk, with its journal on a thread. */
import assert from 'node:assert/strict'
import { fork } from 'node:child_process'
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { afterEach, beforeEach, describe, it } from 'node:test'
import { EndpointHelper } from '../../src/endpoint-helper/endpoint-helper.ts'

let directory: string

const logged: object[] = []
const log = (details: object): void => void logged.push(details)
const open = (): Promise<EndpointHelper> =>
  EndpointHelper.open({ directory: `${directory}/endpoint`, logger: { info: log, warn: log, error: log } })

describe('an endpoint helper', () => {
  beforeEach(() => {
    directory = mkdtempSync(`${tmpdir()}/endpoint-`)
  })
  afterEach(() => rmSync(directory, { recursive: true }))

  it('that nobody uses leaves no directory', async () => {
    const helper = await open()
    assert.equal(helper.newest('a'), null)
    await helper.close()
    assert(!existsSync(`${directory}/endpoint`))
  })

  it('opens its log once for the first objects, and again at the next start', async () => {
    const first = await open()
    await Promise.all([1, 2, 3].map((n) => first.store({ activationId: 'a', object: String(n) })))
    await first.close()
    const second = await open()
    assert.deepEqual(second.newestFirst('a'), ['3', '2', '1'])
    await second.close()
  })

  it('takes nothing once it is closing, and answers what it took before', async () => {
    const helper = await open()
    const taken = helper.store({ activationId: 'a', object: '1' })
    const closed = helper.close()
    await assert.rejects(helper.store({ activationId: 'a', object: '2' }), {
      kind: 'unavailable',
      code: 'wal_unavailable',
    })
    await Promise.allSettled([taken, closed])
    const again = await open()
    const stored = await taken.then(
      () => ['1'],
      () => [],
    )
    assert.deepEqual(again.newestFirst('a'), stored)
    await again.close()
  })

  it('whose log cannot be opened says so, and tries again with the next object', async () => {
    const helper = await open()
    writeFileSync(`${directory}/endpoint`, 'in the way')
    const object = { activationId: 'a', object: '1' }
    await assert.rejects(helper.store(object), { kind: 'unavailable', code: 'wal_unavailable' })
    assert.equal(logged.length, 1)
    rmSync(`${directory}/endpoint`)
    await helper.store(object)
    assert.equal(helper.newest('a'), '1')
    await helper.close()
  })

  it('has everything it answered after its process was killed', async () => {
    const child = fork(new URL('store-until-killed.ts', import.meta.url), [`${directory}/endpoint`], { execArgv: [] })
    let answered = 0
    child.on('message', (n: number) => {
      answered = n
      if (n === 200) child.kill('SIGKILL')
    })
    const [code, signal] = (await once(child, 'exit')) as [number | null, string | null]
    assert.deepEqual([code, signal], [null, 'SIGKILL'])
    assert(answered >= 200)
    const helper = await open()
    assert(Number(helper.newest('a')) >= answered)
    const found = helper.newestFirst('a').map(Number)
    assert.deepEqual(
      found,
      Array.from({ length: 100 }, (_, i) => found[0]! - i),
    )
    await helper.close()
  })
})
