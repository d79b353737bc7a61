/** Copies the log of another node. A failure of that node is returned as a result: the caller asks the next node. */
import { copyLog } from '../src/cluster/catch-up/copy.ts'
import type { RemoteLog } from '../src/cluster/catch-up/copy.ts'
import type { CopyOutcome, CopyTask } from '../src/cluster/catch-up/log-copy.ts'
import { pacedFiles } from '../src/cluster/catch-up/paced-files.ts'
import { RemoteNode } from '../src/cluster/catch-up/remote.ts'
import { StoreError } from '../src/errors.ts'
import { nodeFiles } from '../src/log/node-files.ts'
import { lowerPriority, yieldCore } from '../src/pipeline/niceness.ts'

// Other services of this machine answer clients meanwhile.
lowerPriority()

const checked = pacedFiles(nodeFiles, {
  nowMs: () => performance.now(),
  waitMs: yieldCore,
})

export default async function run({ service, url, secret, ca, ...log }: CopyTask): Promise<CopyOutcome> {
  const node = new RemoteNode({ url, secret, ca })
  const source = node.logOf(service)
  let bytes = 0
  const remote: RemoteLog = {
    list: () => source.list(),
    async read(...asked) {
      const piece = await source.read(...asked)
      bytes += piece?.byteLength ?? 0
      return piece
    },
  }
  try {
    const listing = await copyLog({ ...log, files: nodeFiles, checked, remote })
    return { bytes, listing }
  } catch (error) {
    if (!(error instanceof StoreError)) throw error
    return { bytes, kind: error.kind, code: error.code, problem: error.message }
  } finally {
    node.close()
  }
}
