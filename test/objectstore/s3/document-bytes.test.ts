/** Long documents wait for room in memory before they are read or made. */
import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { completeBytes, deletedBytes } from '../../../src/objectstore/s3/document-bytes.ts'
import type { GatewayRequest } from '../../../src/objectstore/s3/handler.ts'
import { handlers } from '../../../src/objectstore/s3/handlers.ts'
import { nextTurn } from '../../support/next-turn.ts'
import { FakeBody, TestGateway, requestOf } from '../../support/object-handlers.ts'

const LISTINGS = ['ListObjectsV2', 'ListObjects', 'ListMultipartUploads', 'ListParts', 'ListBuckets'] as const
const BODIES = ['DeleteObjects', 'CompleteMultipartUpload'] as const

describe('a request with a long document', () => {
  for (const name of [...LISTINGS, ...BODIES]) {
    it(`goes on when there is room for it: ${name}`, async () => {
      const { context, bucket } = await TestGateway.open()
      const create = handlers.CreateMultipartUpload
      assert(create.of === 'object')
      await create.handle(requestOf({}), bucket, 'k', context)
      const [upload] = context.store.uploads(bucket, Buffer.alloc(0), null)
      const body = new FakeBody(Buffer.from('<a/>'))
      let asked = 0
      let grant = (): void => {}
      const request: GatewayRequest = {
        ...requestOf({ query: { uploadId: upload!.uploadId }, headers: { 'content-md5': 'CzVGVzVq2LGc0YkgKVs/WQ==' } }),
        body,
        reserveRoom(bytes) {
          asked = bytes
          return new Promise((granted) => (grant = granted))
        },
      }
      let isOver = false
      const handler = handlers[name]
      const answered = async (): Promise<unknown> => {
        if (handler.of === 'service') return handler.handle(request, context)
        if (handler.of === 'object') return handler.handle(request, bucket, 'k', context)
        assert(handler.of === 'bucket' || handler.of === 'keys')
        return handler.handle(request, bucket, context)
      }
      const answer = answered()
        .catch(() => {}) // the body is no document
        .finally(() => (isOver = true))
      for (let i = 0; i < 5; i++) await nextTurn()
      assert.ok(asked > 0)
      assert.deepEqual([isOver, body.wasTaken], [false, false])
      grant()
      await answer
      assert.equal(
        body.wasTaken,
        BODIES.some((each) => each === name),
      )
    })
  }

  it('asks for no more room than its body may be long, whatever it says', () => {
    assert.equal(completeBytes(5), 5)
    assert.equal(completeBytes(null), completeBytes(1e15))
    assert.equal(deletedBytes(null), deletedBytes(1e15))
    assert.ok(deletedBytes(5) < deletedBytes(1000))
  })
})
