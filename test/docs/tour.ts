/** Runs the blocks of a document's tour like a reader would, and compares their output with what the document shows. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { text } from 'node:stream/consumers'
import { temporaryDirectory } from '../support/directories.ts'
import { root } from './markdown.ts'
import type { Block } from './markdown.ts'
import { entryFile } from '../support/entry.ts'

const BLOCK_END = '-- end of block --'

/** Replaces curl on machines without it. Knows the options that the pages use. */
const CURL_STAND_IN = `
const { positionals, values } = require('node:util').parseArgs({ allowPositionals: true, options: {
  silent: { type: 'boolean', short: 's' }, 'show-error': { type: 'boolean', short: 'S' }, request: { type: 'string', short: 'X' },
  data: { type: 'string', short: 'd' }, 'data-binary': { type: 'string' }, header: { type: 'string', short: 'H', multiple: true },
  include: { type: 'boolean', short: 'i' }, head: { type: 'boolean', short: 'I' }, range: { type: 'string', short: 'r' } } })
const headers = (values.header ?? []).map((header) => header.split(/: (.*)/s).slice(0, 2))
if (values.range !== undefined) headers.push(['range', 'bytes=' + values.range])
const data = values['data-binary'] === '@-' ? require('node:fs').readFileSync(0) : values.data
const method = values.request ?? (values.head ? 'HEAD' : data === undefined ? 'GET' : 'POST')
fetch(positionals[0], { method, headers, body: method === 'GET' ? undefined : data })
  .then(async (response) => {
    const lines = [...response.headers].map((header) => header.join(': '))
    const head = ['HTTP/1.1 ' + response.status + ' ' + response.statusText, ...lines, '', ''].join('\\r\\n')
    process.stdout.write((values.include || values.head ? head : '') + (await response.text()))
  })
`
const PREAMBLE = `
command -v curl > /dev/null || curl() { '${process.execPath}' -e '${CURL_STAND_IN.replaceAll("'", `'\\''`)}' -- "$@"; }
npx() { command="$1"; shift; '${process.execPath}' "${dirname(entryFile('src/cli/mq.js'))}/$command.js" "$@"; }
`

/** Runs a script in a shell that stops at the first failure. @returns its output */
export async function shell(script: string, directory: string): Promise<string> {
  const child = spawn('sh', ['-e'], { cwd: directory, stdio: ['pipe', 'pipe', 'pipe'] })
  child.stdin.end(script)
  const [stdout, stderr, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')])
  assert.equal(code, 0, `${stdout}\n${stderr}`)
  assert.equal(stderr, '')
  return stdout
}

/** Asserts that a step printed what the block behind it shows. */
function assertPrinted(printed: string, shown: Block, where: string): void {
  switch (shown.language) {
    case 'json':
      return assertShown(JSON.parse(printed), JSON.parse(shown.text), where)
    case 'xml':
      return assert.match(withoutIndents(printed), shownPattern(withoutIndents(shown.text)), where)
    case 'text':
      return assert.match(printed.trim(), shownPattern(shown.text.trim()), where)
    case 'http': {
      const lines = printed.split(/\r?\n/)
      for (const line of shown.text.trim().split('\n')) {
        const pattern = shownPattern(line)
        assert.ok(
          lines.some((each) => pattern.test(each)),
          `${where}\n${line}\nis not in\n${printed}`,
        )
      }
      return
    }
    default:
      assert.fail(`a block of ${shown.language} shows nothing that can be compared`)
  }
}

/** XML on one line: pages show it on several lines. */
const withoutIndents = (xml: string): string => xml.replaceAll(/>\s+</g, '><').trim()

/** Matches the text, where … stands for anything without a quote, a tag or the end of a line. Headers match in any case. */
export const shownPattern = (text: string): RegExp =>
  new RegExp(`^${text.split('…').map(escaped).join('[^"<\\n]*')}$`, /^[\w-]+: /.test(text) ? 'i' : '')

const escaped = (text: string): string => text.replaceAll(/[.*+?^${}()|[\]\\]/g, '\\$&')

/** Asserts that the value has everything shown. A string that ends in … shows only the beginning. */
function assertShown(value: unknown, shown: unknown, where: string): void {
  if (typeof shown === 'string' && shown.endsWith('…')) {
    assert.ok(typeof value === 'string' && value.startsWith(shown.slice(0, -1)), where)
  } else if (typeof shown === 'object' && shown !== null) {
    assert.ok(typeof value === 'object' && value !== null, where)
    if (Array.isArray(shown)) assert.equal((value as unknown[]).length, shown.length, where)
    for (const [name, member] of Object.entries(shown)) {
      assertShown((value as Record<string, unknown>)[name], member, `${where}.${name}`)
    }
  } else {
    assert.equal(value, shown, where)
  }
}

/**
 * Runs the blocks of a tour one after the other, in one shell. A block of data behind a step shows the output of that step.
 *
 * @returns the steps and the output of each
 */
export async function runTour(
  blocks: readonly Block[],
): Promise<{ readonly steps: readonly Block[]; readonly outputs: readonly string[] }> {
  const directory = temporaryDirectory()
  const steps = blocks.filter(({ language }) => language === 'sh' || language === 'js')
  const script = steps.map((step, number) => {
    if (step.language === 'sh') return step.text
    const file = `${directory}/${number}.mjs`
    writeFileSync(file, step.text)
    return `(cd '${root}' && '${process.execPath}' --conditions=trilog-sources --input-type=module < '${file}')`
  })
  const outputs = (await shell(PREAMBLE + script.join(`\necho '${BLOCK_END}'\n`), directory)).split(`${BLOCK_END}\n`)

  assert.equal(outputs.length, steps.length)
  for (const [number, step] of steps.entries()) {
    const shown: Block | undefined = blocks[blocks.indexOf(step) + 1]
    if (shown !== undefined && !steps.includes(shown)) assertPrinted(outputs[number]!, shown, step.text)
  }
  return { steps, outputs }
}
