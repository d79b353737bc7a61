import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { copyFileSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, it } from 'node:test'
import { temporaryDirectory } from './support/directories.ts'

const HOOKS = join(import.meta.dirname, '../src/stripped-types.js')

/** A package of its own with the hooks in it. */
class Package {
  readonly root = temporaryDirectory()
  readonly cached = join(this.root, 'node_modules/.cache/trilog/src/main.ts.js')

  constructor() {
    this.write('package.json', '{ "type": "module" }')
    mkdirSync(join(this.root, 'src'))
    copyFileSync(HOOKS, join(this.root, 'src/stripped-types.js'))
    copyFileSync(join(HOOKS, '../strip-types.js'), join(this.root, 'src/strip-types.js'))
    this.write('src/main.ts', "const answer: string = 'first'\nconsole.log(answer satisfies string)\n")
  }

  write(name: string, text: string): void {
    const path = join(this.root, name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }

  /** What `src/main.ts` says. */
  run(): string {
    const flags = ['--import', './src/stripped-types.js', 'src/main.ts']
    const env = { ...process.env, NODE_V8_COVERAGE: '' } // with which nothing is kept compiled
    const { stdout, stderr } = spawnSync(process.execPath, flags, { cwd: this.root, env, encoding: 'utf8' })
    assert.equal(stderr, '')
    return stdout.trim()
  }
}

describe('sources without types', () => {
  it('are kept, every character at its place, and run from there the next time', () => {
    const one = new Package()
    assert.equal(one.run(), 'first')
    const kept = readFileSync(one.cached, 'utf8')
    assert.ok(kept.startsWith("const answer         = 'first'\nconsole.log(answer                 )\n"))
    writeFileSync(one.cached, kept.replace('first', 'cache'))
    assert.equal(one.run(), 'cache')
  })

  it('are kept compiled, beside it', () => {
    const one = new Package()
    one.run()
    assert.notEqual(readdirSync(join(one.root, 'node_modules/.cache/trilog/compiled'), { recursive: true }).length, 0)
  })

  it('are made again when the source is another', () => {
    const one = new Package()
    one.run()
    one.write('src/main.ts', 'const answer: number = 2\nconsole.log(answer)\n')
    assert.equal(one.run(), '2')
    assert.equal(one.run(), '2')
  })

  it('are made again when only half of one was kept', () => {
    const one = new Package()
    one.run()
    writeFileSync(one.cached, readFileSync(one.cached, 'utf8').slice(0, 40))
    assert.equal(one.run(), 'first')
  })

  it('are used without being kept where nothing can be written', () => {
    const one = new Package()
    one.write('node_modules/.cache', 'a file, where the directory would be')
    assert.equal(one.run(), 'first')
    assert.equal(one.run(), 'first')
  })

  it('tell of an error at the line of the source', () => {
    const one = new Package()
    one.write('src/main.ts', "console.log('begins')\nthrow new Error('at line two')\n")
    const { stderr } = spawnSync(process.execPath, ['--import', './src/stripped-types.js', 'src/main.ts'], {
      cwd: one.root,
      encoding: 'utf8',
    })
    assert.match(stderr, /src\/main\.ts:2/)
  })
})
