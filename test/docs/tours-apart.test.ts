/** A reader may follow all tours on one node: what one tour stores does not change the answers that another shows. */
import assert from 'node:assert/strict'
import { it } from 'node:test'
import { PAGES, blocksOf, document } from './markdown.ts'

/** Patterns of the names under which tours store. */
const NAMES = {
  dataset: /"service\.name","value":\{"stringValue":"([a-z]\w*)"|\$\(of (\w+)\)|'service\.name': '(\w+)'/g,
  trace: /\b([0-9a-f]{32})\b/g,
  bucket: /127\.0\.0\.1:9000\/([a-z]\w*)|s3 PUT \/([a-z]\w*)/g,
  stream: /\/v1\/streams\/([a-z]\w*)|broker PUT \/streams\/([a-z]\w*)/g,
} as const

it('no two tours store into the same dataset, trace, bucket or stream', () => {
  const pagesOf = new Map<string, Set<string>>()
  // docs/cluster.md has nodes of its own.
  for (const page of PAGES.filter((each) => each !== 'docs/cluster.md')) {
    const text = blocksOf(document(page), 'tour')
      .filter(({ language }) => language === 'sh' || language === 'js')
      .map((block) => block.text)
      .join('\n')
    for (const [kind, pattern] of Object.entries(NAMES)) {
      for (const [, ...names] of text.matchAll(pattern)) {
        const named = `${kind} ${names.find((name) => name !== undefined)}`
        pagesOf.set(named, (pagesOf.get(named) ?? new Set()).add(page))
      }
    }
  }
  assert.ok(pagesOf.has('dataset shop') && pagesOf.has('bucket photos') && pagesOf.has('stream orders'))
  const shared = Array.from(pagesOf, ([name, pages]) => [name, ...pages]).filter((each) => each.length > 2)
  assert.deepEqual(shared, [])
})
