import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { describe, it } from 'node:test'

const CACHE = new URL('../src/objectstore/engine/object-cache.ts', import.meta.url).href

/** Prints the version of compiled code that V8 takes: at the start of the process, with a new cache, and once the cache keeps an object. */
const PROGRAM = `
  import { cachedDataVersionTag } from 'node:v8'
  const tags = [cachedDataVersionTag()]
  const { ObjectCache } = await import('${CACHE}')
  const cache = new ObjectCache(1000)
  tags.push(cachedDataVersionTag())
  cache.add({ position: 1, bytes: 10 })
  tags.push(cachedDataVersionTag())
  console.log(JSON.stringify(tags))
`

describe('collecting early what passes', () => {
  it('begins with the first object that is kept: threads of the start take compiled code', () => {
    const said = execFileSync(process.execPath, ['--input-type=module', '-e', PROGRAM], { encoding: 'utf8' })
    const [atStart, withCache, withObject] = JSON.parse(said) as number[]
    assert.equal(withCache, atStart)
    assert.notEqual(withObject, atStart)
  })
})
