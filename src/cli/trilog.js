/** Entry point of `trilog`. */
import { onSupportedNode } from '../node-version.js'

await onSupportedNode(async () => {
  const { runTrilog } = await import('./run-trilog.ts')
  await runTrilog(process.argv.slice(2))
})
