/** In plain JavaScript: a Node that cannot run the TypeScript of the rest is told so in one line. */
import { inspect } from 'node:util'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

/** @param {() => Promise<unknown>} load imports what is written in TypeScript; throws only what keeps that from starting */
export async function withTypeScript(load) {
  if (major > 22 || (major === 22 && minor >= 18)) {
    try {
      await import('./stripped-types.js') // by then we know that Node is new enough
      await load()
    } catch (error) {
      process.stderr.write(`the start failed: ${String(error).split('\n', 1)[0]}\n`)
      if (/^(debug|trace)$/i.test(process.env['TRILOG_LOG_LEVEL'] ?? '')) process.stderr.write(`${inspect(error)}\n`)
      process.exit(2) // whatever was opened before
    }
  } else {
    process.stderr.write(
      `trilog needs Node 22.18 or newer, this is ${process.versions.node}: run it with npm start, npm run or npx after npm ci without --omit=dev, which brings its own, or put Node 22.18 or newer into PATH\n`,
    )
    process.exitCode = 2
  }
}
