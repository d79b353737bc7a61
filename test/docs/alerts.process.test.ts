/** promtool checks `deploy/alerts.yml`, and runs the cases beside it. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { root } from './markdown.ts'
import { promtool, promtoolOrSkip } from './promtool.ts'

for (const [what, file] of [
  ['check', 'alerts.yml'],
  ['test', 'alerts.test.yml'],
] as const) {
  const { name, skip } = promtoolOrSkip(`promtool ${what} rules finds nothing wrong with deploy/${file}`)
  it(name, { skip }, () => {
    assert.match(promtool([what, 'rules', `${root}/deploy/${file}`]), /SUCCESS/)
  })
}
