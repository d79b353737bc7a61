/** Entry point of `npm start`: `trilog start`. */
import { onSupportedNode } from './node-version.js'

await onSupportedNode(async () => {
  const { runTrilog } = await import('./cli/run-trilog.ts')
  await runTrilog(['start', ...process.argv.slice(2)])
})
