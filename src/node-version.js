/** Plain JavaScript, so that a Node too old to run TypeScript can load it and say in one line what is missing. */
import { inspect } from 'node:util'

const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

/** @param {() => Promise<void>} start loads and runs the program; it throws only what keeps the program from starting */
export async function onSupportedNode(start) {
  if (major < 22 || (major === 22 && minor < 18)) {
    process.stderr.write(
      `trilog needs Node 22.18 or newer, this is ${process.versions.node}: in a checkout use npm start, npm run or npx after npm ci without --omit=dev, which brings its own Node; elsewhere put Node 22.18 or newer into PATH\n`,
    )
    process.exitCode = 2
    return
  }
  try {
    await start()
  } catch (error) {
    process.stderr.write(`the start failed: ${String(error).split('\n', 1)[0]}\n`)
    if (/^(debug|trace)$/i.test(process.env['TRILOG_LOG_LEVEL'] ?? '')) process.stderr.write(`${inspect(error)}\n`)
    process.exit(2) // a part of the program may be open and would keep the process alive
  }
}
