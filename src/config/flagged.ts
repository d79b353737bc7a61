/** Settings of the broker that are also flags of `mq`. */
import type { Setting } from './settings.ts'

export interface BrokerSetting<T> extends Setting<T> {
  /** Name on the command line, and name of its value, as in `--data-dir <PATH>`. */
  readonly flag: string
  readonly valueName: string
  /** Whether the flag may be repeated: its values become the variable's, separated by commas. */
  readonly repeatable: boolean
}

export function flagged<T>(shown: string, setting: Setting<T>, { repeatable = false } = {}): BrokerSetting<T> {
  const [flag = '', valueName = ''] = shown.split(' ')
  return { ...setting, flag, valueName, repeatable }
}
