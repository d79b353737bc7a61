/**
 * Colours and emphasis of text for people.
 *
 * S1  colour only on a terminal that has it, and never when NO_COLOR is set (https://no-color.org)
 * S2  what comes from a service is shown by `visible`: no byte of a record or a name moves the cursor of the terminal
 */
import { isUtf8 } from 'node:buffer'
import type { Environment } from '../config/settings.ts'

type Paint = (text: string) => string

export interface Style {
  readonly heading: Paint
  readonly good: Paint
  readonly bad: Paint
  readonly warning: Paint
  readonly quiet: Paint
}

const CODES = { heading: 1, bad: 31, good: 32, warning: 33, quiet: 2 } as const

const painting =
  (code: number): Paint =>
  (text) =>
    text === '' ? '' : `\u001b[${code}m${text}\u001b[0m`

const plain: Paint = (text) => text

export const PLAIN: Style = { heading: plain, good: plain, bad: plain, warning: plain, quiet: plain }

const COLOURED: Style = {
  heading: painting(CODES.heading),
  good: painting(CODES.good),
  bad: painting(CODES.bad),
  warning: painting(CODES.warning),
  quiet: painting(CODES.quiet),
}

/** S1 */
export function styleFor(stream: { readonly isTTY?: boolean }, env: Environment): Style {
  const wanted = (env['NO_COLOR'] ?? '') === '' && env['TERM'] !== 'dumb'
  return stream.isTTY === true && wanted ? COLOURED : PLAIN
}

/** S2 */
export const visible = (text: string): string =>
  text.replaceAll(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (character) => {
    const code = character.codePointAt(0)!.toString(16)
    return code.length > 4 ? `\\u{${code}}` : `\\u${code.padStart(4, '0')}`
  })

const SHOWN_BYTES_MAX = 200

/** What the bytes say in UTF-8; null: there are none, or they are no text. */
export function textOf(hex: string | null): string | null {
  if (hex === null) return null
  const bytes = Buffer.from(hex, 'hex')
  return isUtf8(bytes) ? bytes.toString('utf8') : null
}

/** Bytes as text where they are text, or else as hex digits. */
export function shownBytes(hex: string | null): string {
  if (hex === null) return ''
  const text = textOf(hex)
  const shown = text === null ? `0x${hex}` : visible(text)
  return shown.length <= SHOWN_BYTES_MAX ? shown : `${shown.slice(0, SHOWN_BYTES_MAX)}… (${hex.length / 2} bytes)`
}

export const shownTime = (ms: number | null): string => (ms === null ? '' : new Date(ms).toISOString())
