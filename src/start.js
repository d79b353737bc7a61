/**
 * Entry point of `npm start`, in plain JavaScript: a Node that is too old to run the TypeScript of the rest is told so in one line.
 */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

if (major > 22 || (major === 22 && minor >= 18)) {
  await import('./main.ts')
} else {
  process.stderr.write(
    `trilog needs Node 22.18 or newer, this is ${process.versions.node}: run it with npm start after npm ci, which brings its own\n`,
  )
  process.exitCode = 2
}
