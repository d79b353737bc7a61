/** Settings as the help of a command shows them. */
import type { Setting } from '../config/settings.ts'
import { columns } from './columns.ts'

/** For each setting a line with its names and its default, and a line with its meaning. */
export function settingLines(
  settings: readonly (readonly [names: readonly string[], setting: Setting<unknown>])[],
): readonly string[] {
  const heads = columns(settings.map(([names, setting]) => [`  ${names[0]}`, ...names.slice(1), shownDefault(setting)]))
  return settings.flatMap(([, { description }], index) => [heads[index]!, `      ${description.replaceAll('`', '')}`])
}

/** As in the documents. */
function shownDefault({ default: fallback }: Setting<unknown>): string {
  if (fallback === undefined) return 'unset'
  return fallback === '' ? 'empty' : fallback
}
