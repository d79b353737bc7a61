/**
 * Settings from environment variables: a table of them is the schema. It gives the values their types, checks them, and documents
 * them; `readSettings` is the only reader of the environment, and tells every bad one at once, in one line.
 */
import { isIP } from 'node:net'
import { resolve } from 'node:path'
import { addressBlock, canonicalAddress } from '../addresses.ts'
import type { AddressBlock } from '../addresses.ts'
import { StoreError } from '../errors.ts'
import { withoutUrlSecrets } from '../url-secrets.ts'

/** One setting. `parse` throws a BadSetting that says what is expected, without the name. */
export interface Setting<T> {
  readonly description: string
  /** As an operator would write it; undefined: unset is a value of its own. */
  readonly default: string | undefined
  /** Whether an empty string is parsed instead of counting as unset. */
  readonly emptyIsValue: boolean
  /** Its value is a secret, which nothing shows. */
  readonly isSecret: boolean
  parse(text: string): T
}

export type SettingsTable = Readonly<Record<string, Setting<unknown>>>
export type SettingsOf<Table extends SettingsTable> = {
  readonly [Name in keyof Table]: Table[Name] extends Setting<infer T> ? T : never
}

export type Environment = Readonly<Record<string, string | undefined>>

export interface BindAddress {
  readonly host: string
  /** 0 picks a free port. */
  readonly port: number
}

class BadSetting extends Error {}

/** A check needs the value of a setting that has a mistake of its own. */
class NotReadable extends Error {}

/** The start cannot work. The message is one line. */
export class BadConfiguration extends StoreError {
  /** One sentence each, which begins with the name of the setting. */
  readonly problems: readonly string[]

  constructor(problems: readonly string[]) {
    super('invalid', 'bad_configuration', problems.join('; '))
    this.problems = problems
  }
}

/** What is wrong with the settings of one service; a check of several settings together adds to it. */
export class SettingProblems {
  /** A set, as several services may have the same problem. */
  readonly #problems = new Set<string>()
  readonly #shown: (name: string) => string

  /** @param shown how the operator knows a setting: by its flag, for example */
  constructor(shown: (name: string) => string = (name) => name) {
    this.#shown = shown
  }

  /** @param sentence continues the name: 'must be …' */
  add(name: string, sentence: string): void {
    this.#problems.add(withoutUrlSecrets(`${this.#shown(name)} ${sentence}`))
  }

  /**
   * Judges settings together. A check ends where it needs a value with a mistake, as it cannot say more; so each check has a call of its own.
   *
   * @returns null: it needed a value with a mistake
   */
  check<T>(judge: () => T): T | null {
    try {
      return judge()
    } catch (error) {
      if (error instanceof NotReadable) return null
      throw error
    }
  }

  /**
   * Takes the problems of other settings, so that all are told at once.
   *
   * @param load throws BadConfiguration
   * @returns null: it threw
   */
  collect<T>(load: () => T): T | null {
    try {
      return load()
    } catch (error) {
      if (!(error instanceof BadConfiguration)) throw error
      for (const problem of error.problems) this.#problems.add(problem)
      return null
    }
  }

