/** Stores 1, 2, 3, … for activation `a` in the directory of its argument, and tells its parent each number that is acknowledged. */
import assert from 'node:assert/strict'
import { EndpointHelper } from '../../src/endpoint-helper/endpoint-helper.ts'

const [directory] = process.argv.slice(2)
assert(directory)
const helper = await EndpointHelper.open({
  directory,
  logger: { info: assert.fail, warn: assert.fail, error: assert.fail },
})
for (let n = 1; ; n++) {
  await helper.store({ activationId: 'a', object: String(n) })
  process.send?.(n)
}
