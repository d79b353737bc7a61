import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { findUws } from '../../src/http/uws.ts'

describe('the HTTP library', () => {
  it('is the package of this platform and Node, else uWebSockets.js', () => {
    const asked: string[] = []
    const upstream = { name: 'upstream' }
    const found = findUws((name) => {
      asked.push(name)
      if (name !== 'uWebSockets.js') throw new Error('not installed')
      return upstream
    })
    assert.equal(found, upstream)
    assert.match(asked[0]!, /^@uwsjs\/\w+-\w+-\d+$/)
  })

  it('that is nowhere is one clear line', () => {
    const load = (name: string): never => {
      throw new Error(`Cannot find module '${name}'\nRequire stack: …`)
    }
    assert.throws(() => findUws(load), /^StoreError: no uWebSockets\.js for [^\n]+$/)
  })
})
