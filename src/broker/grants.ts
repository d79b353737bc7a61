/** What a caller may do. Source: specification "Authentication", contract "Broker". */

export const PERMISSIONS = [
  'tenant.administer',
  'tenant.inspect',
  'create_stream',
  'stream.inspect',
  'stream.publish',
  'stream.consume',
  'stream.ack',
] as const
export type Permission = (typeof PERMISSIONS)[number]

export interface Grant {
  readonly permission: Permission
  /** Name of a stream, or a prefix of names followed by `*`. Null: the grant is for the whole tenant. */
  readonly stream: string | null
}

export const isPermission = (text: string): text is Permission => PERMISSIONS.some((each) => each === text)

/** No permission implies another. */
export class Grants {
  readonly #streams: ReadonlyMap<
    Permission,
    { readonly names: ReadonlySet<string>; readonly prefixes: readonly string[] }
  >

  constructor(grants: readonly Grant[]) {
    const byPermission = Map.groupBy(grants, ({ permission }) => permission)
    this.#streams = new Map(
      Array.from(byPermission, ([permission, given]) => {
        const patterns = given.map(({ stream }) => stream ?? '*')
        const prefixes = patterns.filter((each) => each.endsWith('*')).map((each) => each.slice(0, -1))
        return [permission, { names: new Set(patterns), prefixes }]
      }),
    )
  }

  /** @param stream null: the tenant as a whole, which a grant for some of its streams does not include */
  allow(permission: Permission, stream: string | null): boolean {
    const given = this.#streams.get(permission)
    if (given === undefined) return false
    if (stream === null) return given.prefixes.includes('')
    return given.names.has(stream) || given.prefixes.some((prefix) => stream.startsWith(prefix))
  }
}

/** Grants of callers that need no credentials. */
export const ALL_GRANTS = new Grants(PERMISSIONS.map((permission) => ({ permission, stream: null })))
