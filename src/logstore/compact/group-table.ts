/** Makes equal groups the same object, so that the groups of a block are compared by identity. */
import type { Group } from './block-writer.ts'

export class GroupTable {
  readonly #byKey = new Map<string, number>()
  readonly groups: Group[] = []

  /** The number of the group in `groups`. The bytes of a new group are copied. */
  numberOf(group: Group): number {
    const { signal, format, source, root } = group
    const parts = [group.resource, group.scope, group.resourceSchemaUrl, group.scopeSchemaUrl]
    const texts = parts.map((part) => Buffer.from(part.buffer, part.byteOffset, part.byteLength).toString('latin1'))
    const key = `${signal} ${format} ${source} ${texts.map(({ length }) => length).join(' ')} ${texts.join('')}`
    const known = this.#byKey.get(key)
    if (known !== undefined) return known
    this.#byKey.set(key, this.groups.length)
    const [resource, scope, resourceSchemaUrl, scopeSchemaUrl] = parts.map((part) => Buffer.from(part)) as [
      Buffer,
      Buffer,
      Buffer,
      Buffer,
    ]
    return this.groups.push({ signal, format, source, root, resource, scope, resourceSchemaUrl, scopeSchemaUrl }) - 1
  }
}
