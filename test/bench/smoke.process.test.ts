import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { globSync } from 'node:fs'
import { test } from 'node:test'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('../..', import.meta.url))

for (const bench of globSync('bench/*.bench.ts', { cwd: root }).sort()) {
  test(`${bench} runs each of its cases once and prints what it measured with`, async () => {
    const child = spawn(process.execPath, [bench, '--smoke'], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    const [code] = await once(child, 'exit')
    assert.equal(code, 0, output)
    assert.match(output, new RegExp(process.version.replaceAll('.', '\\.')))
  })
}
