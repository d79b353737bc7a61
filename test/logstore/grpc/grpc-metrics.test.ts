import assert from 'node:assert/strict'
import { connect } from 'node:http2'
import { test } from 'node:test'
import { EXPORT_METHODS } from '../../../src/logstore/grpc/export-methods.ts'
import { refusal } from '../../../src/logstore/refusals.ts'
import { DEVELOPMENT_TENANT, DEVELOPMENT_TOKEN } from '../../../src/logstore/tenants/tenant-policy-file.ts'
import { eventually } from '../../support/waiting.ts'
import { GrpcRig, acceptedBatch, exportOnce, metadataOf } from './grpc-rig.ts'

const MESSAGE = Buffer.from('not looked at before the decode lane')
const { path } = EXPORT_METHODS[0]!

test('the metrics hear of each call once: answered, refused, or given up by its client', async () => {
  const rig = await GrpcRig.start()
  const client = rig.client()
  rig.ingest.answer = ({ client: batch }) => batch.accepted(acceptedBatch(1))
  await exportOnce(client, MESSAGE)
  await exportOnce(client, MESSAGE, metadataOf(null, 'Bearer x'))
  rig.ingest.answer = ({ client: batch }) => batch.refused(refusal('wal_unavailable', 'nothing was stored', 5))
  await exportOnce(client, MESSAGE)
  const session = connect(`http://127.0.0.1:${rig.front.port}`)
  session.on('error', () => {})
  const request = session.request({
    ':method': 'POST',
    ':path': path,
    'content-type': 'application/grpc',
    te: 'trailers',
    'x-logstore-tenant': DEVELOPMENT_TENANT,
    authorization: `Bearer ${DEVELOPMENT_TOKEN}`,
  })
  request.on('error', () => {})
  request.write(Buffer.alloc(1)) // a part of the head of a message
  await eventually(() => rig.ingest.slots.taken === 1)
  session.destroy()
  await eventually(() => rig.ended.length === 4)
  assert.deepEqual(rig.ended, [
    [path, 200, MESSAGE.byteLength],
    [path, 400, 0],
    [path, 500, MESSAGE.byteLength],
    [path, 0, 0],
  ])
  await rig.close()
})
