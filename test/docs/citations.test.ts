import assert from 'node:assert/strict'
import { globSync } from 'node:fs'
import { basename } from 'node:path'
import { describe, it } from 'node:test'
import { document, root } from './markdown.ts'

/** Names that look like labels: Amazon's store, and the engine of Node. */
const NAMES = new Set(['S3', 'V8'])

const PATHS = globSync('{src,workers,native-free-codecs}/**/*.ts', { cwd: root }).sort()
/** By file: the labels that its head defines, as in ` * J1  what always holds`. */
const LABELS = new Map(PATHS.map((path) => [path, new Set(document(path).match(/(?<=^ \* +)[A-Z]\d+(?= +\S)/gm))]))
const NAMED = Map.groupBy(PATHS, (path) => basename(path, '.ts'))

const LABEL = /(?<![\w./-])[A-Z]\d{1,2}(?![\w-])/g
/** A comment: `/** …` over any number of lines, or `// …`. */
const COMMENT = /\/\*\*[^]*?\*\/|(?<=^|\s)\/\/ .*/g
/** Files that a comment names: `journal.ts` anywhere, and `journal` or `History` right before a label. */
const FILE = /[\w-]+(?=\.ts\b)|[\w-]+(?= \(?[A-Z]\d)/g

const filesIn = (comment: string): readonly string[] =>
  (comment.match(FILE) ?? []).flatMap((name) => NAMED.get(name.toLowerCase()) ?? [])

function unknownIn(path: string): string[] {
  const comments = document(path).match(COMMENT) ?? []
  const nearby = [path, ...filesIn(comments[0] ?? '')]
  return comments.flatMap((comment) => {
    const files = [...nearby, ...filesIn(comment)]
    const isKnown = (label: string): boolean => NAMES.has(label) || files.some((file) => LABELS.get(file)!.has(label))
    return (comment.match(LABEL) ?? []).filter((label) => !isKnown(label)).map((label) => `${path}: ${label}`)
  })
}

describe('a numbered invariant that a comment cites', () => {
  it('is in the head of the file itself, or of a file that the comment or the head names', () => {
    assert.deepEqual(PATHS.flatMap(unknownIn), [])
  })
})
