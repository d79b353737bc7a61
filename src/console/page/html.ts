/** Elements from templates, as `htm` reads them: no build step stands between this source and the browser. */
import htm from 'htm'
import { h } from 'preact'
import type { VNode } from 'preact'

/** A template has one root element here, so there is one node. */
export const html = htm.bind(h) as (strings: TemplateStringsArray, ...values: unknown[]) => VNode
