/** The documents as data that tests compare with the code. */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

export const root = fileURLToPath(new URL('../..', import.meta.url))

export const document = (name: string): string => readFileSync(`${root}/${name}`, 'utf8')

/** The pages that users read. */
export const PAGES: readonly string[] = ['README.md', ...globSync('docs/*.md', { cwd: root }).sort()]

/** What developers look up. */
export const DEVELOPER_PAGES: readonly string[] = globSync('docs/notes/*.md', { cwd: root }).sort()

/** All pages in one text, so that a table is found by its heading on any page. */
export const handbook = (): string => PAGES.map(document).join('\n')

/** A fenced block: ```` ```<language> <mark> ````. */
export interface Block {
  readonly language: string
  readonly text: string
}

/** The blocks with a mark, in order. */
export function blocksOf(text: string, mark: string): readonly Block[] {
  const fences = text.matchAll(/^```(\w+) (\w+)\n([^]*?)^```$/gm)
  return Array.from(fences, ([, language, given, content]) => ({ given, language: language!, text: content! })).filter(
    ({ given }) => given === mark,
  )
}

/** The rows of the first table below a heading, without its head; cells as they are written. */
export function tableOf(text: string, heading: string): readonly (readonly string[])[] {
  const section = text.split(/^#+ /m).find((each) => each.startsWith(`${heading}\n`)) ?? ''
  const lines = section.split('\n').filter((line) => line.startsWith('|'))
  return lines.slice(2).map((line) =>
    line
      .slice(1, -1)
      .split('|')
      .map((cell) => cell.trim()),
  )
}

/** A cell that is one piece of code, without its backticks. */
export const codeOf = (cell: string | undefined): string => /^`(.*)`$/.exec(cell ?? '')?.[1] ?? `not code: ${cell}`
