/** In plain JavaScript: a Node that is too old to run the TypeScript of the rest is told so in one line. */
const [major = 0, minor = 0] = process.versions.node.split('.').map(Number)

/** @param {() => Promise<unknown>} load imports what is written in TypeScript */
export async function withTypeScript(load) {
  if (major > 22 || (major === 22 && minor >= 18)) {
    await import('./stripped-types.js') // by then we know that Node has what it needs
    await load()
  } else {
    process.stderr.write(
      `trilog needs Node 22.18 or newer, this is ${process.versions.node}: run it with npm start, npm run or npx after npm ci, which brings its own\n`,
    )
    process.exitCode = 2
  }
}