  /** @throws BadConfiguration with every problem */
  throwIfAny(): void {
    if (this.#problems.size > 0) throw new BadConfiguration([...this.#problems])
  }
}

/** Reads every setting of the table. Code that takes the value of a bad one must be within `SettingProblems.check`, or behind `throwIfAny`. */
export function readSettings<Table extends SettingsTable>(
  table: Table,
  env: Environment,
  problems: SettingProblems,
): SettingsOf<Table> {
  const values: Record<string, unknown> = {}
  for (const [name, setting] of Object.entries(table)) {
    const text = textOf(setting, env[name])
    try {
      values[name] = text === undefined ? null : setting.parse(text)
    } catch (error) {
      if (!(error instanceof BadSetting)) throw error
      problems.add(name, error.message)
      const get = (): never => {
        throw new NotReadable(`${name} has a mistake`)
      }
      Object.defineProperty(values, name, { get, enumerable: true })
    }
  }
  return values as SettingsOf<Table> // each parsed by the setting of its name
}

export type SettingSource = 'flag' | 'environment' | 'file' | 'default'

/** Where the value of a setting comes from; flags win over variables, variables over the file. */
export function sourceOf(
  name: string,
  setting: Setting<unknown>,
  env: Environment,
  flags: Environment,
  file: Environment = {},
): SettingSource {
  if (isGiven(setting, flags[name])) return 'flag'
  if (isGiven(setting, env[name])) return 'environment'
  return isGiven(setting, file[name]) ? 'file' : 'default'
}

/** The text of a setting: what was given, or else its default. */
export function textOf(setting: Setting<unknown>, given: string | undefined): string | undefined {
  return isGiven(setting, given) ? given.trim() : setting.default
}

/** True when the text of a setting is a value, so that its default is not needed. */
export function isGiven(setting: Setting<unknown>, text: string | undefined): text is string {
  return text !== undefined && (text.trim() !== '' || setting.emptyIsValue)
}

/** Variables that look like this service's and are none of its settings: misspelt, or of another version. */
export function unknownSettings(table: SettingsTable, prefix: string, env: Environment): readonly string[] {
  return Object.keys(env).filter((name) => name.startsWith(prefix) && !(name in table))
}

interface Given<Default = string> {
  readonly description: string
  readonly default?: Default | undefined
}

function setting<T>(given: Given, parse: (text: string) => T): Setting<T> {
  return { description: given.description, default: given.default, emptyIsValue: false, isSecret: false, parse }
}

/** A setting without a default: null when unset. */
export function optional<T>(inner: Setting<T>): Setting<T | null> {
  return { ...inner, default: undefined }
}

/** A setting whose value is never shown. */
export function secret<T>(inner: Setting<T>): Setting<T> {
  return { ...inner, isSecret: true }
}

/** @param read returns null for what is not `expected`: 'must be …' */
export function readAs<T>(given: Given, expected: string, read: (text: string) => T | null): Setting<T> {
  return setting(given, (value) => {
    const found = read(value)
    if (found !== null) return found
    throw new BadSetting(expected)
  })
}

/** A setting whose empty value is an error of its own rather than the same as unset. */
export function nonEmptyWhenSupplied<T>(inner: Setting<T>): Setting<T> {
  return {
    ...inner,
    emptyIsValue: true,
    parse(text) {
      if (text === '') throw new BadSetting('must not be empty when it is supplied')
      return inner.parse(text)
    },
  }
}

export function text(given: Given): Setting<string> {
  return setting(given, (value) => value)
}

/** A text that is shown to people and in answers. */
export function label(given: Given & { readonly charactersMax: number }): Setting<string> {
  const { charactersMax } = given
  return readAs(given, `must be at most ${charactersMax} characters, none of them a control character`, (value) =>
    value.length <= charactersMax && !/\p{Cc}/u.test(value) ? value : null,
  )
}

/** A region, as it stands between the slashes of a signature's scope. */
export function region(given: Given): Setting<string> {
  return readAs(given, 'must be a region, as in us-east-1: 1 to 64 letters, digits and hyphens', (value) =>
    /^[a-z0-9-]{1,64}$/i.test(value) ? value : null,
  )
}

/** An absolute path, from one that may be relative to the working directory. */
export function path(given: Given): Setting<string> {
  return setting(given, (value) => resolve(value))
}

/** Absolute paths, from a comma-separated list. */
export function paths(given: Given): Setting<readonly string[]> {
  return setting(given, (value) => entriesOf(value).map((each) => resolve(each)))
}

/** Names and addresses, from a comma-separated list: in lower case, addresses in their canonical form. */
export function hosts(given: Given): Setting<readonly string[]> {
  return setting(given, (value) =>
    entriesOf(value).map((each) => {
      const host = canonicalAddress(each.replace(/^\[(.*)\]$/, '$1')) ?? each.toLowerCase()
      if (isIP(host) !== 0 || (host.length <= 253 && HOST_NAME.test(host))) return host
      throw new BadSetting('must be a comma-separated list of host names and addresses, without ports')
    }),
  )
}

/** Addresses and blocks of them, from a comma-separated list. */
export function addressBlocks(given: Given): Setting<readonly AddressBlock[]> {
  return setting(given, (value) =>
    entriesOf(value).map((each) => {
      const block = addressBlock(each)
      if (block !== null) return block
      throw new BadSetting(
        'must be a comma-separated list of addresses and CIDR blocks, as in 10.0.0.1,10.1.0.0/16,::1',
      )
    }),
  )
}

/** Headers that say who the caller is: `tenant=X,principal=Y,permissions=Z`. */
export function identityHeaders(given: Given): Setting<Readonly<Record<IdentityPart, string>>> {
  return setting(given, (value) => {
    const entries = entriesOf(value).map((each) => each.split('=', 2))
    const headers = IDENTITY_PARTS.map((part) => {
      const named = entries.find(([name]) => name === part)
      return [part, named?.[1]?.toLowerCase() ?? ''] as const
    })
    const names = new Set(headers.map(([, name]) => name))
    const isUsable = entries.length === headers.length && names.size === headers.length
    const areNames = headers.every(([, name]) => HEADER_NAME.test(name))
    if (isUsable && areNames) return Object.fromEntries(headers) as Record<IdentityPart, string> // one for each
    throw new BadSetting('must be tenant=<header>,principal=<header>,permissions=<header>, three different ones')
  })
}

type IdentityPart = (typeof IDENTITY_PARTS)[number]
const IDENTITY_PARTS = ['tenant', 'principal', 'permissions'] as const
const HEADER_NAME = /^[!#$%&'*+.^_`|~0-9a-z-]+$/

export const entriesOf = (list: string): readonly string[] =>
  list
    .split(',')
    .map((each) => each.trim())
    .filter((each) => each !== '')

export function oneOf<const Value extends string>(values: readonly Value[], given: Given): Setting<Value> {
  return readAs(given, `must be ${values.join(' or ')}`, (value) => values.find((each) => each === value) ?? null)
}

/** Some of several words, from a comma-separated list. */
export function someOf<const Value extends string>(
  values: readonly Value[],
  given: Given,
): Setting<ReadonlySet<Value>> {
  return readAs(given, `must be a comma-separated list of: ${values.join(', ')}`, (value) => {
    const words = entriesOf(value)
    const chosen = new Set(values.filter((each) => words.includes(each)))
    return words.every((word) => values.some((each) => each === word)) ? chosen : null
  })
}

/** At least one of several words. */
export function oneOrMoreOf<const Value extends string>(
  values: readonly Value[],
  given: Given,
): Setting<ReadonlySet<Value>> {
  const inner = someOf(values, given)
  return {
    ...inner,
    parse(text) {
      const chosen = inner.parse(text)
      if (chosen.size === 0) throw new BadSetting(`must name at least one of: ${values.join(', ')}`)
      return chosen
    },
  }
}

export function flag(given: Given): Setting<boolean> {
  return readAs(given, 'must be 1 or 0', (value) => {
    const word = value.toLowerCase() // OpenTelemetry takes `true` and `false` in any case
    if (word === '1' || word === 'true') return true
    return word === '0' || word === 'false' ? false : null
  })
}

/** Labels of letters, digits and hyphens, with dots between them. */
const DOMAIN = /^[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*$/

/** Underscores are no part of domain names, but of the names that containers have. */
const HOST_NAME = /^[a-z0-9_](?:[a-z0-9_.-]*[a-z0-9_])?$/

/** A part of all: `off` is 0, `all` is 1. */
export function share(given: Given): Setting<number> {
  return readAs(given, 'must be off, all, or a share from 0 to 1, as in 0.01', (value) => {
    const number = value === 'off' ? 0 : value === 'all' ? 1 : /^[01]?\.?[0-9]{1,9}$/.test(value) ? Number(value) : NaN
    return number >= 0 && number <= 1 ? number : null
  })
}

/** A probability as OpenTelemetry writes it: any decimal number. */
export function ratio(given: Given): Setting<number> {
  return readAs(given, 'must be a number from 0 to 1, as in 0.01', (value) => {
    const number = /^[0-9]*\.?[0-9]+(e-?[0-9]+)?$/i.test(value) ? Number(value) : NaN
    return number >= 0 && number <= 1 ? number : null
  })
}

type Bounds = { readonly min: number; readonly max: number }

export function integer(given: Given<number> & Bounds): Setting<number> {
  return setting({ ...given, default: given.default?.toString() }, (value) => integerWithin(value, given, ''))
}

/** A bound that can be lifted: `none` is Infinity. */
export function limit(given: Given<number | 'none'> & Bounds): Setting<number> {
  return setting({ ...given, default: given.default?.toString() }, (value) =>
    value === 'none' ? Infinity : integerWithin(value, given, ', or none for no limit'),
  )
}

function integerWithin(value: string, { min, max }: Bounds, suffix: string): number {
  const number = /^[0-9]{1,15}$/.test(value) ? Number(value) : NaN
  if (number >= min && number <= max) return number
  throw new BadSetting(`must be a whole number from ${min} to ${max}${suffix}`)
}

/** `host:port`, an IPv6 host in brackets. */
export function bindAddress(given: Given): Setting<BindAddress> {
  return readAs(given, 'must be host:port, as in 127.0.0.1:8080 or [::1]:8080', (value) => {
    const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:[\]/\s]+)):([0-9]{1,5})$/.exec(value) ?? []
    const host = bracketed ?? plain
    const port = Number(digits)
    const isBad = host === undefined || (bracketed !== undefined && isIP(host) !== 6) || port > 65_535
    return isBad ? null : { host, port }
  })
}

/** A setting with the value `off`, which is null. */
export function orOff<T>(inner: Setting<T>): Setting<T | null> {
  return { ...inner, parse: (value) => (value === 'off' ? null : inner.parse(value)) }
}

/** A host name, in lower case. */
export function domain(given: Given): Setting<string> {
  return readAs(given, 'must be a domain name, as in s3.example.com', (value) => {
    const name = value.toLowerCase()
    return name.length <= 253 && DOMAIN.test(name) && isIP(name) === 0 ? name : null
  })
}

export function httpUrl(given: Given): Setting<string> {
  return readAs(given, 'must be an http or https URL', (value) =>
    /^https?:$/.test(URL.parse(value)?.protocol ?? '') ? value : null,
  )
}

/** URL of a service, which is published: it holds no secret. */
export function serviceUrl(given: Given): Setting<string> {
  return readAs(given, 'must be an http or https URL, without credentials and query', (value) => {
    const url = URL.parse(value)
    const isPlain = url?.username === '' && url.password === '' && url.search === '' && url.hash === ''
    return isPlain && /^https?:$/.test(url.protocol) ? value : null
  })
}
