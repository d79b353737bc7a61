import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import * as fc from 'fast-check'
import { WebGuard, guardEndpoint } from '../../src/http/web-guard.ts'
import { ask, withServer } from '../support/http-server.ts'

const local = new WebGuard({ bindHost: '127.0.0.1', allowedHosts: ['broker', '10.1.2.3'], baseDomain: 's3.example' })
const everywhere = new WebGuard({ bindHost: '0.0.0.0', allowedHosts: [] })

const accepts = (guard: WebGuard, hosts: readonly string[]): readonly string[] =>
  hosts.filter((host) => guard.hostProblem(host) === null)

/** Whether the guard refuses a request with these headers. */
const refuses = (guard: WebGuard, method: string, headers: Readonly<Record<string, string>>): boolean =>
  guard.problemOf({ method, header: (name) => headers[name] ?? '' }) !== null

describe('the Host of a request that needs no credentials', () => {
  it('may be loopback, by name or address, with any port', () => {
    const hosts = ['localhost', 'LOCALHOST:1', 'localhost.', 'a.b.localhost:9000', '127.0.0.1:65535', '127.9.9.9']
    const more = ['[::1]', '[::1]:80', '[0:0:0:0:0:0:0:1]', '[::ffff:127.0.0.1]:80']
    assert.deepEqual(accepts(local, [...hosts, ...more]), [...hosts, ...more])
    assert.deepEqual(accepts(everywhere, [...hosts, ...more]), [...hosts, ...more])
  })

  it('may be a name of the settings, or one below the base domain', () => {
    const hosts = ['broker:7400', 'BROKER', '10.1.2.3', 's3.example', 'bkt.s3.example:9000', 'a.b.S3.Example']
    assert.deepEqual(accepts(local, hosts), hosts)
    assert.deepEqual(accepts(everywhere, hosts), ['10.1.2.3'])
  })

  it('is refused when it is any other', () => {
    const names = [
      'evil.example',
      'localhost.evil.example',
      'evillocalhost',
      '127.0.0.1.evil.example',
      'a.broker',
      'xs3.example',
    ]
    const forms = [
      '',
      'localhost:',
      'localhost:99999',
      'a b',
      'user@localhost',
      'localhost/x',
      '[::1',
      '127.1',
      '2130706433',
    ]
    assert.deepEqual(accepts(local, [...names, ...forms, '10.1.2.4', '[2001:db8::1]', '0.0.0.0']), [])
    assert.deepEqual(accepts(everywhere, [...names, ...forms]), [])
  })

  it('may be the bind address, and with all addresses bound any of them', () => {
    for (const [bindHost, own, foreign] of [
      ['192.168.1.5', '192.168.1.5:7400', '192.168.1.6:7400'],
      ['2001:DB8:0::5', '[2001:db8::5]', '[2001:db8::6]'],
      ['Broker.lan', 'broker.LAN:7400', 'other.lan'],
    ] as const) {
      const guard = new WebGuard({ bindHost, allowedHosts: [] })
      assert.deepEqual(accepts(guard, [own, foreign]), [own])
    }
    for (const bindHost of ['0.0.0.0', '::', '0:0::0']) {
      const guard = new WebGuard({ bindHost, allowedHosts: [] })
      assert.deepEqual(accepts(guard, ['192.168.1.5:7400', '[2001:db8::5]', 'evil.example']), [
        '192.168.1.5:7400',
        '[2001:db8::5]',
      ])
    }
  })

  it('is judged the same the second time, and however many others came between', () => {
    const host = fc.oneof(
      fc.domain(),
      fc.integer({ min: 0, max: 3000 }).map((port) => `localhost:${port}`),
      fc.ipV4(),
    )
    fc.assert(
      fc.property(fc.array(host, { minLength: 1, maxLength: 50 }), (hosts) => {
        const fresh = hosts.map((each) => new WebGuard({ bindHost: '::1', allowedHosts: ['a.b'] }).hostProblem(each))
        const used = new WebGuard({ bindHost: '::1', allowedHosts: ['a.b'] })
        for (let round = 0; round < 2; round++) {
          assert.deepEqual(
            hosts.map((each) => used.hostProblem(each)),
            fresh,
          )
        }
      }),
    )
  })
})

describe('a request that a browser sends for a page', () => {
  const host = 'localhost:7400'

  it('is refused when the browser calls it cross-site, whatever it does', () => {
    for (const method of ['GET', 'POST', 'PUT']) {
      assert(refuses(local, method, { host, 'sec-fetch-site': 'cross-site' }))
      for (const site of ['same-origin', 'same-site', 'none']) {
        assert(!refuses(local, method, { host, 'sec-fetch-site': site }))
      }
    }
  })

  it('is refused as a change when its origin is foreign', () => {
    for (const origin of [
      'http://evil.example',
      'null',
      'https://10.0.0.1',
      'http://localhost.evil.example',
      'file://',
      'x',
    ]) {
      assert(refuses(local, 'POST', { host, origin }), origin)
      assert(!refuses(local, 'GET', { host, origin }), origin)
    }
    for (const origin of [
      'http://localhost:3000',
      'https://127.0.0.1',
      'http://[::1]:1',
      'http://broker',
      'http://bkt.s3.example',
    ]) {
      assert(!refuses(local, 'POST', { host, origin }), origin)
    }
  })

  it('may come from the host that it is sent to, but from no other address, when all addresses are bound', () => {
    const own = '192.168.1.5:7400'
    assert(!refuses(everywhere, 'POST', { host: own, origin: 'http://192.168.1.5:3000' }))
    assert(refuses(everywhere, 'POST', { host: own, origin: 'http://203.0.113.9' }))
  })

  it('is answered 403 by a guarded route, and never begun', async () => {
    let begun = 0
    const endpoint = guardEndpoint(local, {
      begin(_head, exchange) {
        begun += 1
        exchange.answer(200, null, 'done')
      },
    })
    await withServer({ 'POST /a': endpoint }, async ({ server }) => {
      const rebound = await ask(server, 'POST /a HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0\r\n\r\n')
      assert.deepEqual([rebound!.status, typeof JSON.parse(rebound!.body), begun], [403, 'string', 0])
      assert.doesNotMatch(rebound!.body, /evil/)
      const own = await ask(server, 'POST /a HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n')
      assert.deepEqual([own!.status, begun], [200, 1])
    })
  })
})
