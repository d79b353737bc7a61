/** What promtool says of `deploy/alerts.yml`, and of the cases beside it. */
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { it } from 'node:test'
import { root } from './markdown.ts'

const isThere = spawnSync('promtool', ['--version']).status === 0
const HINT = 'go install github.com/prometheus/prometheus/cmd/promtool@latest'

for (const [what, file] of [
  ['check', 'alerts.yml'],
  ['test', 'alerts.test.yml'],
] as const) {
  const name = `promtool ${what} rules finds nothing wrong with deploy/${file}`
  it(isThere ? name : `${name} (skipped: no promtool, run \`${HINT}\`)`, { skip: !isThere }, () => {
    const { status, stdout, stderr } = spawnSync('promtool', [what, 'rules', file], {
      cwd: `${root}/deploy`,
      encoding: 'utf8',
    })
    assert.equal(status, 0, `${stdout}\n${stderr}`)
    assert.match(`${stdout}${stderr}`, /SUCCESS/)
  })
}
