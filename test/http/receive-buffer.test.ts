import assert from 'node:assert/strict'
import { it } from 'node:test'
import { limitReceiveBuffer } from '../../src/http/receive-buffer.ts'

it('the receive buffer is left as it is where the kernel does not show open files', () => {
  limitReceiveBuffer(1, '/nowhere/fd')
  assert.throws(() => limitReceiveBuffer(1), /not among the open files/)
})
