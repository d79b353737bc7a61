/** Answers of a cluster's node while another one leads, or begins to: see G2 of the gateway. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import type { TestContext } from 'node:test'
import { TestGateway } from './support.ts'
import type { Reply } from './support.ts'

/** A gateway with a bucket and an object. */
async function started(context: TestContext): Promise<TestGateway> {
  const gateway = await TestGateway.start()
  context.after(() => gateway.stop())
  await gateway.ask('PUT', '/bkt')
  await gateway.ask('PUT', '/bkt/key', { body: 'hello' })
  return gateway
}

const codeOf = ({ status, headers }: Reply): readonly unknown[] => [
  status,
  headers['x-obj-error-code'],
  headers['x-obj-error-retryable'],
]

describe('a node that does not lead', () => {
  it('refuses every request of S3, and says where the leader is', async (context) => {
    const gateway = await started(context)
    gateway.store.termNow = null
    for (const [method, target] of [
      ['GET', '/'],
      ['GET', '/bkt/key'],
      ['GET', '/bkt/none'],
      ['PUT', '/bkt/other'],
      ['DELETE', '/bkt/key'],
      ['POST', '/bkt?delete'],
      ['OPTIONS', '/bkt/key'],
      ['PATCH', '/bkt/key'],
    ] as const) {
      const reply = await gateway.ask(method, target, { body: '' })
      assert.deepEqual(codeOf(reply), [503, 'SlowDown', 'true'], `${method} ${target}`)
      assert.equal(reply.headers['retry-after'], '1')
      assert.equal(reply.headers['x-trilog-leader'], 'http://10.0.0.2:9000')
    }
    gateway.store.termNow = 3
    assert.equal((await gateway.ask('GET', '/bkt/key')).text, 'hello')
  })

  it('answers what is asked of the node itself', async (context) => {
    const gateway = await started(context)
    gateway.store.termNow = null
    for (const path of ['/health', '/livez', '/readyz', '/v1/platform/capabilities'])
      assert.equal((await gateway.ask('GET', path)).status, 200, path)
  })
})

describe('a request whose term is over when it is answered', () => {
  /** The reply to a request during which another term begins, after the request was judged. */
  const asked = async (context: TestContext, method: string, target: string, body = ''): Promise<Reply> => {
    const gateway = await started(context)
    const { store } = gateway
    const over = (): void => void (store.termNow = 7)
    const settled = store.settled.bind(store)
    store.settled = () => {
      over()
      return settled()
    }
    const list = store.list.bind(store)
    store.list = (...asked) => {
      over()
      return list(...asked)
    }
    const putObject = store.putObject.bind(store)
    store.putObject = (answer, object) => {
      over()
      putObject(answer, object)
    }
    return gateway.ask(method, target, { body })
  }

  it('is refused, as what it read may be old', async (context) => {
    assert.deepEqual(codeOf(await asked(context, 'GET', '/bkt?list-type=2')), [503, 'SlowDown', 'true'])
  })

  it('is refused, as what refused it may be old', async (context) => {
    assert.deepEqual(codeOf(await asked(context, 'GET', '/none/key')), [503, 'SlowDown', 'true'])
  })

  it('may have changed something', async (context) => {
    assert.deepEqual(codeOf(await asked(context, 'PUT', '/bkt/key', 'other')), [500, 'InternalError', 'true'])
  })
})
