import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import fc from 'fast-check'
import { ClusterReply, LEADER_HEADER, clusterReply, leaderHeaders, routesOfLeader } from '../../src/http/cluster.ts'
import type { ClusterView, HeardNode } from '../../src/http/cluster.ts'
import { healthEndpoint, standingRoutes } from '../../src/http/standing-endpoints.ts'
import { Compile } from 'typebox/schema'
import type { Endpoint, Route } from '../../src/http/routes.ts'
import { OPEN, WELL } from '../support/health.ts'
import { ask, withServer } from '../support/http-server.ts'

const node = (name: string, changed: Partial<HeardNode> = {}): HeardNode => ({
  node: name,
  role: 'follower',
  epoch: 4,
  sequence: 100,
  position: 8192,
  url: `http://${name}:7400`,
  heardMsAgo: 10,
  ...changed,
})
const view = (nodes: readonly HeardNode[], own = 'a'): ClusterView => ({
  name: 'north',
  node: own,
  leads: nodes.some((each) => each.node === own && each.role === 'leader'),
  nodes,
})
const leader = node('b', { role: 'leader', sequence: 120, position: 16_384, heardMsAgo: 0.4 })

describe('what a node says of its cluster', () => {
  it('is each node by name, with what it lacks of what the leader has', () => {
    const reply = clusterReply(view([leader, node('a', { heardMsAgo: 0 }), node('c', { heardMsAgo: 5001 })]))
    assert.deepEqual(
      { ...reply, nodes: reply.nodes.map(({ node, role, behind }) => [node, role, behind]) },
      {
        cluster: 'north',
        node: 'a',
        role: 'follower',
        epoch: 4,
        sequence: 100,
        leader: 'b',
        nodes: [
          ['a', 'follower', { messages: 20, bytes: 8192 }],
          ['b', 'leader', { messages: 0, bytes: 0 }],
          ['c', 'away', { messages: 20, bytes: 8192 }],
        ],
      },
    )
  })

  it('names the leader of the highest epoch: one that was stopped says what it last knew', () => {
    const stopped = node('c', { role: 'leader', epoch: 3 })
    assert.equal(clusterReply(view([stopped, leader, node('a')])).leader, 'b')
    assert.equal(clusterReply(view([node('a'), { ...leader, heardMsAgo: 6000 }])).leader, null)
  })

  it('is as its schema says, whatever was heard', () => {
    const validator = Compile(ClusterReply)
    const heard = fc.record({
      node: fc.constantFrom('a', 'b', 'c'),
      role: fc.constantFrom('leader', 'follower', 'recovering'),
      epoch: fc.nat(),
      sequence: fc.nat(),
      position: fc.nat(),
      url: fc.option(fc.webUrl()),
      heardMsAgo: fc.float({ min: 0, noNaN: true, noDefaultInfinity: true }),
    })
    const nodes = fc.uniqueArray(heard, { selector: (each) => each.node })
    fc.assert(
      fc.property(nodes, (nodes) => {
        const reply = clusterReply(view(nodes))
        assert.ok(validator.Check(reply))
        assert.ok(reply.nodes.every(({ behind }) => behind.messages >= 0 && behind.bytes >= 0))
      }),
    )
  })
})

describe('a node that does not lead', () => {
  const endpoint: Endpoint = { begin: (_head, exchange) => exchange.answer(200, 'text/plain', 'of the leader') }
  const answerOf = async (route: Route, method: string): Promise<Awaited<ReturnType<typeof ask>>> => {
    let answer: Awaited<ReturnType<typeof ask>> = null
    await withServer({ [`${method} ${route.path}`]: route.endpoint }, async ({ server }) => {
      answer = await ask(server, `${method} ${route.path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n`)
    })
    return answer
  }
  const asked = (nodes: readonly HeardNode[] | null) => {
    const [route] = routesOfLeader(nodes && (() => view(nodes)), [{ method: 'POST', path: '/v1/x', endpoint }])
    return answerOf(route!, 'POST')
  }

  it('says who does', async () => {
    const routes = standingRoutes({ ...OPEN, cluster: () => view([node('a'), leader]) })
    const cluster = await answerOf(
      routes.find(({ path }) => path === '/v1/cluster')!,
      'GET',
    )
    assert.equal(JSON.parse(cluster!.body).leader, 'b')
  })

  it('refuses, and says where the leader is', async () => {
    const refused = await asked([node('a'), leader])
    assert.equal(refused?.status, 503)
    assert.equal(refused.headers[LEADER_HEADER], 'http://b:7400')
    assert.equal(refused.headers['retry-after'], '1')
    assert.equal(refused.body, '"node a does not lead, node b does"\n')
  })

  it('says so when no leader is known', async () => {
    const refused = await asked([node('a')])
    assert.equal(refused?.body, '"node a does not lead, and no leader is known"\n')
    assert.equal(refused?.headers[LEADER_HEADER], undefined)
    assert.deepEqual(leaderHeaders(view([node('a'), { ...leader, url: null }])), [])
  })

  it('is none where it leads, or where there is no cluster', async () => {
    assert.equal((await asked([node('a', { role: 'leader' })]))?.body, 'of the leader')
    assert.equal((await asked(null))?.body, 'of the leader')
  })

  it('is healthy, and unhealthy as a leader', async () => {
    const statuses = async (nodes: readonly HeardNode[] | null): Promise<readonly (number | undefined)[]> => {
      const health = healthEndpoint(WELL, nodes && (() => view(nodes)))
      const found: (number | undefined)[] = []
      await withServer({ 'GET /health': health }, async ({ server }) => {
        for (const path of ['/health', '/health?role=leader'])
          found.push((await ask(server, `GET ${path} HTTP/1.1\r\nHost: localhost\r\n\r\n`))?.status)
      })
      return found
    }
    assert.deepEqual(await statuses([node('a'), leader]), [200, 503])
    assert.deepEqual(await statuses([node('a', { role: 'leader' })]), [200, 200])
    assert.deepEqual(await statuses(null), [200, 200])
  })

  it('shows strangers no nodes', async () => {
    const routes = standingRoutes({ ...OPEN, isKnown: () => false, cluster: () => view([node('a'), leader]) })
    const cluster = await answerOf(
      routes.find(({ path }) => path === '/v1/cluster')!,
      'GET',
    )
    const reply = JSON.parse(cluster!.body)
    assert.deepEqual([reply.role, reply.nodes], ['follower', []])
  })
})
