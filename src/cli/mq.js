/** Entry point of `mq`, the broker's command. */
import { onSupportedNode } from '../node-version.js'

await onSupportedNode(async () => {
  const { runMq } = await import('./run-mq.ts')
  await runMq(process.argv.slice(2))
})
