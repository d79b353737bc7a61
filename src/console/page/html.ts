/**
 * Elements from templates, as `htm` reads them: no build step stands between this source and the browser.
 *
 * htm drops white space that has a line break in it, which takes the space between a word and a link that the formatter put on the next line:
 * here it counts as a space, as in HTML, wherever a word is beside it.
 */
import htm from 'htm'
import { h } from 'preact'
import type { VNode } from 'preact'

type Template = (strings: TemplateStringsArray, ...values: unknown[]) => VNode

/** A template has one root element here, so there is one node. */
const bound = htm.bind(h) as Template

/** htm knows a template by the identity of its strings. */
const known = new WeakMap<TemplateStringsArray, TemplateStringsArray>()

export const html: Template = (strings, ...values) => {
  let spaced = known.get(strings)
  if (spaced === undefined) {
    spaced = Object.assign(strings.map(withSpaces), { raw: strings.raw })
    known.set(strings, spaced)
  }
  return bound(spaced, ...values)
}

/** Beside a word, and between a value and an element that stands in a line. */
const BREAKS =
  /(?<=[^<>\s])\s*\n\s*|\s*\n\s*(?=[^<>\s])|(?<=<\/(?:a|code|kbd|span|strong|time)>)\s*\n\s*(?=$|<(?:a|code|kbd|span|strong|time)\b)|^\s*\n\s*(?=<(?:a|code|kbd|span|strong|time)\b)/g

const withSpaces = (text: string): string => text.replaceAll(BREAKS, ' ')
